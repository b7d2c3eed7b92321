package session_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/agent"
	"lilac/internal/core/session"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// The model learns of stopped requests once, before the next message that it answers, also after
// a restart. Otherwise it would answer them, too.
func TestTheModelIsToldThatItsWorkWasStopped(t *testing.T) {
	dir, begun := t.TempDir(), make(chan struct{}, 1)
	var calls [][]string
	do := func(ctx context.Context, req llm.Request, _ func(string)) (chat.Message, error) {
		if strings.HasPrefix(lastUser(req), "work") {
			begun <- struct{}{}
			<-ctx.Done()
			return chat.Message{}, context.Cause(ctx)
		}
		if lastUser(req) == "fail" {
			return chat.Message{}, fault.New(fault.Invalid, "no")
		}
		var texts []string
		for _, m := range req.Messages {
			text, _, _ := strings.Cut(m.Text(), "\n\nToday: ")
			texts = append(texts, text)
		}
		calls = append(calls, texts)
		return chat.Text(chat.Assistant, "answer"), nil
	}
	start := func() *rig {
		r := newRig(t, rigOptions{dir: dir, do: do})
		r.model.notes = true
		return r
	}
	n := 0
	say := func(r *rig, text string, want event.RequestState) {
		t.Helper()
		n++
		id := fmt.Sprintf("web:s1:r%d", n)
		r.send(id, fmt.Sprint("m", n), event.Prompt, text)
		if want == event.StateCancelled {
			<-begun
			r.cancel(id, false)
		}
		if req := r.waitForEnd(id); req.State != want {
			t.Fatalf("%s ended as %s: %s", id, req.State, req.Detail)
		}
	}
	r := start()
	say(r, "work on one", event.StateCancelled)
	say(r, "work on two", event.StateCancelled)
	say(r, "fail", event.StateFailed)
	r.stop()
	r = start()
	say(r, "hello", event.StateDone)
	say(r, "go on", event.StateDone)
	want := []string{"work on one", "work on two", "fail", agent.StoppedNote, "hello"}
	if got := calls[0]; !slices.Equal(got, want) {
		t.Errorf("the model got %q, want %q", got, want)
	}
	if got := calls[1]; !slices.Equal(got, append(want, "answer", "go on")) {
		t.Errorf("the next call got %q", got)
	}
}

func TestAStopIsRememberedUntilARequestIsDone(t *testing.T) {
	var s session.State
	for i, tt := range []struct {
		name string
		in   []session.Input
		want bool
	}{
		{"done", []session.Input{session.WouldEnd{RequestID: "r0"}}, false},
		{"failed", []session.Input{session.Ended{RequestID: "r1", State: event.StateFailed}}, false},
		{"stopped", []session.Input{session.Cancel{RequestID: "r2"}, session.Ended{RequestID: "r2", State: event.StateCancelled}}, true},
		{"failed after a stop", []session.Input{session.Ended{RequestID: "r3", State: event.StateFailed}}, true},
		{"done after a stop", []session.Input{session.WouldEnd{RequestID: "r4"}}, false},
	} {
		begin := session.Message{MessageID: fmt.Sprint("m", i), RequestID: fmt.Sprint("r", i), Queue: event.Prompt, Client: "web"}
		for _, in := range append([]session.Input{begin}, tt.in...) {
			s, _ = session.Decide(s, in, time.Time{})
		}
		if !s.Idle() || s.Stopped != tt.want {
			t.Errorf("%s: stopped is %t, want %t; the state is %+v", tt.name, s.Stopped, tt.want, s)
		}
	}
}
