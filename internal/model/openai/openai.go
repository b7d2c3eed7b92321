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
	o    llm.Options
	url  string
	own  bool // OpenAI's own endpoint, which has renamed a field
	wire *llm.Wire
}

// New returns the model. It does no I/O; what is wrong with the options shows
// when the model is called.
func New(o llm.Options) *Model {
	o, wire := o.Wire("openai", "OpenAI")
	target := endpoint(o.BaseURL)
	return &Model{o: o, url: target, own: strings.HasPrefix(target, "https://api.openai.com/"), wire: wire}
}

// Info describes the model.
func (m *Model) Info() llm.Info { return m.o.Info() }

// Stream makes one call.
func (m *Model) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return m.o.Retry.Stream(ctx, func(ctx context.Context, yield func(llm.Chunk) bool) error {
		if m.o.APIKey == "" && m.o.BaseURL == "" {
			return m.wire.MissingKey()
		}
		body, err := m.body(req)
		if err != nil {
			return fault.Wrap(fault.Invalid, err, "The request to %s cannot be written as JSON.", m.wire.Vendor)
		}
		header := http.Header{}
		if m.o.APIKey != "" {
			header.Set("Authorization", "Bearer "+m.o.APIKey)
		}
		a := newAnswer(body, yield)
		err = m.wire.Post(ctx, m.url, header, body, func(ev sse.Event) (bool, error) {
			return m.take(a, ev)
		})
		switch {
		case a.left:
			return nil
		case err != nil && (a.finish == "" || fault.KindOf(err) != fault.Unavailable):
			return err
		case a.finish == "" && !a.terminated:
			return m.wire.Cut(nil)
		}
		done, err := a.done()
		if err != nil {
			return m.wire.BadAnswer(err)
		}
		done.Usage.CostMicros = m.o.Price.Cost(done.Usage)
		yield(done)
		return nil
	})
}

// take reads one event of the stream.
func (m *Model) take(a *answer, ev sse.Event) (more bool, err error) {
	if text, ok := plainText(ev.Data); ok {
		a.say(text)
		return !a.left, nil
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
		return false, m.wire.BadAnswer(fmt.Errorf("decode chunk: %w", err))
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		a.finish = ""
		return false, m.wire.Failure(llm.ParseTrouble([]byte(data)))
	}
	if err := a.chunk(c); err != nil {
		a.finish = ""
		return false, m.wire.BadAnswer(err)
	}
	return !a.left, nil
}

var version = regexp.MustCompile(`/v[0-9][0-9a-z]*(/|$)`)

// endpoint completes a base URL: the version is added unless its path has one
// (Gemini's stands in the middle), and a full URL is taken as it is.
func endpoint(base string) string {
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
