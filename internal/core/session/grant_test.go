package session_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"lilac/internal/agent/tool"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/grant"
	"lilac/internal/model/llm"
)

// countsOnce calls the tool count once and ends. Its answer is the tool's result.
func countsOnce(_ context.Context, req llm.Request, _ func(string)) (chat.Message, error) {
	last := req.Messages[len(req.Messages)-1]
	if results := last.ToolResults(); len(results) > 0 {
		text, _ := results[0].OutputText()
		return chat.Text(chat.Assistant, text), nil
	}
	return callCount(fmt.Sprintf("c%d", len(req.Messages))), nil
}

var (
	onlyReading = grant.Of(grant.Tools{From: "the rule ci", Allow: []string{"read"}})
	notCounting = grant.Of(grant.Tools{From: "the channel 5", Deny: []string{"count"}})
	counting    = grant.Of(grant.Tools{From: "the rule ok", Allow: []string{"count"}})
)

func withGrant(g grant.Grant) func(*event.RequestMessage) {
	return func(m *event.RequestMessage) { m.Grant = g }
}

func TestARequestUsesOnlyWhatItsPlaceAndItsMessageAllow(t *testing.T) {
	for name, c := range map[string]struct {
		place, message grant.Grant
		refused        string
	}{
		"control: nothing is restricted": {nil, nil, ""},
		"control: both allow it":         {counting, counting, ""},
		"the place denies it":            {notCounting, nil, "The channel 5 does not allow count here."},
		"the message denies it":          {nil, onlyReading, "The rule ci does not allow count here. It allows only: read."},
		"the message cannot allow more":  {notCounting, counting, "The channel 5 does not allow count here."},
	} {
		t.Run(name, func(t *testing.T) {
			tools := &counter{}
			r := newRig(t, rigOptions{do: countsOnce, tools: []tool.Tool{tools}, change: func(o *session.Options) { o.Surfaces = fakeSurfaces{grant: c.place} }})
			r.send("web:s1:r1", "m1", event.Prompt, "go", withGrant(c.message))
			r.waitForEnd("web:s1:r1")
			text, _ := r.output("web:s1:r1")
			if c.refused == "" && (tools.runs != 1 || !strings.Contains(text, "counted 1")) {
				t.Errorf("the tool ran %d times: %q", tools.runs, text)
			}
			if c.refused != "" && (tools.runs != 0 || !strings.Contains(text, c.refused)) {
				t.Errorf("the tool ran %d times: %q, want %q", tools.runs, text, c.refused)
			}
			r.checkPaired()
		})
	}
}

// The restrictions of an accepted message wait with it, and those of a running request
// survive the process. A message that joins a request restricts it from then on, and
// another one cannot undo that.
func TestRestrictionsSurviveARestartAndOnlyGrow(t *testing.T) {
	dir := t.TempDir()
	arrived, more := make(chan struct{}), make(chan struct{})
	var once sync.Once
	tools := &counter{}
	do := func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
		once.Do(func() { close(arrived) })
		select {
		case <-more:
		case <-ctx.Done():
			return chat.Message{}, ctx.Err()
		}
		return countsOnce(ctx, req, say)
	}
	r := newRig(t, rigOptions{dir: dir, do: do, tools: []tool.Tool{tools}})
	r.send("web:s1:r1", "m1", event.Prompt, "go")
	<-arrived
	r.send("web:s1:r1", "m2", event.Steer, "look at this", withGrant(onlyReading))
	r.send("web:s1:r2", "m3", event.Prompt, "and this", withGrant(notCounting))
	waitUntil(t, "both are accepted", func() bool {
		n := 0
		r.read(func(q db.Queryer) error {
			s, err := r.store.States.State(q, sid)
			n = s.WaitingMessages()
			return err
		})
		return n == 2
	})
	r.stop()
	close(more)
	r = newRig(t, rigOptions{dir: dir, do: do, tools: []tool.Tool{tools}})
	r.waitForEnd("web:s1:r1")
	r.waitForEnd("web:s1:r2")
	if tools.runs != 0 {
		t.Errorf("the tool ran %d times", tools.runs)
	}
	for id, want := range map[string]string{"web:s1:r1": "The rule ci does not allow", "web:s1:r2": "The channel 5 does not allow"} {
		if text, _ := r.output(id); !strings.Contains(text, want) {
			t.Errorf("%s: %q", id, text)
		}
		r.read(func(q db.Queryer) error {
			g, err := r.store.RuleRuns.GrantOf(q, id)
			if g.Allows("count") {
				t.Errorf("%s may count according to its journal: %+v", id, g)
			}
			return err
		})
	}
	// Control: the next request is not restricted.
	r.send("web:s1:r3", "m4", event.Prompt, "go")
	r.waitForEnd("web:s1:r3")
	if tools.runs != 1 {
		t.Errorf("afterwards the tool ran %d times, want once", tools.runs)
	}
}

func TestADamagedJournalAllowsNothing(t *testing.T) {
	if session.GrantOf([]session.StoryEntry{{Kind: session.EntryDamaged}}).Allows("read") {
		t.Error("a damaged entry allows reading")
	}
	if session.GrantOf([]session.StoryEntry{{Kind: "started", Data: []byte(`{"grant":7}`)}}).Allows("read") {
		t.Error("an unreadable grant allows reading")
	}
	if !session.GrantOf([]session.StoryEntry{{Kind: "started", Data: []byte(`{}`)}}).Allows("read") {
		t.Error("control: an empty grant does not allow reading")
	}
}
