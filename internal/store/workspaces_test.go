package store_test

import (
	"slices"
	"testing"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
)

// Conversations from before conversations had workspaces of their own go on sharing one, with
// everything else that people chose for them. New ones follow the configuration.
func TestConversationsFromBeforeShareTheWorkspace(t *testing.T) {
	dir := t.TempDir()
	older := slices.DeleteFunc(slices.Clone(store.Migrations), func(m db.Migration) bool { return m.Name == "store.0042-workspaces" })
	if len(older) == len(store.Migrations) {
		t.Fatal("there is no such migration, so the test shows nothing")
	}
	open := func(migrations []db.Migration) (*db.DB, *store.Store) {
		d, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: dir, Migrations: migrations}))
		if err != nil {
			t.Fatal(err)
		}
		return d, store.New(d)
	}
	d, s := open(older)
	chosen := session.Choice{Model: "openai/x", Instructions: `Say "hi" {`}
	update(t, d, func(tx *db.Tx) error {
		for _, id := range []string{"plain", "chosen"} {
			if err := s.Sessions.CreateSession(tx, session.Session{ID: id, Client: "web"}); err != nil {
				return err
			}
		}
		return s.Sessions.SetChoice(tx, "chosen", chosen)
	})
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d, s = open(store.Migrations)
	t.Cleanup(func() { _ = d.Close() })
	update(t, d, func(tx *db.Tx) error {
		return s.Sessions.CreateSession(tx, session.Session{ID: "new", Client: "web"})
	})
	shared := chosen
	shared.Workspace = session.SharedWorkspace
	for id, want := range map[string]session.Choice{"plain": {Workspace: session.SharedWorkspace}, "chosen": shared, "new": {}} {
		err := read(t, d, func(q db.Queryer) error {
			got, err := s.Sessions.Session(q, id)
			if got.Choice != want {
				t.Errorf("%s: the choice is %+v, want %+v", id, got.Choice, want)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}
