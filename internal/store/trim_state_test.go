package store_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/relay"
	"lilac/internal/core/router"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
)

func TestRelaysAreForgottenByAgeButNoneThatARequestNeeds(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d, s := openAt(t, &now)
	row := func(id string, started, finished bool) relay.Row {
		return relay.Row{Platform: "discord", RequestID: id, SessionID: "7", Started: started, Finished: finished}
	}
	update(t, d, func(tx *db.Tx) error {
		for id, state := range map[string]event.RequestState{"running": event.StateRunning, "queued": event.StateQueued, "ended": event.StateDone} {
			if err := s.Requests.CreateRequest(tx, session.Request{ID: id, SessionID: "7", Client: "discord", State: state}); err != nil {
				return err
			}
		}
		for _, r := range []relay.Row{
			row("shown", true, true), row("being shown", true, false), row("running", true, true), row("queued", false, false), row("ended", false, false),
		} {
			if err := s.Relays.SaveRelay(tx, r); err != nil {
				return err
			}
		}
		return nil
	})
	left := func() (out []string) {
		for _, id := range []string{"shown", "being shown", "running", "queued", "ended", "of today"} {
			err := read(t, d, func(q db.Queryer) error { _, err := s.Relays.Relay(q, "discord", id); return err })
			switch fault.KindOf(err) {
			case "":
				out = append(out, id)
			case fault.NotFound:
			default:
				t.Fatal(err)
			}
		}
		return out
	}
	now = now.Add(40 * 24 * time.Hour)
	update(t, d, func(tx *db.Tx) error { return s.Relays.SaveRelay(tx, row("of today", true, true)) })
	update(t, d, func(tx *db.Tx) error {
		_, err := s.Relays.TrimRelays(tx, now.Add(-30*24*time.Hour))
		return err
	})
	if diff := cmp.Diff([]string{"being shown", "running", "queued", "of today"}, left()); diff != "" {
		t.Error(diff)
	}
}

func TestForwardedMessagesAreForgottenByAgeAPieceAtATime(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d, s := openAt(t, &now)
	var old []string
	for i := range 1500 {
		old = append(old, fmt.Sprint(i))
	}
	update(t, d, func(tx *db.Tx) error { return s.Forwarded.MarkForwarded(tx, "discord", "7", old) })
	now = now.Add(100 * 24 * time.Hour)
	update(t, d, func(tx *db.Tx) error { return s.Forwarded.MarkForwarded(tx, "discord", "7", []string{"new"}) })
	rounds := 0
	for more := true; more; rounds++ {
		update(t, d, func(tx *db.Tx) (err error) {
			more, err = s.Forwarded.TrimForwarded(tx, now.Add(-90*24*time.Hour))
			return err
		})
	}
	known := func(id string) (there bool) {
		if err := read(t, d, func(q db.Queryer) (err error) { there, err = s.Forwarded.Forwarded(q, "discord", "7", id); return err }); err != nil {
			t.Fatal(err)
		}
		return there
	}
	if known("0") || known("1499") || !known("new") || rounds != 2 {
		t.Errorf("old ones are known: %v, %v; the new one: %v; in %d pieces", known("0"), known("1499"), known("new"), rounds)
	}
}

func TestTheRouterForgetsSessionsInWhichNothingHappens(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	d, s := openAt(t, &now)
	runs := router.State{Requests: []router.Request{{ID: "r", Running: true, Since: 1}}}
	save := func(states map[string]router.State) {
		update(t, d, func(tx *db.Tx) error {
			for session, state := range states {
				if err := s.RouterStates.SaveRouterState(tx, "discord", session, state); err != nil {
					return err
				}
			}
			return nil
		})
	}
	left := func() (out []string) {
		if err := read(t, d, func(q db.Queryer) error {
			for _, session := range []string{"over", "lost", "running", "burst", "of today"} {
				state, err := s.RouterStates.RouterState(q, "discord", session)
				if err != nil {
					return err
				}
				if !state.Empty() {
					out = append(out, session)
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	rows := func() (n int) {
		if err := read(t, d, func(q db.Queryer) error { return q.QueryRow(`SELECT count(*) FROM router_state`).Scan(&n) }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	update(t, d, func(tx *db.Tx) error {
		return s.Requests.CreateRequest(tx, session.Request{ID: "r", SessionID: "running", Client: "discord", State: event.StateRunning})
	})
	save(map[string]router.State{"over": runs, "lost": runs, "running": runs, "burst": {Buffer: []string{"1"}, First: 1, Due: 2}})
	save(map[string]router.State{"over": {}, "never": {}})
	if diff := cmp.Diff([]string{"lost", "running", "burst"}, left()); diff != "" || rows() != 3 {
		t.Errorf("%d rows: %s", rows(), diff)
	}
	now = now.Add(100 * 24 * time.Hour)
	save(map[string]router.State{"of today": runs})
	update(t, d, func(tx *db.Tx) error {
		_, err := s.RouterStates.TrimRouterStates(tx, now.Add(-90*24*time.Hour))
		return err
	})
	if diff := cmp.Diff([]string{"running", "burst", "of today"}, left()); diff != "" {
		t.Error(diff)
	}
}

// openAt opens a database whose clock returns *now.
func openAt(t *testing.T, now *time.Time) (*db.DB, *store.Store) {
	t.Helper()
	d, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: store.Migrations, Now: func() time.Time { return *now }}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d, store.New(d)
}
