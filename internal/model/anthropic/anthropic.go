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
	// defaultMaxOutput is asked for when nothing is configured: the protocol
	// demands a number.
	defaultMaxOutput = 8192
)

// Model is a model behind a Messages endpoint.
type Model struct {
	o    llm.Options
	url  string
	wire *llm.Wire
}

// New returns the model. It does no I/O; what is wrong with the options shows
// when the model is called.
func New(o llm.Options) *Model {
	o, wire := o.Wire(provider, "Anthropic")
	if o.MaxOutputTokens <= 0 {
		o.MaxOutputTokens = defaultMaxOutput
	}
	o.Images = true // all of them do
	return &Model{o: o, url: endpoint(o.BaseURL), wire: wire}
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
		header := http.Header{"Anthropic-Version": {apiVersion}}
		if m.o.APIKey != "" {
			header.Set("X-Api-Key", m.o.APIKey)
		}
		a := &answer{yield: yield, blocks: map[int]*block{}}
		err = m.wire.Post(ctx, m.url, header, body, func(ev sse.Event) (bool, error) {
			return m.take(a, ev)
		})
		switch {
		case a.left:
			return nil
		case err != nil:
			return err
		case !a.stopped:
			return m.wire.Cut(nil)
		}
		done := a.done()
		done.Usage.CostMicros = m.o.Price.Cost(done.Usage)
		yield(done)
		return nil
	})
}

// take reads one event of the stream. Events of other types (ping, and those
// that are not invented yet) are left alone, as the protocol asks.
func (m *Model) take(a *answer, ev sse.Event) (more bool, err error) {
	var e wireEvent
	if err := json.Unmarshal(ev.Data, &e); err != nil {
		return false, m.wire.BadAnswer(fmt.Errorf("decode event %q: %w", ev.Type, err))
	}
	switch e.Type {
	case "error":
		return false, m.wire.Failure(llm.ParseTrouble(ev.Data))
	case "message_start":
		a.model = e.Message.Model
		a.usage.merge(e.Message.Usage)
	case "content_block_start":
		err = a.start(e.Index, e.ContentBlock)
	case "content_block_delta":
		err = a.delta(e.Index, e.Delta)
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
		a.stopped = true
		return false, nil
	}
	if err != nil {
		return false, m.wire.BadAnswer(fmt.Errorf("decode %s: %w", e.Type, err))
	}
	return !a.left, nil
}

func endpoint(base string) string {
	base = strings.TrimRight(strings.TrimSpace(base), "/")
	if base == "" {
		base = DefaultBaseURL
	}
	if strings.HasSuffix(base, "/messages") {
		return base
	}
	return strings.TrimSuffix(base, "/v1") + "/v1/messages"
}
