package environment_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/environment"
	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/grant"
)

func TestPublish(t *testing.T) {
	t.Run("publish_success, function_handler", func(t *testing.T) {
		w := newWorld(t)
		r, got := collect("custom.*")
		w.start(inbox{}, r)
		e := custom("1", "s")
		e.Payload = []byte(`{"n":1}`)
		e.Metadata.Extra = map[string]json.RawMessage{"more": []byte("[1]")}
		if !w.publish(e) {
			t.Error("a new event was dropped")
		}
		have := next(t, got)
		if have.ID != "1" || string(have.Payload) != `{"n":1}` || string(have.Metadata.Extra["more"]) != "[1]" || have.Timestamp == 0 {
			t.Errorf("the handler got %+v", have)
		}
	})
	t.Run("publish_idempotency", func(t *testing.T) {
		twice := func(box environment.Inbox) int {
			w := newWorld(t)
			r, got := collect("*")
			w.start(box, r)
			w.publish(custom("1", "s"))
			next(t, got)
			w.close() // also after a restart
			w.open()
			w.start(box, r)
			// The log forgets by age, so only the inbox knows the id for ever.
			w.publish(func() event.EnvEvent { e := custom("1", "s"); e.Metadata.TriggerSessionID = "s2"; return e }())
			w.publish(custom("end", "s"))
			n := 0
			for next(t, got).ID != "end" {
				n++
			}
			return n
		}
		if n := twice(inbox{}); n != 0 {
			t.Errorf("the second publish was handled %d times", n)
		}
	})
	t.Run("publish_idempotency control", func(t *testing.T) {
		w := newWorld(t)
		w.start(forgetful{})
		w.publish(custom("1", "s"))
		if !w.publish(custom("1", "s")) {
			t.Error("without the inbox a repeated id is dropped, too: the test shows nothing")
		}
	})
	t.Run("publish_unknown_type", func(t *testing.T) {
		w := newWorld(t)
		w.start(inbox{}, w.defaults()[0]) // the fallback would match
		w.publish(custom("lonely", "s"))
		eventually(t, "a warning", func() bool {
			return strings.Contains(w.log.String(), "no rule matched") && strings.Contains(w.log.String(), "lonely")
		})
		letters, err := w.bus.DeadLetters(context.Background(), "", 10)
		if err != nil || len(letters) > 0 {
			t.Errorf("dead letters %v, %v", letters, err)
		}
	})
	t.Run("bad events are refused", func(t *testing.T) {
		w := newWorld(t)
		w.start(inbox{})
		for _, e := range []event.EnvEvent{
			{Type: "custom.x"},
			{ID: "1", Type: "Bad Type"},
			{ID: "1", Type: event.CmdRequestMessage},
			{ID: "1", Type: "custom.x", Payload: []byte("{")},
		} {
			if _, err := w.svc.Publish(context.Background(), e); err == nil {
				t.Errorf("%+v was taken", e)
			}
		}
	})
}

func TestQueue(t *testing.T) {
	t.Run("queue_processing, queue_prevents_concurrent", func(t *testing.T) {
		w := newWorld(t)
		var mu sync.Mutex
		running, overlaps := 0, 0
		got := make(chan string, 100)
		r := rule("slow", 1, "*")
		r.Action = environment.Function(func(_ context.Context, _ bus.Delivery, e event.EnvEvent) error {
			mu.Lock()
			if running++; running > 1 {
				overlaps++
			}
			mu.Unlock()
			got <- e.ID
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		})
		w.start(inbox{}, r)
		const n = 50
		for i := range n {
			w.publish(custom(fmt.Sprintf("%02d", i), "s"))
		}
		for i := range n {
			select {
			case id := <-got:
				if id != fmt.Sprintf("%02d", i) {
					t.Fatalf("event %s came as number %d", id, i)
				}
			case <-time.After(time.Minute):
				t.Fatal("an event is missing")
			}
		}
		if overlaps > 0 {
			t.Errorf("%d events of one session were handled side by side", overlaps)
		}
	})
	for name, fail := range map[string]func() error{
		"a failing handler is retried and the bus goes on":   func() error { return errors.New("no") },
		"a panicking handler is retried and the bus goes on": func() error { panic("no") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			attempts := 0
			got := make(chan int, 10)
			r := rule("flaky", 1, "custom.*")
			r.Action = environment.Function(func(context.Context, bus.Delivery, event.EnvEvent) error {
				if attempts++; attempts < 2 {
					return fail()
				}
				got <- attempts
				return nil
			})
			w.start(inbox{}, r)
			w.publish(custom("1", "s"))
			select {
			case n := <-got:
				if n != 2 {
					t.Errorf("handled at attempt %d", n)
				}
			case <-time.After(time.Minute):
				t.Fatal("it was not retried")
			}
		})
	}
}

// D7, 8.6 Error Recovery: a handler that never succeeds is tried five times and
// put aside; the events behind it, of its session too, are handled. Then it can
// be replayed.
func TestAHandlerThatNeverSucceedsIsPutAside(t *testing.T) {
	for name, fail := range map[string]func(context.Context) error{
		"it fails":  func(context.Context) error { return errors.New("no") },
		"it panics": func(context.Context) error { panic("no") },
		"it hangs":  func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				var mu sync.Mutex
				tried, mended := 0, false
				var handled []string
				r := rule("broken", 1, "custom.*")
				r.Action = environment.Function(func(ctx context.Context, _ bus.Delivery, e event.EnvEvent) error {
					mu.Lock()
					bad := e.ID == "bad" && !mended
					if bad {
						tried++
					} else {
						handled = append(handled, e.ID)
					}
					mu.Unlock()
					if bad {
						return fail(ctx)
					}
					return nil
				})
				w.start(inbox{}, r)
				w.publish(custom("bad", "s"))
				w.publish(custom("behind", "s"))
				w.publish(custom("elsewhere", "s2"))
				time.Sleep(time.Second)
				mu.Lock()
				if !slices.Equal(handled, []string{"elsewhere"}) {
					t.Errorf("while it is tried, %q are handled; another session must not wait, its own must", handled)
				}
				mu.Unlock()
				time.Sleep(time.Hour)
				letters, err := w.bus.DeadLetters(context.Background(), "", 10)
				if err != nil || len(letters) != 1 || letters[0].Event.ID != "bad" || letters[0].Attempts != 5 {
					t.Fatalf("dead letters %+v, %v", letters, err)
				}
				mu.Lock()
				if tried != 5 || !slices.Equal(handled, []string{"elsewhere", "behind"}) {
					t.Errorf("it was tried %d times, and %q are handled", tried, handled)
				}
				mended = true
				mu.Unlock()
				if err := w.bus.Replay(context.Background(), letters[0].ID); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				mu.Lock()
				defer mu.Unlock()
				if handled[len(handled)-1] != "bad" {
					t.Errorf("after the replay %q are handled", handled)
				}
			})
		})
	}
}

// Events that are of no session are handled in order within their source, and
// those of another do not wait for them.
func TestSourcesDoNotWaitForEachOther(t *testing.T) {
	w := newWorld(t)
	got, release := make(chan string, 10), make(chan struct{})
	r := rule("slow", 1, "*")
	r.Action = environment.Function(func(ctx context.Context, _ bus.Delivery, e event.EnvEvent) error {
		if e.ID == "a1" {
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		got <- e.ID
		return nil
	})
	w.start(inbox{}, r)
	of := func(id, source string) event.EnvEvent {
		e := custom(id, "")
		e.Metadata.EnvName = source
		return e
	}
	for _, e := range []event.EnvEvent{of("a1", "a"), of("a2", "a"), of("b1", "b")} {
		w.publish(e)
	}
	if id := <-got; id != "b1" {
		t.Errorf("%s was handled before the other source", id)
	}
	close(release)
	if first, second := <-got, <-got; first != "a1" || second != "a2" {
		t.Errorf("handled %s, then %s", first, second)
	}
}

// A storm of events that are for nobody is one warning, and counted.
func TestAWarningIsSaidOnceInAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.start(inbox{}, w.defaults()[0])
		said := func() int { return strings.Count(w.log.String(), "no rule matched") }
		for i := range 50 {
			w.publish(custom(fmt.Sprint(i), ""))
		}
		w.publish(event.EnvEvent{ID: "other", Type: "custom.y"})
		time.Sleep(inAWhile)
		if said() != 2 || !strings.Contains(w.log.String(), "custom.y") {
			t.Errorf("%d warnings, want one for each type:\n%s", said(), w.log.String())
		}
		time.Sleep(time.Hour)
		w.publish(custom("later", ""))
		time.Sleep(inAWhile)
		if said() != 3 || !strings.Contains(w.log.String(), "events_before=49") {
			t.Errorf("%d warnings:\n%s", said(), w.log.String())
		}
	})
}

// 8.6 Concurrent Events: many publishers, many sessions, each id published
// twice; every event is handled once, in order within its session, and never two
// of a session at once.
func TestManyEventsAtOnceAreHandledOnceAndInOrder(t *testing.T) {
	const sessions, each = 20, 15
	w := newWorld(t)
	var mu sync.Mutex
	running, got := map[string]int{}, map[string][]string{}
	n := 0
	r := rule("count", 1, "custom.*")
	r.Action = environment.Function(func(_ context.Context, _ bus.Delivery, e event.EnvEvent) error {
		id := e.Metadata.TriggerSessionID
		mu.Lock()
		if running[id]++; running[id] > 1 {
			t.Errorf("two events of %s are handled at once", id)
		}
		mu.Unlock()
		runtime.Gosched()
		mu.Lock()
		defer mu.Unlock()
		running[id]--
		got[id] = append(got[id], e.ID)
		n++
		return nil
	})
	w.start(inbox{}, r)
	var publishers sync.WaitGroup
	for s := range sessions {
		publishers.Go(func() {
			for i := range each {
				for range 2 {
					if _, err := w.svc.Publish(context.Background(), custom(fmt.Sprintf("%d-%02d", s, i), fmt.Sprint("s", s))); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	publishers.Wait()
	eventually(t, "all are handled", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return n >= sessions*each
	})
	mu.Lock()
	defer mu.Unlock()
	for id, ids := range got {
		if len(ids) != each || !slices.IsSorted(ids) {
			t.Errorf("%s got %q", id, ids)
		}
	}
}

func TestDefaultRules(t *testing.T) {
	t.Run("user_query_rule_handles", func(t *testing.T) {
		w := newWorld(t)
		w.start(inbox{}, w.defaults()...)
		files := json.RawMessage(`[{"type":"file","data":"blob:sha256:00","mediaType":"text/plain","filename":"a.txt"}]`)
		w.publish(query("q1", "s", event.UserQueryPayload{Content: "hi", RequestID: "web:s:m1", MessageID: "m1", Queue: event.Prompt, Client: "web"}))
		w.publish(query("q2", "s", event.UserQueryPayload{Content: "more", RequestID: "web:s:m1", ElseRequestID: "web:s:m2", MessageID: "m2", Queue: event.Steer, Client: "web", Attachments: files}))
		all := w.commands(2)
		want := []string{
			`{"queue":"prompt","messages":[{"role":"user","content":"hi"}],"messageId":"m1","grant":[{"person":{"id":"operator"}}]}`,
			`{"queue":"steer","messages":[{"role":"user","content":[{"type":"text","text":"more"},{"type":"file","data":"blob:sha256:00","filename":"a.txt","mediaType":"text/plain"}]}],"messageId":"m2","elseRequestId":"web:s:m2","anyActive":true,"grant":[{"person":{"id":"operator"}}]}`,
		}
		for i, e := range all {
			if diff := cmp.Diff(want[i], string(e.Data)); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(event.RequestHeaders("web:s:m1", "s", "web"), e.Headers); diff != "" {
				t.Error(diff)
			}
		}
	})
	t.Run("a person with an account asks in their own name", func(t *testing.T) {
		w := newWorld(t)
		member := func() grant.Tools { return grant.Tools{From: "accounts.member.tools", Deny: []string{"bash"}} }
		w.start(inbox{}, environment.DefaultRules(environment.DefaultsOptions{DB: w.db, Member: member})...)
		for i, author := range []*event.Author{{ID: "ada", Name: "Ada", Role: "member"}, {ID: "olga", Name: "Olga", Role: "operator"}, {ID: "operator", Name: "Operator"}} {
			id := fmt.Sprintf("m%d", i)
			w.publish(query("q"+id, "s", event.UserQueryPayload{Content: "hi", RequestID: "web:s:" + id, MessageID: id, Queue: event.Prompt, Client: "web", Author: author}))
		}
		want := []string{
			`{"queue":"prompt","messages":[{"role":"user","content":"hi","author":{"id":"ada","name":"Ada","messageId":"m0"}}],"messageId":"m0","grant":[{"person":{"id":"account:ada","roles":["member"],"rolesKnown":true}},{"from":"accounts.member.tools","deny":["bash"]}]}`,
			`{"queue":"prompt","messages":[{"role":"user","content":"hi","author":{"id":"olga","name":"Olga","messageId":"m1"}}],"messageId":"m1","grant":[{"person":{"id":"account:olga","roles":["operator"],"rolesKnown":true}}]}`,
			`{"queue":"prompt","messages":[{"role":"user","content":"hi","author":{"id":"operator","name":"Operator","messageId":"m2"}}],"messageId":"m2","grant":[{"person":{"id":"operator"}}]}`,
		}
		for i, e := range w.commands(3) {
			if diff := cmp.Diff(want[i], string(e.Data)); diff != "" {
				t.Error(diff)
			}
		}
	})
	t.Run("a stop stays behind what it stops", func(t *testing.T) {
		w := newWorld(t)
		w.start(inbox{}, w.defaults()...)
		w.publish(query("q1", "s", event.UserQueryPayload{Content: "hi", RequestID: "web:s:m1", MessageID: "m1", Client: "web"}))
		for id, stop := range map[string]event.UserStopPayload{
			"s1": {SessionID: "s", RequestID: "web:s:m1", Client: "web", Reason: "enough"}, "s2": {SessionID: "gone", Client: "web"},
		} {
			payload, _ := json.Marshal(stop)
			w.publish(event.EnvEvent{ID: id, Type: event.UserStop, Metadata: event.EnvMetadata{TriggerSessionID: stop.SessionID}, Payload: payload})
		}
		w.publish(event.EnvEvent{ID: "s3", Type: event.UserStop, Metadata: event.EnvMetadata{TriggerSessionID: "s"}, Payload: []byte(`{"sessionId":"s","client":"web","cancelQueued":true}`)})
		var got []string
		for _, e := range w.commands(3) {
			got = append(got, string(e.Type)+" "+e.Key+" "+string(e.Data))
		}
		want := []string{
			`cmd.request.message web:s:m1 {"queue":"prompt","messages":[{"role":"user","content":"hi"}],"messageId":"m1","grant":[{"person":{"id":"operator"}}]}`,
			`cmd.request.cancel web:s:m1 {"reason":"enough"}`,
			`cmd.request.cancel web:s:stop {"cancelQueued":true,"anyActive":true}`,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("an unknown session buys nothing", func(t *testing.T) {
		w := newWorld(t)
		w.start(inbox{}, w.defaults()...)
		w.publish(query("q1", "gone", event.UserQueryPayload{Content: "hi", RequestID: "web:gone:m1", MessageID: "m1", Client: "web"}))
		w.publish(query("q2", "s", event.UserQueryPayload{Content: "hi", RequestID: "web:s:m1", MessageID: "m1", Client: "web"}))
		if all := w.commands(1); len(all) != 1 || all[0].Lane != "s" {
			t.Errorf("commands %v", all)
		}
		eventually(t, "a warning", func() bool { return strings.Contains(w.log.String(), "unknown session") })
	})
	t.Run("a malformed user_query is set aside at once", func(t *testing.T) {
		w := newWorld(t)
		w.start(inbox{}, w.defaults()...)
		bad := query("q1", "s", event.UserQueryPayload{})
		bad.Payload = []byte(`{"content":7}`)
		w.publish(bad)
		w.publish(query("q2", "s", event.UserQueryPayload{Content: "hi", RequestID: "web:s:m1", MessageID: "m1", Client: "web"}))
		w.commands(1)
		letters, err := w.bus.DeadLetters(context.Background(), "", 10)
		if err != nil || len(letters) != 1 || letters[0].Event.ID != "q1" || letters[0].Attempts != 1 {
			t.Errorf("dead letters %+v, %v; want q1 after one attempt", letters, err)
		}
	})
	t.Run("session_rule_logs", func(t *testing.T) {
		w := newWorld(t)
		w.start(inbox{}, w.defaults()...)
		w.publish(event.EnvEvent{ID: "c1", Type: event.SessionCreated, Metadata: event.EnvMetadata{TriggerSessionID: "s"}})
		eventually(t, "a line in the log", func() bool { return strings.Contains(w.log.String(), "session event") })
	})
	t.Run("what was published before the start is handled", func(t *testing.T) {
		w := newWorld(t)
		w.svc = environment.New(environment.Options{DB: w.db, Bus: w.bus, Inbox: inbox{}})
		w.publish(query("q1", "s", event.UserQueryPayload{Content: "hi", RequestID: "web:s:m1", MessageID: "m1", Client: "web"}))
		w.start(inbox{}, w.defaults()...)
		w.commands(1)
	})
}
