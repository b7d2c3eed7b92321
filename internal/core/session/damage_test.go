package session_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/model/llm"
	"lilac/internal/store"
	"lilac/internal/testkit/effort"
)

// damage changes the database before the service starts again.
func damage(t *testing.T, statement string, args ...any) func(*session.Options) {
	return func(o *session.Options) {
		err := o.DB.Update(context.Background(), func(tx *db.Tx) error {
			res, err := tx.Exec(statement, args...)
			if err != nil {
				return err
			}
			if n, _ := res.RowsAffected(); n == 0 {
				t.Errorf("%s changed nothing", statement)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

const damageJournal = "UPDATE journal SET checksum = checksum + 1 WHERE request_id = ? AND kind = 'started'"

// speechless streams half of its answer to "one" and then blocks. It answers all other messages.
func speechless(said chan<- struct{}) script {
	return func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
		if lastUser(req) != "one" {
			return echo(ctx, req, say)
		}
		say("half")
		said <- struct{}{}
		<-ctx.Done()
		return chat.Message{}, context.Cause(ctx)
	}
}

func TestARequestWhoseJournalIsDamagedEndsAndTheNextOneRuns(t *testing.T) {
	dir, said := t.TempDir(), make(chan struct{}, 1)
	r := newRig(t, rigOptions{dir: dir, do: speechless(said)})
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	<-said
	r.stop()
	r = newRig(t, rigOptions{dir: dir, do: speechless(said), change: damage(t, damageJournal, "web:s1:r1")})
	r.send("web:s1:r2", "m2", event.Prompt, "two")
	if req := r.waitForEnd("web:s1:r2"); req.State != event.StateDone {
		t.Errorf("the next request is %s: %s", req.State, req.Detail)
	}
	if req := r.waitForEnd("web:s1:r1"); req.State != event.StateFailed || !strings.Contains(req.Detail, "damaged") {
		t.Errorf("the damaged request is %s: %s", req.State, req.Detail)
	}
}

func TestAPausedRequestWhoseJournalIsDamagedCanBeStopped(t *testing.T) {
	dir, limits := t.TempDir(), session.Limits{Request: session.Budget{Steps: 2}}
	r := looping(t, dir, once, limits)
	r.send("web:s1:r1", "m1", event.Prompt, "go")
	r.pauses(1)
	r.stop()
	r = newRig(t, rigOptions{dir: dir, change: damage(t, damageJournal, "web:s1:r1")})
	r.cancel("web:s1:r1", false)
	if req := r.waitForEnd("web:s1:r1"); req.State != event.StateCancelled {
		t.Errorf("the request is %s: %s", req.State, req.Detail)
	}
}

// waitsDamaged restarts a service with a damaged queued message: "two" is unreadable and waits behind
// "one", which runs again after the restart.
func waitsDamaged(t *testing.T, do script) *rig {
	dir, said := t.TempDir(), make(chan struct{}, 1)
	r := newRig(t, rigOptions{dir: dir, do: speechless(said)})
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	<-said
	r.send("web:s1:r2", "m2", event.Prompt, "two")
	waitUntil(t, "the second one waits", func() bool { return r.mail("m2") == session.MailWaiting })
	r.stop()
	return newRig(t, rigOptions{dir: dir, do: do, change: damage(t, "UPDATE session_inbox SET checksum = checksum + 1 WHERE message_id = 'm2'")})
}

func TestADamagedMessageBlocksNoRequest(t *testing.T) {
	r := waitsDamaged(t, echo)
	for _, id := range []string{"web:s1:r1", "web:s1:r2"} {
		if req := r.waitForEnd(id); req.State != event.StateDone {
			t.Errorf("%s is %s: %s", id, req.State, req.Detail)
		}
	}
	if text, _ := r.output("web:s1:r2"); !strings.Contains(text, "damaged") || strings.Contains(text, "two") {
		t.Errorf("the answer to what cannot be read: %q", text)
	}
}

func TestADamagedMessageCanBeCancelled(t *testing.T) {
	said := make(chan struct{}, 1)
	r := waitsDamaged(t, speechless(said))
	<-said
	r.cancel("web:s1:r1", true)
	for _, id := range []string{"web:s1:r1", "web:s1:r2"} {
		if req := r.waitForEnd(id); req.State != event.StateCancelled {
			t.Errorf("%s is %s: %s", id, req.State, req.Detail)
		}
	}
}

func TestTheErrorOfADamagedConversationSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	r := newRig(t, rigOptions{dir: dir, do: echo})
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	r.waitForEnd("web:s1:r1")
	r.stop()
	var begun *db.DB
	r = newRig(t, rigOptions{dir: dir, do: echo, change: func(o *session.Options) {
		begun = o.DB
		damage(t, "UPDATE history SET checksum = checksum + 1 WHERE id = ?", "m1")(o)
	}})
	r.send("web:s1:r2", "m2", event.Prompt, "two")
	if req := r.waitForEnd("web:s1:r2"); req.State != event.StateFailed || !strings.Contains(req.Detail, "damaged") || !strings.Contains(req.Detail, "lilac sessions delete s1") {
		t.Errorf("in a damaged conversation a request is %s: %s", req.State, req.Detail)
	}
	err := begun.Update(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE session_state SET checksum = checksum + 1")
		return errors.Join(err, store.New(begun).Sessions.DeleteSession(tx, "s1"))
	})
	if err != nil {
		t.Fatal(err)
	}
	r.send("web:s1:r3", "m3", event.Prompt, "three")
	if req := r.waitForEnd("web:s1:r3"); req.State != event.StateDone {
		t.Errorf("in one that was begun anew a request is %s: %s", req.State, req.Detail)
	}
}

const damageRequest = "UPDATE requests SET checksum = checksum + 1 WHERE id = ?"

// queuedDamaged restarts a service in which "two" and "three" wait behind "one", with the row of the
// request id damaged. "one" runs again after the restart.
func queuedDamaged(t *testing.T, do script, id string) *rig {
	dir, said := t.TempDir(), make(chan struct{}, 1)
	r := newRig(t, rigOptions{dir: dir, do: speechless(said)})
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	<-said
	r.send("web:s1:r2", "m2", event.Prompt, "two")
	r.send("web:s1:r3", "m3", event.Prompt, "three")
	waitUntil(t, "the last one waits", func() bool { return r.mail("m3") == session.MailWaiting })
	r.stop()
	return newRig(t, rigOptions{dir: dir, do: do, change: damage(t, damageRequest, id)})
}

// ended waits until the end of a request is published and returns its state. It does not read the
// request's row, because the row can be damaged.
func (r *rig) ended(id string) (last event.RequestState) {
	r.t.Helper()
	waitUntil(r.t, id+" is said to have ended", func() bool {
		if states := r.states(id); len(states) > 0 {
			last = states[len(states)-1]
		}
		return last.Ended()
	})
	return last
}

func TestADamagedRequestBlocksNoOther(t *testing.T) {
	for _, id := range []string{"web:s1:r1", "web:s1:r2", "web:s1:r3"} {
		r := queuedDamaged(t, echo, id)
		for _, other := range []string{"web:s1:r1", "web:s1:r2", "web:s1:r3"} {
			want := event.StateDone
			if other == id {
				want = event.StateFailed
			}
			if got := r.ended(other); got != want {
				t.Errorf("with the row of %s damaged %s is %s, want %s", id, other, got, want)
			}
		}
		r.send(id, "m4", event.Prompt, "once more")
		again := r.waitForEnd(event.ElseRequest(id, "m4"))
		if texts := r.texts(); again.State != event.StateDone || texts[len(texts)-1] != "assistant: echo: once more" {
			t.Errorf("a message for %s is answered with %q", id, texts)
		}
		r.stop()
	}
}

func TestADamagedQueuedRequestIsCancelledWithTheOthers(t *testing.T) {
	said := make(chan struct{}, 1)
	r := queuedDamaged(t, speechless(said), "web:s1:r3")
	<-said
	r.cancel("web:s1:r1", true)
	for _, id := range []string{"web:s1:r1", "web:s1:r2", "web:s1:r3"} {
		if got := r.ended(id); got != event.StateCancelled {
			t.Errorf("%s is %s", id, got)
		}
	}
}

// failing is a journal table whose first reads fail with a database error.
type failing struct {
	session.JournalTable
	left atomic.Int32
}

func failsFirst(times int32) (*failing, func(*session.Options)) {
	f := &failing{}
	f.left.Store(times)
	return f, func(o *session.Options) { f.JournalTable, o.Tables.Journal = o.Tables.Journal, f }
}

func (s *failing) Journal(q db.Queryer, requestID string) ([]session.StoryEntry, error) {
	if s.left.Add(-1) >= 0 {
		return nil, q.QueryRow("SELECT unreadable").Scan(new(int))
	}
	return s.JournalTable.Journal(q, requestID)
}

// The service retries the first failure at once, in the same attempt. The third failure reaches
// another attempt.
func TestARequestContinuesAfterTemporaryReadErrorsOfItsJournal(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	for _, times := range []int32{1, 3} {
		dir, said := t.TempDir(), make(chan struct{}, 1)
		r := newRig(t, rigOptions{dir: dir, do: speechless(said)})
		r.send("web:s1:r1", "m1", event.Prompt, "one")
		<-said
		r.stop()
		store, change := failsFirst(times)
		r = newRig(t, rigOptions{dir: dir, do: echo, change: change})
		if req := r.waitForEnd("web:s1:r1"); req.State != event.StateDone || store.left.Load() >= 0 {
			t.Errorf("after %d failures the request is %s: %s", times, req.State, req.Detail)
		}
		r.stop()
	}
}

// silent is a history table whose first read of a conversation fails with a database error.
type silent struct {
	session.HistoryTable
	failed atomic.Bool
}

func (s *silent) Conversation(q db.Queryer, sessionID string) (session.Conversation, error) {
	if s.failed.CompareAndSwap(false, true) {
		return session.Conversation{}, q.QueryRow("SELECT unreadable").Scan(new(int))
	}
	return s.HistoryTable.Conversation(q, sessionID)
}

func TestARequestContinuesAfterATemporaryReadErrorOfItsConversation(t *testing.T) {
	effort.SkipSlow(t)
	store := &silent{}
	r := newRig(t, rigOptions{change: func(o *session.Options) { store.HistoryTable, o.Tables.History = o.Tables.History, store }})
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	if req := r.waitForEnd("web:s1:r1"); req.State != event.StateDone || !store.failed.Load() {
		t.Errorf("the request is %s: %s", req.State, req.Detail)
	}
}

// A temporary error must not end the request without its text.
func TestAPausedRequestKeepsItsTextAfterATemporaryReadError(t *testing.T) {
	dir, limits := t.TempDir(), session.Limits{Request: session.Budget{Steps: 2}}
	r := looping(t, dir, once, limits)
	r.send("web:s1:r1", "m1", event.Prompt, "go")
	r.pauses(1)
	r.stop()
	store, change := failsFirst(1)
	r = newRig(t, rigOptions{dir: dir, change: change})
	r.cancel("web:s1:r1", false)
	r.waitForEnd("web:s1:r1")
	if _, text := r.output("web:s1:r1"); store.left.Load() >= 0 || !strings.Contains(text, "continue") {
		t.Errorf("the request ended with %q; the journal failed: %v", text, store.left.Load() < 0)
	}
}
