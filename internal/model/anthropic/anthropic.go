package anthropic

import (
	"context"
	"errors"
	"iter"
	"net/url"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// DefaultBaseURL is Anthropic's own endpoint.
const DefaultBaseURL = "https://api.anthropic.com"

const (
	apiVersion = "2023-06-01"
	// vertexVersion takes the place of the version and the model in bodies for Vertex.
	vertexVersion = "vertex-2023-10-16"
	// defaultMaxOutput is used if nothing is configured, because the protocol requires
	// a limit.
	defaultMaxOutput = 8192
)

// Model calls a Messages endpoint. It is safe for concurrent use.
type Model struct {
	o        llm.Options
	url      string
	vertex   bool // Google's endpoint, which names the model in its address
	endpoint *llm.Endpoint
}

// New returns the model. It does no I/O and reports invalid options on the first call.
func New(o llm.Options) *Model {
	o, wire := o.Endpoint(provider, "Anthropic")
	if o.MaxOutputTokens <= 0 {
		o.MaxOutputTokens = defaultMaxOutput
	}
	o.Audio = false // the protocol has no part for recordings
	if target, ok := vertexURL(o.BaseURL, o.Model); ok {
		return &Model{o: o, url: target, vertex: true, endpoint: wire}
	}
	return &Model{o: o, url: messagesURL(o.BaseURL), endpoint: wire}
}

// Info describes the model.
func (m *Model) Info() llm.Info { return m.o.Info() }

// Stream makes one call.
func (m *Model) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return m.o.Retry.Stream(ctx, func(ctx context.Context, yield func(llm.Chunk) bool) error {
		if m.o.APIKey == "" && m.o.BaseURL == "" {
			return m.endpoint.MissingKey()
		}
		if err := m.endpoint.CheckKey(); err != nil {
			return err
		}
		return m.o.Learned.Adapt(func(facts llm.Facts, change llm.Change) (llm.Sent, bool, error) {
			return m.call(ctx, req, facts, change, yield)
		})
	})
}

// call makes one HTTP request. begun reports whether a chunk was passed to yield.
func (m *Model) call(ctx context.Context, req llm.Request, facts llm.Facts, change llm.Change, yield func(llm.Chunk) bool) (sent llm.Sent, begun bool, err error) {
	body, prefix, sent, err := m.body(req, facts, change)
	if err != nil {
		return sent, false, fault.Wrap(fault.Invalid, err, "The request to %s cannot be encoded as JSON.", m.endpoint.Vendor)
	}
	header := m.o.Header()
	if header.Get("Anthropic-Version") == "" && !m.vertex {
		header.Set("Anthropic-Version", apiVersion)
	}
	if m.o.APIKey != "" && header.Get("Authorization") == "" {
		header.Set("X-Api-Key", m.o.APIKey)
	}
	d := &decoder{yield: yield}
	err = m.endpoint.WithSilenceLimit(req.SilenceLimit).Post(ctx, m.url, header, body, func(data []byte) (bool, error) {
		if err := d.event(data); err != nil {
			d.stopReason = "" // the answer may be incomplete
			return false, m.streamError(err)
		}
		return !d.abandoned && !d.finished, nil
	})
	switch {
	case d.abandoned:
		return sent, true, nil
	case err != nil && (d.stopReason == "" || fault.KindOf(err) != fault.Unavailable):
		return sent, d.begun, err
	case !d.finished && d.stopReason == "": // some servers end with the stop reason
		return sent, d.begun, m.endpoint.StreamCut(nil)
	}
	done := d.done(m.o.Source(), prefix)
	done.WithoutThinking = change.NoReasoning
	if done.Usage.CostMicros == 0 {
		done.Usage.CostMicros = m.o.Price.Cost(done.Usage)
	}
	if !d.abandoned {
		yield(done)
	}
	return sent, true, nil
}

// streamError returns the fault for an error of the decoder.
func (m *Model) streamError(err error) error {
	var refused *llm.ProviderError
	if errors.As(err, &refused) {
		return m.endpoint.Fault(*refused)
	}
	return m.endpoint.BadAnswer(err)
}

// vertexURL returns the address of a model of Anthropic at Google Vertex: base is that of a
// project and a location. ok is false for every other address.
func vertexURL(base, model string) (target string, ok bool) {
	u, err := url.Parse(strings.TrimRight(strings.TrimSpace(base), "/"))
	if err != nil || !strings.HasSuffix(u.Hostname(), "aiplatform.googleapis.com") {
		return "", false
	}
	before, _, _ := strings.Cut(u.Path, "/publishers/")
	u.Path = before + "/publishers/anthropic/models/" + strings.TrimPrefix(model, "anthropic/") + ":streamRawPredict"
	return u.String(), true
}

func messagesURL(base string) string {
	base = strings.TrimRight(strings.TrimSpace(base), "/")
	if base == "" {
		base = DefaultBaseURL
	}
	if strings.HasSuffix(base, "/messages") {
		return base
	}
	return strings.TrimSuffix(base, "/v1") + "/v1/messages"
}
