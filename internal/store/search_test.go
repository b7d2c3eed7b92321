package store_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
)

func say(t *testing.T, d *db.DB, s *store.Store, sessionID, id, message string) {
	t.Helper()
	var m chat.Message
	if err := json.Unmarshal([]byte(message), &m); err != nil {
		t.Fatal(err)
	}
	update(t, d, func(tx *db.Tx) error {
		_, err := s.History.AppendHistory(tx, sessionID, session.HistoryMessage{ID: id, RequestID: "r-" + id, CreatedAt: 7, Message: m})
		return err
	})
}

func newSession(t *testing.T, d *db.DB, s *store.Store, id, title string) {
	t.Helper()
	update(t, d, func(tx *db.Tx) error {
		return s.Sessions.CreateSession(tx, session.Session{ID: id, Client: "web", Title: title})
	})
}

func found(t *testing.T, d *db.DB, s *store.Store, query string) (ids []string) {
	t.Helper()
	update(t, d, s.History.IndexHistory)
	err := read(t, d, func(q db.Queryer) error {
		all, err := s.History.Search(q, query, 100, 0)
		for _, f := range all {
			ids = append(ids, f.MessageID)
		}
		return err
	})
	if err != nil {
		t.Fatalf("search %q: %v", query, err)
	}
	return ids
}

func TestSearchFindsWhatPeopleAndModelsSaid(t *testing.T) {
	d, s := open(t)
	newSession(t, d, s, "s1", "One")
	newSession(t, d, s, "s2", "Two")
	say(t, d, s, "s1", "m1", `{"role":"user","content":"Where does the Löwenzahn grow?"}`)
	say(t, d, s, "s1", "m2", `{"role":"assistant","content":[{"type":"reasoning","text":"secret meadow"},{"type":"text","text":"In the meadow."},{"type":"text","text":"And in gardens."}]}`)
	say(t, d, s, "s1", "m3", `{"role":"tool","content":[{"type":"tool-result","toolCallId":"c","toolName":"bash","output":{"type":"text","value":"meadow garden"}}]}`)
	say(t, d, s, "s2", "m4", `{"role":"user","content":"A garden in a \"quoted\" meadow AND more"}`)
	for query, want := range map[string][]string{
		"meadow":           {"m4", "m2"},
		"secret":           nil,
		"MEADOW gard":      {"m4", "m2"},
		"lowenzahn":        {"m1"},
		"Löwen":            {"m1"},
		"garden löwenzahn": nil,
		`"quoted" AND`:     {"m4"},
		`NEAR( " * ^ : {x`: nil,
		"said:meadow":      nil,
		"  \t\n\x00 ":      nil,
		"!!! ???":          nil,
		"-meadow":          {"m4", "m2"},
	} {
		if diff := cmp.Diff(want, found(t, d, s, query)); diff != "" {
			t.Errorf("search %q (-want +got):\n%s", query, diff)
		}
	}
	update(t, d, func(tx *db.Tx) error { return s.Sessions.DeleteSession(tx, "s2") })
	if diff := cmp.Diff([]string{"m2"}, found(t, d, s, "meadow")); diff != "" {
		t.Errorf("after its session was deleted a message is still found:\n%s", diff)
	}
}

func TestSearchGoesOnBehindARow(t *testing.T) {
	d, s := open(t)
	newSession(t, d, s, "s", "")
	for i := range 25 {
		say(t, d, s, "s", fmt.Sprint("m", i), `{"role":"user","content":"apple"}`)
	}
	update(t, d, s.History.IndexHistory)
	var got []string
	for before := int64(0); ; {
		var page []session.SearchResult
		if err := read(t, d, func(q db.Queryer) (err error) {
			page, err = s.History.Search(q, "apple", 10, before)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		for _, f := range page {
			got = append(got, f.MessageID)
		}
		before = page[len(page)-1].Row
	}
	if len(got) != 25 || got[0] != "m24" || got[24] != "m0" {
		t.Errorf("the pages hold %v", got)
	}
}

// Without searches, the index is updated with every 32nd message, so that a search never
// has to index more than 31.
func TestTheIndexFollowsInSteps(t *testing.T) {
	d, s := open(t)
	newSession(t, d, s, "s", "")
	for i := range 70 {
		say(t, d, s, "s", fmt.Sprint("m", i), `{"role":"user","content":"apple"}`)
	}
	count := func() (n int) {
		if err := read(t, d, func(q db.Queryer) error {
			all, err := s.History.Search(q, "apple", 100, 0)
			n = len(all)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := count(); n != 64 && !dbtest.Postgres() { // PostgreSQL indexes at once
		t.Errorf("before a search %d are in the index, want 64", n)
	}
	update(t, d, s.History.IndexHistory)
	update(t, d, s.History.IndexHistory)
	if n := count(); n != 70 {
		t.Errorf("a search finds %d, want 70", n)
	}
}

// A message with invalid JSON is not indexed and does not make later writes fail.
func TestADamagedMessageIsNotIndexed(t *testing.T) {
	d, s := open(t)
	newSession(t, d, s, "s", "")
	say(t, d, s, "s", "m1", `{"role":"user","content":"apple"}`)
	update(t, d, func(tx *db.Tx) error {
		_, err := tx.Exec(`UPDATE history SET json = ?`, []byte(`{"role"`))
		return err
	})
	say(t, d, s, "s", "m2", `{"role":"user","content":"apple"}`)
	want := []string{"m2"}
	if dbtest.Postgres() { // m1 was indexed before it was damaged: a search names it
		want = []string{"m2", "m1"}
	}
	if diff := cmp.Diff(want, found(t, d, s, "apple")); diff != "" {
		t.Error(diff)
	}
}

func TestSearchShowsTheWordsAroundTheFirstHit(t *testing.T) {
	d, s := open(t)
	newSession(t, d, s, "s", "The title")
	long := strings.Repeat("é before ", 100) + "Needle\\n in " + strings.Repeat("after ü ", 100)
	say(t, d, s, "s", "m", `{"role":"user","content":"`+long+`"}`)
	update(t, d, s.History.IndexHistory)
	var got session.SearchResult
	if err := read(t, d, func(q db.Queryer) error {
		all, err := s.History.Search(q, "needle", 1, 0)
		got = all[0]
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(got.Excerpt, "…") || !strings.HasSuffix(got.Excerpt, "…") || !strings.Contains(got.Excerpt, "Needle in after") || len([]rune(got.Excerpt)) > 250 {
		t.Errorf("the excerpt is %q", got.Excerpt)
	}
	got.Excerpt, got.Row = "", 0
	want := session.SearchResult{SessionID: "s", SessionTitle: "The title", MessageID: "m", RequestID: "r-m", Role: "user", CreatedAt: 7}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A placeholder replaces a damaged row in the results. It does not show the content of the
// row, and the other results are complete.
func TestSearchNamesADamagedRowInItsPlace(t *testing.T) {
	d, s := open(t)
	newSession(t, d, s, "s", "Fruit")
	for _, id := range []string{"m1", "m2", "m3"} {
		say(t, d, s, "s", id, `{"role":"user","content":"apple pie"}`)
	}
	if got := found(t, d, s, "apple"); len(got) != 3 {
		t.Fatalf("control: whole rows are found %d times", len(got))
	}
	update(t, d, func(tx *db.Tx) error {
		_, err := tx.Exec(dbtest.ReplaceBytes(`history`, `json`, `pie`, `tie`, ` WHERE id = 'm2'`))
		return err
	})
	var got []session.SearchResult
	err := read(t, d, func(q db.Queryer) (err error) {
		got, err = s.History.Search(q, "apple", 9, 0)
		return err
	})
	if err != nil || len(got) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, want := range []string{"apple pie", "damaged", "apple pie"} {
		if f := got[i]; !strings.Contains(f.Excerpt, want) || f.Damaged != (i == 1) || strings.Contains(f.Excerpt, "tie") {
			t.Errorf("%d is %+v", i, f)
		}
	}
	if f := got[1]; f.SessionID != "s" || f.SessionTitle != "Fruit" || f.MessageID != "m2" || f.Row != 2 {
		t.Errorf("where it stands: %+v", f)
	}
}

// The migration also indexes the messages that exist already.
func TestSearchFindsWhatIsOlderThanTheIndex(t *testing.T) {
	dir := t.TempDir()
	openWith := func(m []db.Migration) (*db.DB, *store.Store) {
		d, err := db.Open(t.Context(), db.Options{Dir: dir, Migrations: m})
		if err != nil {
			t.Fatal(err)
		}
		return d, store.New(d)
	}
	d, s := openWith(slices.DeleteFunc(slices.Clone(store.Migrations), func(m db.Migration) bool { return strings.Contains(m.Name, "-search") }))
	newSession(t, d, s, "s", "")
	say(t, d, s, "s", "m1", `{"role":"user","content":"an old apple"}`)
	say(t, d, s, "s", "m2", `{"role":"assistant","content":[{"type":"text","text":"an apple indeed"}]}`)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d, s = openWith(store.Migrations)
	defer d.Close()
	if diff := cmp.Diff([]string{"m2", "m1"}, found(t, d, s, "apple")); diff != "" {
		t.Error(diff)
	}
}

func TestTitlesAreSearchedAsTheyAreWritten(t *testing.T) {
	d, s := open(t)
	newSession(t, d, s, "s1", "100% of it")
	newSession(t, d, s, "s2", "1000 of it")
	err := read(t, d, func(q db.Queryer) error {
		got, err := s.Sessions.SessionsTitled(q, "100%", 10)
		if len(got) != 1 || got[0].ID != "s1" {
			t.Errorf("found %v", got)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

func FuzzNoQueryIsSyntax(f *testing.F) {
	for _, q := range []string{`a"b`, "NEAR(a b)", "a OR b", "^a", "{said}:a", "a*", "\xff\x00", `""`, "(", "é̈"} {
		f.Add(q)
	}
	d, err := db.Open(f.Context(), dbtest.Options(db.Options{Dir: f.TempDir(), Migrations: store.Migrations}))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { d.Close() })
	s := store.New(d)
	f.Fuzz(func(t *testing.T, query string) {
		err := d.Read(t.Context(), func(q db.Queryer) error { _, err := s.History.Search(q, query, 1, 0); return err })
		if err != nil {
			t.Errorf("search %q: %v", query, err)
		}
	})
}
