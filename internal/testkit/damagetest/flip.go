package damagetest

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/engine/db"
)

// Case is an undamaged database and the functions that examine copies of it.
type Case struct {
	// Dir is the directory of the database, which must be closed.
	Dir        string
	Migrations []db.Migration
	// Tables names the tables whose rows to damage.
	Tables []string
	// Verify reports damaged rows by their checksums, as the deep check does. As a
	// control, the structural check alone must miss some of the damage.
	Verify func(ctx context.Context, d *db.DB) (bad []string, err error)
	// Serve reads all rows like the program does. It describes a result that differs
	// from what was written, or returns "" if there is none. Errors are allowed.
	Serve func(ctx context.Context, d *db.DB) (wrong string)
}

// Flip changes one random byte of a random row, n times, each time in a new copy. It fails
// the test if a flip is not detected, or if Serve returns a wrong result. A flip may remain
// undetected only if all rows still have the same values, because the file format contains
// bytes that SQLite does not read.
func (c Case) Flip(t *testing.T, n int, seed uint64) {
	t.Helper()
	sound, err := os.ReadFile(filepath.Join(c.Dir, db.FileName))
	if err != nil {
		t.Fatal(err)
	}
	before := c.examine(t, sound)
	if before.checked || before.structure || before.wrong != "" || before.dump == "" {
		t.Fatalf("control: a sound database was found damaged: %+v", before)
	}
	spans := c.spans(t, sound)
	random := rand.New(rand.NewPCG(seed, 2))
	var harmless, onlyChecked int
	for i := range n {
		span := spans[random.IntN(len(spans))]
		at := span.Start + random.IntN(span.End-span.Start)
		broken := bytes.Clone(sound)
		broken[at] ^= byte(1 + random.IntN(255))
		got := c.examine(t, broken)
		switch {
		case got.wrong != "":
			t.Errorf("flip %d: byte %d of the row at %d (%#x → %#x): served %s", i, at-span.Start, span.Start, sound[at], broken[at], got.wrong)
		case got.structure:
		case got.checked:
			onlyChecked++
		case got.dump == before.dump:
			harmless++
		default:
			t.Errorf("flip %d: byte %d of the row at %d (%#x → %#x) was not found", i, at-span.Start, span.Start, sound[at], broken[at])
		}
	}
	if onlyChecked == 0 {
		t.Errorf("control: without the checksums all %d flips would have been found; the test shows nothing", n)
	}
	t.Logf("%d flips: %d found by the checksums alone, %d by the structure, %d changed nothing that is read",
		n, onlyChecked, n-onlyChecked-harmless, harmless)
}

func (c Case) spans(t *testing.T, file []byte) (spans []Span) {
	t.Helper()
	d, err := db.Open(t.Context(), db.Options{Dir: c.Dir, Migrations: c.Migrations})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for _, table := range c.Tables {
		var root int
		err := d.Read(t.Context(), func(q db.Queryer) error {
			return q.QueryRow("SELECT rootpage FROM sqlite_master WHERE type = 'table' AND name = ?", table).Scan(&root)
		})
		if err != nil {
			t.Fatalf("find table %s: %v", table, err)
		}
		found, err := Cells(file, root)
		if err != nil || len(found) == 0 {
			t.Fatalf("find the rows of %s: %d, %v", table, len(found), err)
		}
		spans = append(spans, found...)
	}
	return spans
}

// seen is the result of the examination of one copy.
type seen struct {
	structure bool // the open failed, or the structural check found damage
	checked   bool
	wrong     string
	dump      string
}

func (c Case) examine(t *testing.T, file []byte) (s seen) {
	t.Helper()
	dir, err := os.MkdirTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, db.FileName)
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := t.Context()
	d, err := db.Open(ctx, db.Options{Dir: dir, Migrations: c.Migrations, Synchronous: "OFF"})
	if err != nil {
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(file, after) {
			t.Error("a database that was refused was touched")
		}
		return seen{structure: true}
	}
	defer d.Close()
	s.wrong = c.Serve(ctx, d)
	bad, err := d.Verify(ctx)
	s.structure = len(bad) > 0 || err != nil
	bad, err = c.Verify(ctx, d)
	s.checked = len(bad) > 0 || err != nil
	if err := d.Read(ctx, func(q db.Queryer) (err error) { s.dump, err = c.dump(q); return err }); err != nil {
		s.dump = err.Error()
	}
	return s
}

// dump returns every value of every row, with its type.
func (c Case) dump(q db.Queryer) (string, error) {
	var b strings.Builder
	for _, table := range c.Tables {
		rows, err := q.Query("SELECT * FROM " + table)
		if err != nil {
			return "", err
		}
		columns, err := rows.Columns()
		if err != nil {
			rows.Close()
			return "", err
		}
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				rows.Close()
				return "", err
			}
			for i, v := range values {
				if blob, ok := v.([]byte); ok && len(blob) == 0 {
					values[i] = nil // the program does not distinguish NULL from an empty blob
				}
			}
			fmt.Fprintf(&b, "%s %#v\n", table, values)
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return "", err
		}
	}
	return b.String(), nil
}
