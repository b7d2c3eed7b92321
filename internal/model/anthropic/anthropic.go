package anthropic

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/sse"
	"lilac/internal/model/llm"
)

// DefaultBaseURL is Anthropic's own endpoint.
const DefaultBaseURL = "https://api.anthropic.com"

const (
	apiVersion = "2023-06-01"
	// defaultMaxOutput is used if nothing is configured, because the protocol requires
	// a limit.
	defaultMaxOutput = 8192
)

// Model calls a Messages endpoint. It is safe for concurrent use.
type Model struct {
	o        llm.Options
	url      string
	endpoint *llm.Endpoint
}

// New returns the model. It does no I/O and reports invalid options on the first call.
func New(o llm.Options) *Model {
	o, wire := o.Endpoint(provider, "Anthropic")
	if o.MaxOutputTokens <= 0 {
		o.MaxOutputTokens = defaultMaxOutput
	}
	o.Images = true // all models accept images
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
		body, err := m.body(req)
		if err != nil {
			return fault.Wrap(fault.Invalid, err, "The request to %s cannot be written as JSON.", m.endpoint.Vendor)
		}
		header := http.Header{"Anthropic-Version": {apiVersion}}
		if m.o.APIKey != "" {
			header.Set("X-Api-Key", m.o.APIKey)
		}
		a := &decoder{yield: yield, blocks: map[int]*block{}}
		err = m.endpoint.Post(ctx, m.url, header, body, func(ev sse.Event) (bool, error) {
			return m.handle(a, ev)
		})
		switch {
		case a.abandoned:
			return nil
		case err != nil:
			return err
		case !a.finished:
			return m.endpoint.StreamCut(nil)
		}
		done := a.done()
		done.Usage.CostMicros = m.o.Price.Cost(done.Usage)
		yield(done)
		return nil
	})
}

// handle decodes one event of the stream. As the protocol requires, it ignores events of
// other types, such as ping and future ones.
func (m *Model) handle(a *decoder, ev sse.Event) (more bool, err error) {
	var e wireEvent
	if err := json.Unmarshal(ev.Data, &e); err != nil {
		return false, m.endpoint.BadAnswer(fmt.Errorf("decode event %q: %w", ev.Type, err))
	}
	switch e.Type {
	case "error":
		return false, m.endpoint.Fault(llm.ParseError(ev.Data))
	case "message_start":
		a.model = e.Message.Model
		a.usage.merge(e.Message.Usage)
	case "content_block_start":
		err = a.startBlock(e.Index, e.ContentBlock)
	case "content_block_delta":
		err = a.applyDelta(e.Index, e.Delta)
	case "message_delta":
		a.usage.merge(e.Usage)
		var d struct {
			StopReason string `json:"stop_reason"`
		}
		if len(e.Delta) > 0 {
			err = json.Unmarshal(e.Delta, &d)
		}
		if d.StopReason != "" {
			a.stopReason = d.StopReason
		}
	case "message_stop":
		a.finished = true
		return false, nil
	}
	if err != nil {
		return false, m.endpoint.BadAnswer(fmt.Errorf("decode %s: %w", e.Type, err))
	}
	return !a.abandoned, nil
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
