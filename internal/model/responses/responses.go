package responses

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// DefaultBaseURL is OpenAI's own endpoint.
const DefaultBaseURL = "https://api.openai.com/v1"

// Model calls a Responses endpoint. It is safe for concurrent use.
type Model struct {
	o        llm.Options
	url      string
	endpoint *llm.Endpoint
}

// New returns the model. It does no I/O and reports invalid options on the first call.
func New(o llm.Options) *Model {
	o, endpoint := o.Endpoint("openai", "OpenAI")
	o.Audio = false // the protocol has no part for recordings
	return &Model{o: o, url: responsesURL(o.BaseURL), endpoint: endpoint}
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
	body, sent, err := m.body(req, facts, change)
	if err != nil {
		return sent, false, fault.Wrap(fault.Invalid, err, "The request to %s cannot be encoded as JSON.", m.endpoint.Vendor)
	}
	d := &decoder{yield: yield}
	err = m.endpoint.WithSilenceLimit(req.SilenceLimit).Post(ctx, m.url, m.header(), body, func(data []byte) (bool, error) {
		if err := d.event(data); err != nil {
			return false, m.streamError(err)
		}
		return !d.abandoned && !d.finished, nil
	})
	switch {
	case d.abandoned:
		return sent, true, nil
	case err != nil && !d.finished:
		return sent, d.begun, err
	case !d.finished:
		return sent, d.begun, m.endpoint.StreamCut(nil)
	}
	done := d.done(m.o.Source())
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

func (m *Model) header() http.Header {
	header := m.o.Header()
	m.o.SetKey(header, m.url)
	return header
}

var version = regexp.MustCompile(`/v[0-9][0-9a-z]*(/|$)`)

// responsesURL completes a base URL. It adds the version unless the path has one, and
// returns a complete URL unchanged.
func responsesURL(base string) string {
	base = strings.TrimRight(strings.TrimSpace(base), "/")
	if base == "" {
		base = DefaultBaseURL
	}
	u, err := url.Parse(base)
	if err != nil || strings.HasSuffix(u.Path, "/responses") {
		return base
	}
	u.Path = strings.TrimSuffix(u.Path, "/chat/completions")
	if before, _, found := strings.Cut(u.Path, "/deployments/"); found { // Azure names the model in the body
		u.Path = before + "/responses"
		return u.String()
	}
	if !version.MatchString(u.Path) {
		u.Path += "/v1"
	}
	u.Path += "/responses"
	return u.String()
}
