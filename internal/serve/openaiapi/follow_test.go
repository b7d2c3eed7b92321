package openaiapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// delivery returns an event of the request r.
func delivery(t testing.TB, p event.Payload) bus.Delivery {
	t.Helper()
	e, err := event.New(event.Meta{ID: "e", Time: time.UnixMilli(1), Headers: event.RequestHeaders("v1-ide:s:m", "s", "v1-ide")}, p)
	if err != nil {
		t.Fatal(err)
	}
	return bus.Delivery{Event: e}
}

func TestAnAnswerIsStreamedOnce(t *testing.T) {
	text := func(offset int64, s string) event.Payload { return event.TextDelta{Offset: offset, Delta: s} }
	for name, c := range map[string]struct {
		from   int64
		events []event.Payload
		want   string // what the stream has
		whole  string // the complete answer
	}{
		"in order":         {0, []event.Payload{text(0, "Hello "), text(6, "world"), event.FinalText{FinalText: "Hello world"}}, "Hello |world", "Hello world"},
		"twice":            {0, []event.Payload{text(0, "Hello "), text(0, "Hello "), text(3, "lo world"), event.FinalText{FinalText: "Hello world"}}, "Hello |world", "Hello world"},
		"after a reset":    {0, []event.Payload{text(0, "Hello wor"), event.TextReset{Offset: 6}, text(6, "moon"), event.FinalText{FinalText: "Hello moon"}}, "Hello wor|" + restarted + "moon", "Hello moon"},
		"a lost end":       {0, []event.Payload{text(0, "Hello "), event.FinalText{FinalText: "Hello world"}}, "Hello |world", "Hello world"},
		"after a question": {6, []event.Payload{text(0, "Which?"), text(6, "Blue."), event.FinalText{FinalText: "Which?Blue."}}, "Blue.", "Blue."},
		"a reset before":   {6, []event.Payload{text(0, "Which?"), text(6, "Bl"), event.TextReset{Offset: 0}, text(6, "Red."), event.FinalText{FinalText: "Which?Red."}}, "Bl|" + restarted + "Red.", "Red."},
	} {
		var pieces []string
		f := &follower{requestID: "v1-ide:s:m", from: c.from, sent: c.from, sink: sink{text: func(s string) error { pieces = append(pieces, s); return nil }}}
		for _, e := range c.events {
			if err := f.handleOutput(delivery(t, e)); err != nil {
				t.Fatal(err)
			}
		}
		if got := strings.Join(pieces, "|"); got != c.want || f.text.String() != c.whole {
			t.Errorf("%s: streamed %q, and the answer is %q", name, got, f.text.String())
		}
	}
}

func TestTheEndOfAnAnswer(t *testing.T) {
	final := event.FinalText{FinalText: "Hi", Usage: &chat.Usage{InputTokens: 3, OutputTokens: 2}}
	for name, c := range map[string]struct {
		end  event.RequestLifecycle
		want string
	}{
		"done":         {event.RequestLifecycle{State: event.StateDone}, "Hi cancelled=false err=<nil> tokens=2"},
		"cancelled":    {event.RequestLifecycle{State: event.StateCancelled}, "Hi cancelled=true err=<nil> tokens=2"},
		"failed":       {event.RequestLifecycle{State: event.StateFailed, Detail: "No key.", ErrorKind: fault.Unavailable}, "Hi cancelled=false err=No key. tokens=2"},
		"a question":   {event.RequestLifecycle{State: event.StateRunning, Paused: true, Kind: "question", Detail: "Which?", Offset: 2}, "Hi\n\nWhich? cancelled=false err=<nil> tokens=0"},
		"at a limit":   {event.RequestLifecycle{State: event.StateRunning, Paused: true, Detail: "Go on?", Offset: 2}, "Hi cancelled=false err=<nil> tokens=0"},
		"not all text": {event.RequestLifecycle{State: event.StateRunning, Paused: true, Detail: "Go on?", Offset: 9}, "waits"},
	} {
		f := &follower{requestID: "v1-ide:s:m", run: run{RequestID: "v1-ide:s:m"}, sink: sink{text: func(string) error { return nil }}}
		if err := f.handleOutput(delivery(t, final)); err != nil {
			t.Fatal(err)
		}
		if err := f.handleLifecycle(delivery(t, c.end)); err != nil {
			t.Fatal(err)
		}
		out, ended, err := f.ended()
		got := "waits"
		if ended {
			got = fmt.Sprintf("%s cancelled=%v err=%v tokens=%d", out.text, out.cancelled, out.err, out.usage.OutputTokens)
		}
		if got != c.want || err != nil {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}
