package session_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"lilac/internal/agent/tool"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/model/llm"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/effort"
)

// three is a model that requests three tool calls and then answers with their results.
func three(_ context.Context, req llm.Request, say func(string)) (chat.Message, error) {
	if len(req.Messages) > 1 {
		return chat.Text(chat.Assistant, "told: "+lastUser(req)), nil
	}
	m := callCount("c1")
	m.Parts = append(m.Parts, callCount("c2").Parts[1], callCount("c3").Parts[1])
	return m, nil
}

// Tool calls that were stopped before they started are in the history. The output reports each of
// them once, before its last event, even if the process is killed after any commit.
func TestTheOutputReportsCallsThatNeverStarted(t *testing.T) {
	effort.SkipSlow(t)
	dbtest.FileOnly(t) // it copies the file after every commit
	stops := map[string]func(r *rig){
		"a stop":       func(r *rig) { r.cancel("web:s1:r1", false) },
		"an interrupt": func(r *rig) { r.send("web:s1:r1", "m2", event.Interrupt, "two") },
	}
	for name, stop := range stops {
		t.Run(name, func(t *testing.T) {
			src := t.TempDir()
			shots := &snapshots{t: t, root: t.TempDir(), src: src, on: true}
			began := make(chan struct{})
			hangs := &counter{do: func(ctx context.Context) error { close(began); <-ctx.Done(); return ctx.Err() }}
			r := newRig(t, rigOptions{dir: src, do: three, tools: []tool.Tool{hangs}, onCommit: shots.commit})
			r.send("web:s1:r1", "m1", event.Prompt, "one")
			<-began
			stop(r)
			r.waitForEnd("web:s1:r1")
			r.output("web:s1:r1")
			if told := strings.Join(r.calls("web:s1:r1"), " "); told != "start:c1 end:c1 end:c2 end:c3" {
				t.Errorf("its output tells of %s", told)
			}
			shots.set(false)
			r.stop()
			for i, dir := range shots.dirs {
				t.Run(fmt.Sprintf("commit %d", i), func(t *testing.T) {
					r := newRig(t, rigOptions{dir: dir, do: three, tools: []tool.Tool{&counter{}}})
					r.send("web:s1:r1", "m1", event.Prompt, "one")
					stop(r)
					r.waitForEnd("web:s1:r1")
					r.output("web:s1:r1")
					r.checkPaired()
				})
			}
		})
	}
}

func TestTheOutputReportsOpenCallsOfARequestThatIsGivenUp(t *testing.T) {
	effort.SkipSlow(t)
	r := untilGivenUp(t, three)
	r.output("web:s1:r1")
	if told := strings.Join(r.calls("web:s1:r1"), " "); !strings.HasSuffix(told, "end:c1 end:c2 end:c3") {
		t.Errorf("its output tells of %s", told)
	}
}

// slow is a history table whose reads of conversations repeat until the reader is canceled.
type slow struct{ session.HistoryTable }

func (s slow) Conversation(q db.Queryer, sessionID string) (session.Conversation, error) {
	for {
		if c, err := s.HistoryTable.Conversation(q, sessionID); err != nil {
			return c, err
		}
	}
}

func TestACancelBeforeTheJournalIsReadKeepsTheOutput(t *testing.T) {
	dbtest.FileOnly(t) // it copies the file after every commit
	src := t.TempDir()
	shots := &snapshots{t: t, root: t.TempDir(), src: src}
	began := make(chan struct{})
	hangs := &counter{do: func(ctx context.Context) error { close(began); <-ctx.Done(); return ctx.Err() }}
	r := newRig(t, rigOptions{dir: src, do: three, tools: []tool.Tool{hangs}, onCommit: shots.commit})
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	<-began
	shots.set(true)
	r.send("web:s1:r1", "m2", event.FollowUp, "touch") // causes one more commit
	waitUntil(t, "touched", func() bool { return r.mail("m2") != "" })
	shots.set(false)
	r.stop()
	r = newRig(t, rigOptions{
		dir: shots.dirs[len(shots.dirs)-1], do: three, tools: []tool.Tool{&counter{}},
		change: func(o *session.Options) { o.Tables.History = slow{o.Tables.History} },
	})
	r.cancel("web:s1:r1", false)
	r.waitForEnd("web:s1:r1")
	if text, final := r.output("web:s1:r1"); text != "counting" || final != text {
		t.Errorf("it has said %q, and in the end %q", text, final)
	}
}

// calls returns the tool call events of a request's output in order.
func (r *rig) calls(requestID string) (out []string) {
	r.t.Helper()
	for _, e := range r.events(event.OutputTopic(requestID)) {
		p, err := event.Decode(e)
		if err != nil {
			r.t.Fatal(err)
		}
		if shown, is := p.(event.ToolCallOutput); is {
			out = append(out, string(shown.Status)+":"+shown.ToolCallID)
		}
	}
	return out
}
