package openai

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

// Model calls a chat completions endpoint. It is safe for concurrent use.
type Model struct {
	o        llm.Options
	url      string
	own      bool // OpenAI's own endpoint, which renamed a field
	endpoint *llm.Endpoint
	tools    encodedTools
}

// New returns the model. It does no I/O and reports invalid options on the first call.
func New(o llm.Options) *Model {
	o, endpoint := o.Endpoint("openai", "OpenAI")
	target := completionsURL(o.BaseURL)
	return &Model{o: o, url: target, own: llm.IsOpenAI(target), endpoint: endpoint}
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
	d := newDecoder(body, req.Tools, yield)
	err = m.endpoint.WithSilenceLimit(req.SilenceLimit).Post(ctx, m.url, m.header(), body, func(data []byte) (bool, error) {
		if err := d.event(data); err != nil {
			d.finish = "" // the answer may be incomplete
			return false, m.streamError(err)
		}
		return !d.abandoned && !d.terminated, nil
	})
	if broken := d.brokenError(); err == nil && broken != nil {
		err, d.finish = m.streamError(broken), ""
	}
	var refused *llm.ProviderError
	switch failedCall := errors.As(err, &refused) && refused.FailedCall != ""; {
	case d.abandoned:
		return sent, true, nil
	case failedCall && !tooManyFailedCalls(req.Messages):
		d.addFailedCall(refused.FailedCall)
	case err != nil && (d.finish == "" || fault.KindOf(err) != fault.Unavailable):
		return sent, d.begun, err
	case d.finish == "" && !d.terminated:
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

// completionsURL completes a base URL. It adds the version unless the path has one
// (Gemini's is in the middle), and returns a complete URL unchanged.
func completionsURL(base string) string {
	base = strings.TrimRight(strings.TrimSpace(base), "/")
	if base == "" {
		base = DefaultBaseURL
	}
	u, err := url.Parse(base)
	if err != nil {
		return base
	}
	switch {
	case strings.HasSuffix(u.Path, "/chat/completions"):
		return base
	case strings.Contains(u.Path, "/openai/deployments/"): // Azure's path has no version
	case !version.MatchString(u.Path):
		u.Path = strings.TrimRight(u.Path, "/") + "/v1"
	}
	u.Path = strings.TrimRight(u.Path, "/") + "/chat/completions"
	return u.String()
}
