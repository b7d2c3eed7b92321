package store_test

import (
	"errors"
	"testing"

	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/engine/db"
	"lilac/internal/store"
)

// The newest session with a title is found, but neither a channel of a platform nor the session of a
// sub-agent.
func TestSessionsAreFoundByTheirTitles(t *testing.T) {
	d, s := open(t)
	for _, one := range []session.Session{
		{ID: "old", Client: "web", Title: "Plans"},
		{ID: "new", Client: "web", Title: "Plans"},
		{ID: "sub", Client: task.Client, Title: "Plans"},
		{ID: "channel", Client: "discord", Title: "#general"},
		{ID: "hash", Client: "web", Title: "#1 idea"},
	} {
		update(t, d, func(tx *db.Tx) error { return s.Sessions.CreateSession(tx, one) })
	}
	for title, want := range map[string]string{"Plans": "new", "#general": "", "#1 idea": "hash", "plans": "", "": ""} {
		err := read(t, d, func(q db.Queryer) error {
			got, err := s.Sessions.SessionTitled(q, title, []string{"discord"})
			if got != want {
				t.Errorf("%q is %q, want %q", title, got, want)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// A branch that works in the files of its conversation keeps them.
func TestABranchKeepsTheFilesOfItsConversation(t *testing.T) {
	d, s := open(t)
	for _, id := range []string{"whole", "branch"} {
		update(t, d, func(tx *db.Tx) error { return s.Sessions.CreateSession(tx, session.Session{ID: id, Client: "web"}) })
	}
	update(t, d, func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE sessions SET branch_of = 'whole', files_of = 'whole' WHERE id = 'branch'`)
		return err
	})
	err := read(t, d, func(q db.Queryer) error {
		of, err := store.Branches{}.BranchesOf(q, "whole")
		keeps, keepsErr := store.Branches{}.HasFiles(q, "whole")
		none, noneErr := store.Branches{}.HasFiles(q, "branch")
		if len(of) != 1 || of[0].ID != "branch" || !keeps || none {
			t.Errorf("branches %+v, kept %v, kept by a branch %v", of, keeps, none)
		}
		return errors.Join(err, keepsErr, noneErr)
	})
	if err != nil {
		t.Fatal(err)
	}
}
