package session_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/agent/tool"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/model/llm"
)

// activity counts the activity events, by which a request without output shows that it still works.
func (r *rig) activity(requestID string) (n int) {
	r.t.Helper()
	for _, e := range r.events(event.OutputTopic(requestID)) {
		if e.Type == event.OutputActive {
			n++
		}
	}
	return n
}

// These tests use the fake clock of a synctest bubble, so hours take no time.
func TestASilentModelOrToolPublishesActivityEvery30Seconds(t *testing.T) {
	silent := func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Second):
		}
	}
	for name, c := range map[string]struct {
		do   script
		tool func(context.Context) error
		want int
	}{
		"a model": {want: 3, do: func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
			silent(ctx)
			return echo(ctx, req, say)
		}},
		"a tool": {want: 3, do: busy, tool: func(ctx context.Context) error { silent(ctx); return nil }},
		"control: a model that talks": {want: 0, do: func(_ context.Context, _ llm.Request, say func(string)) (chat.Message, error) {
			text := ""
			for range 10 {
				say("x")
				text += "x"
				time.Sleep(10 * time.Second)
			}
			return chat.Text(chat.Assistant, text), nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, rigOptions{do: c.do, tools: []tool.Tool{&counter{do: c.tool}}})
				defer r.stop()
				r.send("web:s1:r1", "m1", event.Prompt, "one")
				time.Sleep(3 * time.Minute)
				r.waitForEnd("web:s1:r1")
				if got := r.activity("web:s1:r1"); got != c.want {
					t.Errorf("%d events of activity in 100 seconds, want %d", got, c.want)
				}
			})
		})
	}
}

// counted counts the reads of two tables and can make writes of the journal fail.
type counted struct {
	session.StateTable
	session.JournalTable
	calls atomic.Int64

	mu   sync.Mutex
	fail func(e session.Entry) error
}

func (c *counted) State(q db.Queryer, sessionID string) (session.State, error) {
	c.calls.Add(1)
	return c.StateTable.State(q, sessionID)
}

func (c *counted) Unfinished(q db.Queryer) ([]string, error) {
	c.calls.Add(1)
	return c.StateTable.Unfinished(q)
}

func (c *counted) Journal(q db.Queryer, requestID string) ([]session.StoryEntry, error) {
	c.calls.Add(1)
	return c.JournalTable.Journal(q, requestID)
}

func (c *counted) Record(tx *db.Tx, requestID string, e session.Entry) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		if err := c.fail(e); err != nil {
			return err
		}
	}
	return c.JournalTable.Record(tx, requestID, e)
}

// count puts a counted between the service and its tables.
func count(o *session.Options, fail func(session.Entry) error) *counted {
	c := &counted{StateTable: o.Tables.States, JournalTable: o.Tables.Journal, fail: fail}
	o.Tables.States, o.Tables.Journal = c, c
	return c
}

func TestAnIdleSessionCostsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var counts *counted
		var commits, woken atomic.Int64
		r := newRig(t, rigOptions{
			onCommit: func(bool) { commits.Add(1) },
			change: func(o *session.Options) {
				counts = count(o, nil)
				o.Now = func() time.Time { woken.Add(1); return time.Now() }
			},
		})
		defer r.stop()
		r.send("web:s1:r1", "m1", event.Prompt, "one")
		r.waitForEnd("web:s1:r1")
		time.Sleep(time.Minute) // let follow-up work of the request finish
		calls, asked, wrote, looked := r.model.count(), counts.calls.Load(), commits.Load(), woken.Load()
		time.Sleep(20 * time.Hour)
		if n := r.model.count() - calls; n != 0 {
			t.Errorf("%d model calls although nobody spoke", n)
		}
		if n := counts.calls.Load() - asked; n != 0 {
			t.Errorf("the store was asked %d times", n)
		}
		if n := woken.Load() - looked; n != 0 {
			t.Errorf("the runner woke %d times", n)
		}
		t.Logf("%d commits in 20 hours", commits.Load()-wrote)
		// Control: a new message changes each of these counts.
		r.send("web:s1:r2", "m2", event.Prompt, "two")
		r.waitForEnd("web:s1:r2")
		if r.model.count() == calls || counts.calls.Load() == asked || woken.Load() == looked {
			t.Error("nothing is counted")
		}
	})
}

func TestARunWhoseWriteFailsIsResumedInTheProcess(t *testing.T) {
	broken := errors.New("the disk is full")
	for _, kind := range []string{"model", "tool_start", "tool_end", "end", "input"} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var counts *counted
				failures := 0
				r := newRig(t, rigOptions{do: busy, tools: []tool.Tool{&counter{}}, change: func(o *session.Options) {
					counts = count(o, func(e session.Entry) error {
						if e.Kind != kind || kind == "input" && failures > 0 || failures > 2 {
							return nil
						}
						failures++
						return broken
					})
				}})
				defer r.stop()
				r.send("web:s1:r1", "m1", event.Prompt, "one")
				time.Sleep(5 * time.Minute)
				req := r.waitForEnd("web:s1:r1")
				counts.mu.Lock()
				defer counts.mu.Unlock()
				if failures == 0 || req.State != event.StateDone {
					t.Errorf("failed %d times and ended as %s: %s", failures, req.State, req.Detail)
				}
				r.output("web:s1:r1")
				r.checkPaired()
				if n := strings.Count(strings.Join(r.texts(), "\n"), "told: one"); n != 1 {
					t.Errorf("answered %d times: %q", n, r.texts())
				}
			})
		})
	}
	t.Run("control: while the disk stays full nothing ends", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			r := newRig(t, rigOptions{do: busy, tools: []tool.Tool{&counter{}}, change: func(o *session.Options) {
				count(o, func(e session.Entry) error {
					if e.Kind == "started" || e.Kind == "queued" || e.Kind == "input" {
						return nil
					}
					return broken
				})
			}})
			defer r.stop()
			r.send("web:s1:r1", "m1", event.Prompt, "one")
			time.Sleep(time.Hour)
			if req := r.request("web:s1:r1"); req.State.Ended() {
				t.Errorf("ended as %s", req.State)
			}
		})
	})
}
