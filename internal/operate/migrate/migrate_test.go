package migrate

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/session"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/postgrestest"
)

var migrations = slices.Concat(sqlitebus.Migrations, store.Migrations)

func server(t *testing.T) *postgrestest.Server {
	t.Helper()
	effort.SkipPostgres(t)
	s := postgrestest.Start(t)
	if err := s.Do("CREATE SCHEMA one; CREATE SCHEMA two"); err != nil {
		t.Fatal(err)
	}
	return s
}

func open(t *testing.T, dir, url string) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), db.Options{Dir: dir, URL: url, Migrations: migrations})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func closeAll(t *testing.T, d *db.DB) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// fill writes conversations, messages of a platform, and events.
func fill(t *testing.T, d *db.DB, messages int) {
	t.Helper()
	b, err := sqlitebus.New(d, sqlitebus.Options{TrimEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	s := store.New(d)
	update(t, d, func(tx *db.Tx) error {
		return errors.Join(s.Sessions.CreateSession(tx, session.Session{ID: "s", Client: "web", Title: "Fruit"}), s.Sessions.CreateSession(tx, session.Session{ID: "gone", Client: "web"}))
	})
	const perUpdate = 1000
	for from := 0; from < messages; from += perUpdate {
		update(t, d, func(tx *db.Tx) error {
			for i := from; i < min(from+perUpdate, messages); i++ {
				_, err := s.History.AppendHistory(tx, "s", session.HistoryMessage{
					ID: fmt.Sprint("m", i), RequestID: fmt.Sprint("r", i), CreatedAt: int64(i),
					Message: chat.Text(chat.User, fmt.Sprintf("Äpple number %d of 世界 \U0001F34E", i)),
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	update(t, d, func(tx *db.Tx) error {
		for i := range 7 {
			m := surface.Message{Platform: "discord", ChannelID: "c", ID: fmt.Sprint(100 + i), Text: fmt.Sprint("pear ", i)}
			if err := s.Surface.PutMessage(tx, m); err != nil {
				return err
			}
		}
		return tx.Publish(event.Event{ID: "one", Topic: "env", Type: "custom.x", TS: 1, Data: []byte(`{"a":1}`)})
	})
	if err := b.Close(); err != nil {
		t.Fatal(err)
	}
}

func update(t *testing.T, d *db.DB, fn func(tx *db.Tx) error) {
	t.Helper()
	if err := d.Update(t.Context(), fn); err != nil {
		t.Fatal(err)
	}
}

// view is what people find.
type view struct {
	History, Prefix, Chinese []session.SearchResult
	Surface                  []surface.Message
	StoreID                  string
}

func look(t *testing.T, d *db.DB) (v view) {
	t.Helper()
	s := store.New(d)
	update(t, d, s.History.IndexHistory)
	err := d.Read(t.Context(), func(q db.Queryer) (err error) {
		var errs [4]error
		v.History, errs[0] = s.History.Search(q, "apple 3", 20, 0)
		v.Prefix, errs[1] = s.History.Search(q, "numb", 20, 0)
		v.Chinese, errs[2] = s.History.Search(q, "世界", 20, 0)
		v.Surface, errs[3] = s.Surface.SearchMessages(q, "discord", []string{"c"}, "pear", 20)
		return errors.Join(errs[:]...)
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(v.History) == 0 || len(v.Prefix) == 0 || len(v.Chinese) == 0 || len(v.Surface) == 0 {
		t.Errorf("control: something is not found: %d %d %d %d", len(v.History), len(v.Prefix), len(v.Chinese), len(v.Surface))
	}
	slices.SortFunc(v.Surface, func(a, b surface.Message) int { return strings.Compare(a.ID, b.ID) }) // equal ranks
	v.StoreID = d.StoreID()
	return v
}

func code(err error) string { return fault.ToWire(err).Code }

// Everything moves to PostgreSQL and back, through an interruption after every batch. Search finds
// the same, the checksums are equal, and neither source can be started by mistake. The long form
// moves 1,000,000 messages: LILAC_LONG=1 go test ./internal/operate/migrate -timeout 1h
func TestEverythingMovesThereAndBack(t *testing.T) {
	s := server(t)
	messages := 2300
	if effort.Long() {
		messages = 1_000_000
	}
	dir := t.TempDir()
	d := open(t, dir, "")
	fill(t, d, messages)
	before := look(t, d)
	closeAll(t, d)
	errStop := errors.New("interrupted")
	move := func(back bool) (r Result) {
		t.Helper()
		began := time.Now()
		o := Options{DataDir: dir, URL: s.URL("one"), Shown: "PostgreSQL", FromPostgres: back}
		interrupted := 0
		for most := 1; ; most += 7 { // each attempt gets further
			left := most
			o.onBatch = func() error {
				if left--; left == 0 {
					return errStop
				}
				return nil
			}
			var err error
			if r, err = Move(t.Context(), o); err == nil {
				break
			}
			if !errors.Is(err, errStop) {
				t.Fatal(err)
			}
			if interrupted++; interrupted == 1 {
				_, err := db.Open(t.Context(), db.Options{Dir: dir, URL: map[bool]string{false: s.URL("one"), true: ""}[back], Migrations: migrations})
				if code(err) != "moving" {
					t.Errorf("a start with the unfinished target: %v", err)
				}
			}
			if effort.Long() {
				most += 200
			}
		}
		if interrupted < 2 {
			t.Errorf("control: interrupted %d times", interrupted)
		}
		t.Logf("moved %d rows (back: %t) in %s, with %d interruptions", r.Rows, back, time.Since(began).Round(time.Millisecond), interrupted)
		return r
	}
	there := move(false)
	if _, err := db.Open(t.Context(), db.Options{Dir: dir, Migrations: migrations}); code(err) != "moved" || !strings.Contains(fmt.Sprint(err), "PostgreSQL") {
		t.Errorf("a start with the source: %v", err)
	}
	d = open(t, t.TempDir(), s.URL("one"))
	if diff := cmp.Diff(before, look(t, d)); diff != "" {
		t.Errorf("on PostgreSQL, search finds something else (-before +after):\n%s", diff)
	}
	bad, err := store.New(d).Verify(t.Context())
	if err != nil || len(bad) > 0 {
		t.Errorf("damaged rows: %q, %v", bad, err)
	}
	// A row that is written on PostgreSQL has the next number, and comes along.
	update(t, d, func(tx *db.Tx) error {
		_, err := store.New(d).History.AppendHistory(tx, "s", session.HistoryMessage{ID: "later", Message: chat.Text(chat.User, "a later apple")})
		return err
	})
	closeAll(t, d)
	if _, err := Move(t.Context(), Options{DataDir: dir, URL: s.URL("one")}); err == nil {
		t.Error("a database that was moved away was moved again")
	}
	back := move(true)
	if back.Rows != there.Rows+2 || back.Checksum == there.Checksum { // the message and its number
		t.Errorf("%+v, and back %+v", there, back)
	}
	d = open(t, dir, "")
	defer d.Close()
	after := look(t, d)
	if len(after.History) == 0 || after.StoreID != before.StoreID {
		t.Errorf("%+v", after)
	}
	err = d.Read(t.Context(), func(q db.Queryer) error {
		found, err := store.New(d).History.Search(q, "later apple", 5, 0)
		if len(found) != 1 || found[0].MessageID != "later" {
			t.Errorf("what was written on PostgreSQL is not found: %+v", found)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A target with other data is refused and not changed.
func TestATargetInUseIsRefused(t *testing.T) {
	s := server(t)
	dir := t.TempDir()
	d := open(t, dir, "")
	fill(t, d, 3)
	closeAll(t, d)
	other := open(t, t.TempDir(), s.URL("one"))
	update(t, other, func(tx *db.Tx) error {
		return store.New(other).Sessions.CreateSession(tx, session.Session{ID: "theirs", Client: "web"})
	})
	closeAll(t, other)
	_, err := Move(t.Context(), Options{DataDir: dir, URL: s.URL("one")})
	if fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "another Lilac") {
		t.Errorf("the data of another Lilac: %v", err)
	}
	if rows, err := s.Ask("SELECT id FROM one.sessions"); err != nil || len(rows) != 1 || rows[0][0] != "theirs" {
		t.Errorf("the target has %v, %v", rows, err)
	}
	if err := s.Do("CREATE TABLE two.strange (x int)"); err != nil {
		t.Fatal(err)
	}
	if _, err := Move(t.Context(), Options{DataDir: dir, URL: s.URL("two")}); code(err) != "foreign_database" {
		t.Errorf("the tables of another program: %v", err)
	}
	lease, err := db.AwaitLease(t.Context(), db.LeaseOptions{Dir: t.TempDir(), URL: s.URL("one"), Migrations: migrations})
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	if _, err := Move(t.Context(), Options{DataDir: dir, URL: s.URL("one")}); code(err) != "database_in_use" {
		t.Errorf("a database that a process uses: %v", err)
	}
	d = open(t, dir, "") // the source can be used as before
	defer d.Close()
	if _, err := Move(t.Context(), Options{DataDir: dir, URL: s.URL("one")}); code(err) != "data_directory_in_use" {
		t.Errorf("a data directory that a process uses: %v", err)
	}
}

// If the source is used after an interruption, the next attempt copies what is there then.
func TestASourceThatWasUsedInBetweenIsCopiedAgain(t *testing.T) {
	s := server(t)
	dir := t.TempDir()
	d := open(t, dir, "")
	fill(t, d, 1200)
	closeAll(t, d)
	stop := errors.New("interrupted")
	batches := 0
	_, err := Move(t.Context(), Options{DataDir: dir, URL: s.URL("one"), onBatch: func() error {
		if batches++; batches == 12 {
			return stop
		}
		return nil
	}})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	d = open(t, dir, "")
	update(t, d, func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE bus_topics SET name = name || '-changed'")
		return err
	})
	before := look(t, d)
	closeAll(t, d)
	if _, err := Move(t.Context(), Options{DataDir: dir, URL: s.URL("one")}); err != nil {
		t.Fatal(err)
	}
	d = open(t, t.TempDir(), s.URL("one"))
	defer d.Close()
	if diff := cmp.Diff(before, look(t, d)); diff != "" {
		t.Error(diff)
	}
	if rows, err := s.Ask("SELECT count(*) FROM one.bus_topics WHERE name LIKE '%-changed'"); err != nil || rows[0][0] == "0" {
		t.Errorf("%v, %v", rows, err)
	}
}
