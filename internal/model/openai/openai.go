package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/sse"
	"lilac/internal/model/llm"
)

// DefaultBaseURL is OpenAI's own endpoint.
const DefaultBaseURL = "https://api.openai.com/v1"

// Model is a model behind a chat completions endpoint.
type Model struct {
	o        llm.Options
	url      string
	own      bool // OpenAI's own endpoint, which has renamed a field
	endpoint *llm.Endpoint
}

// New returns the model. It does no I/O; what is wrong with the options shows
// when the model is called.
func New(o llm.Options) *Model {
	o, wire := o.Endpoint("openai", "OpenAI")
	target := completionsURL(o.BaseURL)
	return &Model{o: o, url: target, own: strings.HasPrefix(target, "https://api.openai.com/"), endpoint: wire}
}

// Info describes the model.
func (m *Model) Info() llm.Info { return m.o.Info() }

// Stream makes one call.
func (m *Model) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return m.o.Retry.Stream(ctx, func(ctx context.Context, yield func(llm.Chunk) bool) error {
		if m.o.APIKey == "" && m.o.BaseURL == "" {
			return m.endpoint.MissingKey()
		}
		body, err := m.body(req)
		if err != nil {
			return fault.Wrap(fault.Invalid, err, "The request to %s cannot be written as JSON.", m.endpoint.Vendor)
		}
		header := http.Header{}
		if m.o.APIKey != "" {
			header.Set("Authorization", "Bearer "+m.o.APIKey)
		}
		a := newDecoder(body, yield)
		err = m.endpoint.Post(ctx, m.url, header, body, func(ev sse.Event) (bool, error) {
			return m.handle(a, ev)
		})
		switch {
		case a.abandoned:
			return nil
		case err != nil && (a.finish == "" || fault.KindOf(err) != fault.Unavailable):
			return err
		case a.finish == "" && !a.terminated:
			return m.endpoint.StreamCut(nil)
		}
		done, err := a.done()
		if err != nil {
			return m.endpoint.BadAnswer(err)
		}
		done.Usage.CostMicros = m.o.Price.Cost(done.Usage)
		yield(done)
		return nil
	})
}

// take reads one event of the stream.
func (m *Model) handle(a *decoder, ev sse.Event) (more bool, err error) {
	if text, ok := plainText(ev.Data); ok {
		a.appendText(text)
		return !a.abandoned, nil
	}
	data := strings.TrimSpace(string(ev.Data))
	switch data {
	case "":
		return true, nil
	case "[DONE]":
		a.terminated = true
		return false, nil
	}
	var c wireChunk
	if err := json.Unmarshal([]byte(data), &c); err != nil {
		a.finish = "" // what came before it cannot be trusted to be all
		return false, m.endpoint.BadAnswer(fmt.Errorf("decode chunk: %w", err))
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		a.finish = ""
		return false, m.endpoint.Fault(llm.ParseError([]byte(data)))
	}
	if err := a.chunk(c); err != nil {
		a.finish = ""
		return false, m.endpoint.BadAnswer(err)
	}
	return !a.abandoned, nil
}

var version = regexp.MustCompile(`/v[0-9][0-9a-z]*(/|$)`)

// completionsURL completes a base URL: the version is added unless its path has one
// (Gemini's stands in the middle), and a full URL is taken as it is.
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
	case !version.MatchString(u.Path):
		u.Path += "/v1"
	}
	u.Path += "/chat/completions"
	return u.String()
}
