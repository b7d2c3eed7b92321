package doctor_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/operate/doctor"
	"lilac/internal/store"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/postgrestest"
)

// The findings about a database on PostgreSQL. No examination disturbs its owner.
func TestADatabaseOnPostgres(t *testing.T) {
	effort.SkipPostgres(t)
	s := postgrestest.Start(t)
	if err := s.Do(`CREATE SCHEMA one; CREATE ROLE poor LOGIN; GRANT USAGE ON SCHEMA one TO poor; CREATE ROLE few LOGIN SUPERUSER CONNECTION LIMIT 2`); err != nil {
		t.Fatal(err)
	}
	look := func(url string, deep bool) doctor.Finding {
		p := patient(t, map[string]string{"LILAC_DB_URL": url}, "")
		p.Deep = deep
		return examine(t, p, "database")
	}
	url := s.URL("one")
	check(t, look(url, false), doctor.OK, "the first start creates the tables")
	owner, err := db.Open(t.Context(), db.Options{Dir: t.TempDir(), URL: url, Migrations: slices.Concat(sqlitebus.Migrations, store.Migrations)})
	if err != nil {
		t.Fatal(err)
	}
	defer owner.Close()
	check(t, look(url, false), doctor.OK, "PostgreSQL")
	check(t, look(url, true), doctor.OK, "all rows and stored files are intact")
	for mode, want := range map[fs.FileMode]doctor.Status{0o600: doctor.OK, 0o644: doctor.Warn} {
		dir := t.TempDir()
		if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.WriteFile(filepath.Join(dir, "passwords"), nil, mode)); err != nil {
			t.Fatal(err)
		}
		f := look(url+"&passfile="+filepath.Join(dir, "passwords"), false)
		check(t, f, want, "")
		if strings.Contains(f.Message, "other users can read ") != (want == doctor.Warn) {
			t.Errorf("a file of passwords with mode %o: %q", mode, f.Message)
		}
	}
	err = owner.Update(t.Context(), func(tx *db.Tx) error {
		_, err := tx.Exec("INSERT INTO inbox (source, external_id, value, at, checksum) VALUES ('s', 'damaged one', '', 0, 7)")
		return err
	})
	if err != nil {
		t.Fatalf("the owner, after it was examined: %v", err)
	}
	check(t, look(url, true), doctor.Fail, "damaged one")
	check(t, look(strings.Replace(url, "postgres@", "poor@", 1), false), doctor.Fail, "")
	check(t, look(strings.Replace(url, "postgres@", "few@", 1), false), doctor.Fail, "may have 2 connections")
	check(t, look(strings.Replace(url, "sslmode", "default_transaction_read_only=on&sslmode", 1), false), doctor.Fail, "read-only")
	standby := s.StartStandby(t, s.Addr(), 0)
	check(t, look(standby.URL("one"), false), doctor.Fail, "read-only")
	check(t, look(standby.URL("one"), true), doctor.Fail, "damaged one")
	s.Stop()
	check(t, look(url, false), doctor.Fail, "cannot be reached")
}
