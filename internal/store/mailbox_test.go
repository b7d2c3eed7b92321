package store_test

import (
	"testing"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
)

// An accepted message protects its session from deletion until the runner claims it or
// acceptedMaxAge has passed. Even then, ClaimAccepted still distinguishes it from a message
// that was never accepted.
func TestASessionIsHeldByAMessageUntilItIsTaken(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	d, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: store.Migrations, Now: func() time.Time { return now }}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	s := store.New(d)
	begin := func(messages ...string) {
		update(t, d, func(tx *db.Tx) error {
			if err := s.Sessions.CreateSession(tx, session.Session{ID: "s", Client: "web"}); err != nil {
				return err
			}
			for _, m := range messages {
				if err := s.Mailbox.Accept(tx, "s", m); err != nil {
					return err
				}
			}
			return s.Mailbox.Accept(tx, "another", "m1")
		})
	}
	take := func(message string, want bool) {
		t.Helper()
		update(t, d, func(tx *db.Tx) error {
			if promised, err := s.Mailbox.ClaimAccepted(tx, "s", message); err != nil || promised != want {
				t.Errorf("%s is promised: %t, %v", message, promised, err)
			}
			return nil
		})
	}
	remove := func(want fault.Kind) {
		t.Helper()
		if err := d.Update(t.Context(), func(tx *db.Tx) error { return s.Sessions.DeleteSession(tx, "s") }); fault.KindOf(err) != want {
			t.Errorf("deleted: %v, want %q", err, want)
		}
	}
	begin("m1", "m2")
	remove(fault.Conflict)
	take("m1", true)
	take("m1", false)
	take("m3", false)
	remove(fault.Conflict)
	take("m2", true)
	remove("")

	begin("m4")
	now = now.Add(59 * time.Minute)
	remove(fault.Conflict)
	now = now.Add(time.Minute)
	remove("")
	take("m4", true)

	begin("m5")
	update(t, d, func(tx *db.Tx) error { _, err := s.Inbox.TrimInbox(tx, now.Add(time.Millisecond)); return err })
	take("m5", false)
}
