package store_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/engine/longtext"
	"lilac/internal/foundation/chat"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
)

func TestLongTextsAreDeletedAfterTheirRequest(t *testing.T) {
	now := time.UnixMilli(1_000_000)
	d, err := db.Open(t.Context(), dbtest.Options(db.Options{
		Dir: t.TempDir(), Migrations: slices.Concat(longtext.Migrations, store.Migrations), Now: func() time.Time { return now },
	}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	s := store.New(d)
	long := "first words " + strings.Repeat("All work and no play. ", 10_000)
	if err := longtext.SetAside(t.Context(), d, "r", long); err != nil {
		t.Fatal(err)
	}
	asked := session.HistoryMessage{ID: "m1", RequestID: "r", Message: chat.Text(chat.User, "Write.")}
	answer := session.HistoryMessage{ID: "m2", RequestID: "r", Message: chat.Text(chat.Assistant, long)}
	update(t, d, func(tx *db.Tx) error {
		_, one := s.History.AppendHistory(tx, "s", asked)
		_, two := s.History.AppendHistory(tx, "s", answer)
		return errors.Join(s.Sessions.CreateSession(tx, session.Session{ID: "s"}), s.Requests.CreateRequest(tx, session.Request{ID: "r", SessionID: "s"}), one, two,
			s.Journal.Record(tx, "r", session.Entry{Kind: "model", Data: answer.Message}), s.History.IndexHistory(tx))
	})
	pieces := func() (n int) {
		if err := read(t, d, func(q db.Queryer) error { return q.QueryRow(`SELECT count(*) FROM long_texts`).Scan(&n) }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	whole := func(what, text string) {
		t.Helper()
		if !strings.Contains(text, long) {
			t.Errorf("%s has %d of %d bytes", what, len(text), len(long))
		}
	}
	check := func(sessionID string) {
		t.Helper()
		err := read(t, d, func(q db.Queryer) error {
			m, err := s.History.Message(q, sessionID, "m2")
			whole("the history of "+sessionID, m.Message.Text())
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
	err = read(t, d, func(q db.Queryer) error {
		story, err := s.Requests.Story(q, "r")
		whole("the journal", string(story.Entries[0].Data))
		found, search := s.History.Search(q, "first", 10, 0)
		if len(found) != 1 || found[0].MessageID != "m2" || found[0].Damaged {
			t.Errorf("a search for the first words finds %+v", found)
		}
		return errors.Join(err, search)
	})
	if err != nil {
		t.Fatal(err)
	}
	check("s")

	// A branch has its own copy.
	update(t, d, func(tx *db.Tx) error {
		_, err := s.History.AppendHistory(tx, "s", session.HistoryMessage{ID: "m3", RequestID: "r", Message: chat.Text(chat.User, "And?")})
		_, branch := store.Branches{}.CreateBranch(tx, session.Session{ID: "branch", Branch: &session.Branch{Of: "s", At: "m3"}})
		return errors.Join(err, branch)
	})
	trim := func() {
		t.Helper()
		update(t, d, func(tx *db.Tx) error { _, err := s.Requests.TrimLongTexts(tx, now.Add(-time.Hour)); return err })
	}
	now = now.Add(2 * time.Hour)
	trim()
	check("s")
	now = now.Add(-2 * time.Hour)
	update(t, d, func(tx *db.Tx) error { return s.Sessions.DeleteSession(tx, "s") })
	trim()
	if n := pieces(); n != 3 {
		t.Errorf("%d pieces are left soon after their request was deleted; want all 3", n)
	}
	now = now.Add(2 * time.Hour)
	trim()
	if n := pieces(); n != 0 {
		t.Errorf("%d pieces are left long after their request was deleted", n)
	}
	check("branch")
}
