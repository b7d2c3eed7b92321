// Package dbtest runs the tests of a package on every engine of package db: on SQLite,
// and in CI (or with LILAC_TEST_DB=both or =postgres) on PostgreSQL as well. With -short, CI
// does not repeat them.
//
// TestMain passes [Engines], and the tests open their databases with [Options].
package dbtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"lilac/internal/engine/db"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/postgrestest"
	"lilac/internal/testkit/scans"
)

const (
	// engineEnv chooses the engines: sqlite, postgres, or both.
	engineEnv = "LILAC_TEST_DB"
	// serverEnv is the address of the server. Child processes of a test inherit it.
	serverEnv = "LILAC_TEST_DB_ADDR"
)

var (
	mu      sync.Mutex
	schemas = map[string]bool{}
	empty   = map[string][]byte{} // the files of databases without rows, by their migrations
)

// runner is a [testing.M].
type runner interface{ Run() int }

// Engines returns a runner that runs the tests once per engine.
func Engines(m runner) runner { return engines{m, effort.Full()} }

// OnRequest is like [Engines], but runs on PostgreSQL only if LILAC_TEST_DB says so, for a
// package whose tests take long there.
func OnRequest(m runner) runner { return engines{m, false} }

type engines struct {
	m    runner
	both bool
}

// Run implements [runner].
func (e engines) Run() int {
	chosen := os.Getenv(engineEnv)
	flag.Parse() // for testing.Short
	if chosen == "" && e.both && !testing.Short() {
		chosen = "both"
	}
	for _, name := range []string{"test.fuzz", "test.fuzzworker", "test.bench", "test.list"} {
		if f := flag.Lookup(name); f != nil && f.Value.String() != f.DefValue {
			chosen = "sqlite" // these do not run twice
		}
	}
	if chosen != "postgres" {
		if code := e.m.Run(); code != 0 || chosen != "both" {
			return code
		}
	}
	if missing := postgrestest.Missing(); missing != "" {
		fmt.Println(missing)
		if os.Getenv("CI") == "true" {
			return 1
		}
		return 0
	}
	fmt.Println("=== the tests on PostgreSQL")
	s, err := postgrestest.New()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	use(s.Addr())
	code := e.m.Run()
	use("")
	if code != 0 {
		fmt.Printf("log of PostgreSQL:\n%s\n", s.Log())
	}
	if err := s.Remove(); err != nil {
		fmt.Println(err)
		return 1
	}
	return code
}

// use makes the tests run on a server, or on SQLite if addr is empty.
func use(addr string) {
	mu.Lock()
	defer mu.Unlock()
	clear(schemas)
	if err := os.Setenv(serverEnv, addr); err != nil {
		panic(err)
	}
}

// Postgres reports whether the tests run on PostgreSQL now.
func Postgres() bool { return os.Getenv(serverEnv) != "" }

// FileOnly ends a test on PostgreSQL whose subject is the file of SQLite.
func FileOnly(t testing.TB) {
	t.Helper()
	if Postgres() {
		t.SkipNow()
	}
}

// Options returns options with the engine on which the tests run now. On PostgreSQL, each
// data directory has a schema, which remains when the directory is opened again. On SQLite, a
// new data directory gets a copy of a database that has all tables: creating them would be a
// large part of most tests' time.
func Options(opt db.Options) db.Options {
	if opt.URL != "" {
		return opt
	}
	mu.Lock()
	defer mu.Unlock()
	if !Postgres() {
		if err := copyTables(opt); err != nil {
			panic(fmt.Sprintf("copy the tables of a test: %v", err))
		}
		opt.OnPlan = scans.Find(opt.Migrations, func(problem string) { panic(problem) })
		return opt
	}
	addr, schema := os.Getenv(serverEnv), Schema(opt.Dir)
	if !schemas[schema] {
		if err := createSchema(addr, schema); err != nil {
			panic(fmt.Sprintf("create the schema of a test: %v", err))
		}
		schemas[schema] = true
	}
	opt.URL = postgrestest.URLAt(addr, schema)
	return opt
}

// copyTables puts a database without rows into a data directory that has none.
func copyTables(opt db.Options) error {
	path := filepath.Join(opt.Dir, db.FileName)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	key := ""
	for _, m := range opt.Migrations {
		key += m.Name + m.SQL
	}
	if empty[key] == nil {
		content, err := migrated(opt.Migrations)
		if err != nil {
			return err
		}
		empty[key] = content
	}
	if err := os.MkdirAll(opt.Dir, 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, empty[key], 0o600)
}

// migrated returns the file of a database with the tables of migrations. Like a new database, it
// has no id yet.
func migrated(migrations []db.Migration) (content []byte, err error) {
	dir, err := os.MkdirTemp("", "lilac-tables-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx := context.Background()
	d, err := db.Open(ctx, db.Options{Dir: dir, Migrations: migrations})
	if err != nil {
		return nil, err
	}
	err = d.Update(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec("DELETE FROM meta")
		return err
	})
	if err := errors.Join(err, d.Close()); err != nil {
		return nil, err
	}
	return os.ReadFile(filepath.Join(dir, db.FileName))
}

func createSchema(addr, schema string) (err error) {
	ctx := context.Background() // in a synctest bubble, a deadline would pass at once
	c, err := pgconn.Connect(ctx, postgrestest.URLAt(addr, ""))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	return c.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS "+schema).Close()
}

// Ask returns the first value of a query on the schema of a data directory, even while another
// process writes there.
func Ask(t testing.TB, dir, query string) string {
	t.Helper()
	c, err := pgconn.Connect(t.Context(), postgrestest.URLAt(os.Getenv(serverEnv), Schema(dir)))
	if err != nil {
		t.Fatal(err)
	}
	results, err := c.Exec(t.Context(), query).ReadAll()
	if err := errors.Join(err, c.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	if len(results) == 0 || len(results[0].Rows) == 0 {
		t.Fatalf("%s: no row", query)
	}
	return string(results[0].Rows[0][0])
}

// Schema returns the schema of a data directory.
func Schema(dir string) string {
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	sum := sha256.Sum256([]byte(dir))
	return "t" + hex.EncodeToString(sum[:8])
}

// ReplaceBytes returns an UPDATE that replaces a text in a column of bytes, as damage would.
// where is empty or begins with WHERE.
func ReplaceBytes(table, column, from, to, where string) string {
	return db.Alternative(
		fmt.Sprintf("UPDATE %s SET %s = CAST(replace(CAST(%s AS TEXT), '%s', '%s') AS BLOB)%s", table, column, column, from, to, where),
		fmt.Sprintf("UPDATE %s SET %s = convert_to(replace(convert_from(%s, 'UTF8'), '%s', '%s'), 'UTF8')%s", table, column, column, from, to, where))
}

// Refuse makes every INSERT or UPDATE (what) of a table fail until [Allow].
func Refuse(tx *db.Tx, what, table string) error {
	statements := []string{`CREATE TRIGGER refuse BEFORE ` + what + ` ON ` + table + ` BEGIN SELECT raise(FAIL, 'held'); END`}
	if Postgres() {
		statements = []string{
			`CREATE OR REPLACE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'held'; END $$`,
			`CREATE TRIGGER refuse BEFORE ` + what + ` ON ` + table + ` FOR EACH ROW EXECUTE FUNCTION refuse()`,
		}
	}
	for _, statement := range statements {
		if _, err := tx.Exec(statement); err != nil {
			return err
		}
	}
	return nil
}

// Allow undoes [Refuse].
func Allow(tx *db.Tx, table string) error {
	statement := `DROP TRIGGER refuse`
	if Postgres() {
		statement += ` ON ` + table
	}
	_, err := tx.Exec(statement)
	return err
}
