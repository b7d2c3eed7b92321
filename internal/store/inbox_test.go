package store_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
)

func TestInbox(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	now := time.UnixMilli(1_000_000)
	open := func() *db.DB {
		d, err := db.Open(ctx, dbtest.Options(db.Options{Dir: dir, Migrations: store.Migrations, Now: func() time.Time { return now }}))
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	d := open()
	defer func() { d.Close() }()
	var s store.Store
	see := func(source, id, value string) (prior string, seen bool) {
		t.Helper()
		err := d.Update(ctx, func(tx *db.Tx) error {
			raw, was, err := s.Inbox.Seen(tx, source, id, []byte(value))
			prior, seen = string(raw), was
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return prior, seen
	}
	if _, seen := see("env", "1", "first"); seen {
		t.Error("a new id was seen")
	}
	if prior, seen := see("env", "1", "second"); !seen || prior != "first" {
		t.Errorf("%q %v", prior, seen)
	}
	if _, seen := see("http", "1", "x"); seen {
		t.Error("the id of another source was seen")
	}

	change := func(f func(tx *db.Tx) error) {
		t.Helper()
		if err := d.Update(ctx, f); err != nil {
			t.Fatal(err)
		}
	}
	// A value is replaced, and forgotten only while it is the current one.
	for _, value := range []string{"a", "b"} {
		change(func(tx *db.Tx) error { return s.Inbox.Replace(tx, "call", "1", []byte(value)) })
	}
	change(func(tx *db.Tx) error { return s.Inbox.Forget(tx, "call", "1", []byte("a")) })
	if prior, seen := see("call", "1", "c"); !seen || prior != "b" {
		t.Errorf("after a replacement: %q %v", prior, seen)
	}
	change(func(tx *db.Tx) error { return s.Inbox.Forget(tx, "call", "1", []byte("b")) })
	if _, seen := see("call", "1", "c"); seen {
		t.Error("a forgotten id was seen")
	}

	// Seen is part of the transaction: after a rollback, the pair is new again.
	rolledBack := errors.New("no")
	err := d.Update(ctx, func(tx *db.Tx) error {
		if _, _, err := s.Inbox.Seen(tx, "env", "2", nil); err != nil {
			return err
		}
		return rolledBack
	})
	if !errors.Is(err, rolledBack) {
		t.Fatal(err)
	}
	if _, seen := see("env", "2", ""); seen {
		t.Error("what was rolled back was seen")
	}

	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open()
	if prior, seen := see("env", "1", "third"); !seen || prior != "first" {
		t.Errorf("after a restart: %q %v", prior, seen)
	}

	now = now.Add(time.Hour)
	see("env", "young", "")
	err = d.Update(ctx, func(tx *db.Tx) error {
		more, err := s.Inbox.TrimInbox(tx, now)
		if more {
			t.Error("more than was there")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, seen := see("env", "1", ""); seen {
		t.Error("an old id is still there")
	}
	if _, seen := see("env", "young", ""); !seen {
		t.Error("a young id was forgotten")
	}
}
