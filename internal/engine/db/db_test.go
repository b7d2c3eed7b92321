package db_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/effort"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(dbtest.Engines(m)) }

var tables = []db.Migration{{Name: "test.0001", SQL: "CREATE TABLE t (id TEXT PRIMARY KEY, n INTEGER) STRICT"}}

func open(t testing.TB, dir string) *db.DB {
	t.Helper()
	return openWith(t, dbtest.Options(db.Options{Dir: dir, Migrations: tables}))
}

// openFile opens a database on SQLite, for tests of what only a file can do.
func openFile(t testing.TB, dir string) *db.DB {
	t.Helper()
	return openWith(t, db.Options{Dir: dir, Migrations: tables})
}

func openWith(t testing.TB, opt db.Options) *db.DB {
	t.Helper()
	d, err := db.Open(context.Background(), opt)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func count(t testing.TB, d *db.DB) (n int) {
	t.Helper()
	err := d.Read(context.Background(), func(q db.Queryer) error {
		return q.QueryRow("SELECT count(*) FROM t").Scan(&n)
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func insert(tx *db.Tx, id string) error {
	_, err := tx.Exec("INSERT INTO t (id) VALUES (?)", id)
	return err
}

func TestOneProcessOwnsADirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first := open(t, dir)
	_, err := db.Open(context.Background(), db.Options{Dir: dir, Migrations: tables})
	if fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), dir) || !strings.Contains(err.Error(), fmt.Sprint(os.Getpid())) {
		t.Errorf("second open: %v; want a conflict that names directory and process", err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("data directory: %v, %v; want mode 0700", info.Mode(), err)
	}
	id := first.StoreID()
	first.Close()
	if again := open(t, dir); again.StoreID() != id || id == "" {
		t.Errorf("store id %q became %q", id, again.StoreID())
	}
}

// A child process has copies of all open files until it calls exec. Close must unlock
// the directory all the same.
func TestCloseUnlocksTheDirectoryWhileAChildHoldsACopyOfTheLock(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	first := open(t, dir)
	var lock syscall.Stat_t
	if err := syscall.Stat(filepath.Join(dir, "lilac.lock"), &lock); err != nil {
		t.Fatal(err)
	}
	copied := -1
	for fd := 3; fd < 1000 && copied < 0; fd++ {
		var open syscall.Stat_t
		if syscall.Fstat(fd, &open) == nil && open.Dev == lock.Dev && open.Ino == lock.Ino {
			var err error
			if copied, err = syscall.Dup(fd); err != nil {
				t.Fatal(err)
			}
		}
	}
	if copied < 0 {
		t.Fatal("no descriptor of the lock file is open")
	}
	defer func() { _ = syscall.Close(copied) }()
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir)
}

func TestOpenRefusesAnUnusableFileAndDoesNotChangeIt(t *testing.T) {
	sound := func(t *testing.T, migrations []db.Migration) []byte {
		dir := t.TempDir()
		d, err := db.Open(context.Background(), db.Options{Dir: dir, Migrations: migrations})
		if err != nil {
			t.Fatal(err)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
		file, err := os.ReadFile(filepath.Join(dir, db.FileName))
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	for _, row := range []struct {
		name, code string
		file       func(t *testing.T) []byte
	}{
		{"not a database", "damaged_database", func(*testing.T) []byte { return []byte("hello, this is a text that is longer than a header") }},
		{"a database of another program", "foreign_database", func(t *testing.T) []byte {
			file := sound(t, tables)
			copy(file[68:], "else")
			return file
		}},
		{"a truncated file", "damaged_database", func(t *testing.T) []byte { f := sound(t, tables); return f[:len(f)-5000] }},
		{"an overwritten page", "damaged_database", func(t *testing.T) []byte {
			f := sound(t, tables)
			copy(f[4096:8192], bytes.Repeat([]byte{0xA5}, 4096))
			return f
		}},
		{"a newer database", "newer_database", func(t *testing.T) []byte {
			return sound(t, append(tables[:1:1], db.Migration{Name: "test.0002", SQL: "CREATE TABLE u (x)"}))
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := t.TempDir()
			path, before := filepath.Join(dir, db.FileName), row.file(t)
			if err := os.WriteFile(path, before, 0o600); err != nil {
				t.Fatal(err)
			}
			d, err := db.Open(context.Background(), db.Options{Dir: dir, Migrations: tables})
			var f *fault.Error
			if !errors.As(err, &f) || f.Kind != fault.Conflict || f.Code != row.code || !strings.Contains(f.Message, path) {
				t.Errorf("open: %v; want %s naming the file", err, row.code)
			}
			if d != nil {
				d.Close()
			}
			if after, err := os.ReadFile(path); err != nil || !bytes.Equal(before, after) {
				t.Error("the file was changed")
			}
		})
	}
}

func TestAFailingClosureFailsAlone(t *testing.T) {
	d := open(t, t.TempDir())
	var all sync.WaitGroup
	for i := range 200 {
		all.Go(func() {
			err := d.Update(context.Background(), func(tx *db.Tx) error {
				if err := insert(tx, fmt.Sprint(i)); err != nil {
					return err
				}
				switch i % 4 {
				case 1:
					return errors.New("no")
				case 2:
					panic("no")
				}
				return nil
			})
			if bad := i%4 == 1 || i%4 == 2; bad != (err != nil) {
				t.Errorf("update %d: %v", i, err)
			}
		})
	}
	all.Wait()
	if n := count(t, d); n != 100 {
		t.Errorf("%d rows, want the 100 whose closure succeeded", n)
	}
}

func TestAClosureThatFailsAfterWritingIsRolledBackAlone(t *testing.T) {
	d := open(t, t.TempDir())
	var all sync.WaitGroup
	for i := range 100 {
		all.Go(func() {
			undone := false
			err := d.Update(context.Background(), func(tx *db.Tx) error {
				tx.AfterRollback(func() { undone = true })
				if err := insert(tx, fmt.Sprint(i)); err != nil || i%10 != 0 {
					return err
				}
				return insert(tx, fmt.Sprint(i)) // breaks the primary key
			})
			if (err != nil) != (i%10 == 0) || err != nil && !undone {
				t.Errorf("update %d: %v, undone %v", i, err, undone)
			}
		})
	}
	all.Wait()
	if n := count(t, d); n != 90 {
		t.Errorf("%d rows, want 90", n)
	}
}

func TestAReadThatPanicsOrEndsItsGoroutineKeepsTheReaders(t *testing.T) {
	d := open(t, t.TempDir())
	for range 20 { // more than there are readers
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic of a read did not reach its caller")
				}
			}()
			_ = d.Read(context.Background(), func(db.Queryer) error { panic("no") })
		}()
		if err := d.Read(context.Background(), func(db.Queryer) error { runtime.Goexit(); return nil }); err == nil {
			t.Error("a read that ended its goroutine succeeded")
		}
	}
	if n := count(t, d); n != 0 {
		t.Errorf("%d rows", n)
	}
}

func TestCallbacksRunAfterCommitOrRollback(t *testing.T) {
	d := open(t, t.TempDir())
	var got []string
	record := func(s string) func() { return func() { got = append(got, s) } }
	ctx := context.Background()
	d.Update(ctx, func(tx *db.Tx) error {
		tx.AfterCommit(record("committed"))
		tx.AfterRollback(record("wrong"))
		return nil
	})
	d.Update(ctx, func(tx *db.Tx) error {
		tx.AfterCommit(record("wrong"))
		tx.AfterRollback(record("undone first"))
		tx.AfterRollback(record("undone last"))
		return errors.New("no")
	})
	if s := strings.Join(got, ", "); s != "committed, undone last, undone first" {
		t.Errorf("callbacks: %s", s)
	}
}

func TestUpdateAfterCancellationOrCloseDoesNotRun(t *testing.T) {
	d := open(t, t.TempDir())
	entered, leave := make(chan struct{}), make(chan struct{})
	go d.Update(context.Background(), func(*db.Tx) error { close(entered); <-leave; return nil })
	<-entered
	ctx, cancel := context.WithCancel(context.Background())
	waiting := make(chan error)
	go func() { waiting <- d.Update(ctx, func(tx *db.Tx) error { return insert(tx, "late") }) }()
	cancel()
	if err := <-waiting; !errors.Is(err, context.Canceled) {
		t.Errorf("update whose context ended while it waited: %v", err)
	}
	close(leave)
	if n := count(t, d); n != 0 {
		t.Error("a cancelled update was carried out")
	}
	var kept *db.Tx
	if err := d.UpdateRelaxed(context.Background(), func(tx *db.Tx) error { kept = tx; return insert(tx, "a") }); err != nil {
		t.Fatal(err)
	}
	if err := insert(kept, "b"); err == nil {
		t.Error("a transaction could be written to after its end")
	}
	if err := kept.QueryRow("SELECT 1").Err(); err == nil {
		t.Error("a transaction could be read after its end")
	}
	d.Close()
	if err := d.Update(context.Background(), func(*db.Tx) error { return nil }); fault.KindOf(err) != fault.Unavailable {
		t.Errorf("update of a closed database: %v", err)
	}
}

func TestVerifyOfASoundDatabaseAndPartsOfAChecksum(t *testing.T) {
	d := open(t, t.TempDir())
	if bad, err := d.Verify(context.Background()); err != nil || len(bad) != 0 {
		t.Errorf("Verify of a sound database: %v, %v", bad, err)
	}
	if db.Checksum([]byte("ab"), []byte("c")) == db.Checksum([]byte("a"), []byte("bc")) {
		t.Error("bytes can move between the parts of a checksum")
	}
}

// A page that cannot be read ends the transaction of the whole group. No closure of the
// group may leave a part of its work behind.
func TestAReadErrorOfTheDiskRollsBackTheWholeGroup(t *testing.T) {
	effort.SkipSlow(t)
	synctest.Test(t, readErrorRollsBackGroup) // a bubble detects that all goroutines wait
}

func readErrorRollsBackGroup(t *testing.T) {
	dir := t.TempDir()
	d, err := db.Open(t.Context(), db.Options{Dir: dir, Migrations: []db.Migration{{
		Name: "t", SQL: "CREATE TABLE large (id INTEGER PRIMARY KEY, data BLOB) STRICT; CREATE TABLE small (id INTEGER PRIMARY KEY) STRICT",
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	err = d.Update(t.Context(), func(tx *db.Tx) error { // larger than the writer's page cache
		_, err := tx.Exec("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3800) INSERT INTO large SELECT i, randomblob(3900) FROM n")
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, db.FileName+"-wal"), 1<<20); err != nil {
		t.Fatal(err)
	}
	held, release := make(chan struct{}), make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		d.Update(t.Context(), func(*db.Tx) error { close(held); <-release; return nil })
	})
	<-held
	const others = 20
	all.Go(func() {
		err := d.Update(t.Context(), func(tx *db.Tx) error {
			return tx.QueryRow("SELECT count(*) FROM large WHERE data = x'00'").Scan(new(int))
		})
		if err == nil {
			t.Error("control: all pages can be read")
		}
	})
	for i := range others {
		all.Go(func() {
			d.Update(t.Context(), func(tx *db.Tx) error {
				_, err := tx.Exec("INSERT INTO small VALUES (?)", i)
				return err
			})
		})
	}
	synctest.Wait()
	close(release)
	all.Wait()
	left := 0
	d.Update(t.Context(), func(tx *db.Tx) error { return tx.QueryRow("SELECT count(*) FROM small").Scan(&left) })
	if left > 0 {
		t.Errorf("%d rows of a failed group were committed, want none", left)
	}
}

func TestAClosureThatWroteByAQueryIsRolledBack(t *testing.T) {
	d := open(t, t.TempDir())
	err := d.Update(t.Context(), func(tx *db.Tx) error {
		var id string
		return errors.Join(tx.QueryRow("INSERT INTO t (id) VALUES ('a') RETURNING id").Scan(&id), errors.New("no"))
	})
	if n := count(t, d); err == nil || n != 0 {
		t.Errorf("%v, and %d rows; want an error and no row", err, n)
	}
}
