package store_test

import (
	"testing"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
)

// A text that PostgreSQL cannot store is stored without it, and its row is sound.
func TestARowWithNULIsSound(t *testing.T) {
	d, s := open(t)
	update(t, d, func(tx *db.Tx) error {
		return s.Requests.CreateRequest(tx, session.Request{ID: "r", SessionID: "s\x00\xff", Client: "c", Detail: "a\x00b"})
	})
	err := read(t, d, func(q db.Queryer) error {
		_, err := s.Requests.Request(q, "r")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if bad, err := s.Verify(t.Context()); err != nil || len(bad) > 0 {
		t.Errorf("damaged rows %v, %v", bad, err)
	}
}
