package longtext_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"lilac/internal/engine/db"
	"lilac/internal/engine/longtext"
	"lilac/internal/testkit/dbtest"
)

func TestMain(m *testing.M) { os.Exit(dbtest.Engines(m).Run()) }

const owner = "request-1"

// message has the form of a row with a text and the arguments of a tool call.
type message struct {
	Role  string          `json:"role"`
	Text  string          `json:"text,omitempty"`
	Input json.RawMessage `json:"input,omitempty"`
}

func (m message) json(t testing.TB) []byte {
	t.Helper()
	out, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func open(t testing.TB) *db.DB {
	t.Helper()
	d, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: longtext.Migrations}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func setAside(t testing.TB, d *db.DB, values ...any) {
	t.Helper()
	if err := longtext.SetAside(t.Context(), d, owner, values...); err != nil {
		t.Fatal(err)
	}
}

func shorten(t testing.TB, d *db.DB, owner string, row []byte) (stored []byte) {
	t.Helper()
	err := d.Update(t.Context(), func(tx *db.Tx) (err error) {
		stored, err = longtext.Shorten(tx, owner, row)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return stored
}

func restore(d *db.DB, stored []byte) (row []byte, err error) {
	err = d.Read(context.Background(), func(q db.Queryer) (err error) {
		row, err = longtext.Restore(q, stored)
		return err
	})
	return row, err
}

// kept is the length of the beginning of each string that stays in its row, in bytes.
const kept = 64 << 10

func TestALongTextThatWasSetAsideIsNotInTheRow(t *testing.T) {
	long := strings.Repeat("All work and no play. ", 20_000)
	arguments := json.RawMessage(`{"path":"a.txt","content":"` + strings.Repeat(`line\n`, 100_000) + `"}`)
	for _, c := range []struct {
		name  string
		row   message
		most  int
		whole bool // nothing can be left out
	}{
		{"a short text", message{Role: "assistant", Text: "Hello"}, 100, true},
		{"a text of just the length that stays", message{Role: "assistant", Text: strings.Repeat("a", kept)}, kept + 100, true},
		{"one character more", message{Role: "assistant", Text: strings.Repeat("a", kept+1)}, kept + 200, false},
		{"a long text", message{Role: "assistant", Text: long}, kept + 2000, false},
		{"characters of several bytes", message{Role: "assistant", Text: strings.Repeat("漢字かな🌸é", 30_000)}, kept + 2000, false},
		{"characters that JSON escapes", message{Role: "assistant", Text: strings.Repeat("\"\\\n<\u2028\x01", 30_000)}, kept + 2000, false},
		{"invalid UTF-8", message{Role: "assistant", Text: strings.Repeat("\xff\xfea", 60_000)}, kept + 2000, false},
		{"long arguments", message{Role: "assistant", Input: arguments}, kept + 2000, false},
		{"surrogate pairs in arguments", message{Role: "assistant", Input: json.RawMessage(`["` + strings.Repeat(`\ud83c\udf38`, 20_000) + `"]`)}, kept + 2000, false},
		{"both", message{Role: "assistant", Text: long, Input: arguments}, 2*kept + 3000, false},
		{"many short strings", message{Role: "assistant", Input: json.RawMessage(`["` + strings.Repeat(`abc","`, 50_000) + `"]`)}, 1 << 20, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := open(t)
			row := c.row.json(t)
			if stored := shorten(t, d, owner, row); !bytes.Equal(stored, row) {
				t.Error("a text that was not set aside is not in the row")
			}
			setAside(t, d, c.row)
			setAside(t, d, c.row) // as after a crash
			stored := shorten(t, d, owner, row)
			if len(stored) > c.most || bytes.Equal(stored, row) != c.whole {
				t.Errorf("%d of %d bytes are in the row; want at most %d", len(stored), len(row), c.most)
			}
			if !json.Valid(stored) {
				t.Error("the database cannot read the row as JSON")
			}
			got, err := restore(d, stored)
			if err != nil || !bytes.Equal(got, row) {
				t.Errorf("restored %d bytes, %v; want the %d bytes of the row", len(got), err, len(row))
			}
			if stored := shorten(t, d, "request-2", row); !bytes.Equal(stored, row) {
				t.Error("a row refers to the texts of another owner")
			}
		})
	}
}

func TestARowWithTheSameTextSharesThePieces(t *testing.T) {
	d := open(t)
	text := strings.Repeat("All work and no play. ", 20_000)
	setAside(t, d, message{Role: "assistant", Text: text})
	before := count(t, d)
	setAside(t, d, text)
	if n := count(t, d); n != before || n != 6 {
		t.Errorf("%d pieces, then %d; want 6 of at most 64 KiB each for the rest of 430 KiB", before, n)
	}
	row := []byte(`{"kind":"final","data":` + string(message{Text: text}.json(t)) + `}`)
	if stored := shorten(t, d, owner, row); len(stored) > kept+2000 {
		t.Errorf("%d bytes are in the row", len(stored))
	}
}

func count(t *testing.T, d *db.DB) (n int) {
	t.Helper()
	err := d.Read(t.Context(), func(q db.Queryer) error { return q.QueryRow(`SELECT count(*) FROM long_texts`).Scan(&n) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Events from outside contain any JSON.
func TestARowThatLooksShortenedIsKeptAsItIs(t *testing.T) {
	d := open(t)
	setAside(t, d, strings.Repeat("secret ", 20_000))
	for _, row := range []string{
		`{"$aside":{"owner":"request-1","pieces":[{"id":"x","at":3}]},"a":1}`, `{"$aside":1}`, `{"$aside":`, `{"$aside":{}}`,
		`{"$aside":"` + strings.Repeat("secret ", 20_000) + `"}`,
	} {
		stored := shorten(t, d, owner, []byte(row))
		if got, err := restore(d, stored); err != nil || string(got) != row {
			t.Errorf("%.60s was restored as %.60s, %v", row, got, err)
		}
	}
	for _, row := range []string{`null`, `[]`, `1`, `{}`} {
		if stored := shorten(t, d, owner, []byte(row)); string(stored) != row {
			t.Errorf("%s is stored as %s", row, stored)
		}
	}
}

func TestDamageOfALongTextIsNoticed(t *testing.T) {
	for _, c := range []struct {
		name, damage string
		args         []any
		reported     int
	}{
		{"a piece is missing", `DELETE FROM long_texts WHERE id = (SELECT max(id) FROM long_texts)`, nil, 0},
		{"a byte has changed", `UPDATE long_texts SET data = ? WHERE id = (SELECT max(id) FROM long_texts)`, []any{[]byte("other")}, 1},
		{"all pieces are gone", `DELETE FROM long_texts`, nil, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := open(t)
			row := message{Role: "assistant", Text: strings.Repeat("All work and no play. ", 20_000)}
			setAside(t, d, row)
			stored := shorten(t, d, owner, row.json(t))
			if bad, err := longtext.Verify(t.Context(), d); err != nil || len(bad) > 0 {
				t.Fatalf("before the damage: %q, %v", bad, err)
			}
			if err := d.Update(t.Context(), func(tx *db.Tx) error { _, err := tx.Exec(c.damage, c.args...); return err }); err != nil {
				t.Fatal(err)
			}
			if _, err := restore(d, stored); !db.IsDamaged(err) {
				t.Errorf("the row was restored: %v", err)
			}
			bad, err := longtext.Verify(t.Context(), d)
			if err != nil || len(bad) != c.reported {
				t.Errorf("the check of all pieces reports %q, %v; want %d pieces", bad, err, c.reported)
			}
		})
	}
	d := open(t)
	for _, stored := range []string{`{"$aside":`, `{"$aside":[],"a":1}`, `{"$aside":{"pieces":[{"id":"x","at":-1}]},"a":1}`} {
		if _, err := restore(d, []byte(stored)); !db.IsDamaged(err) {
			t.Errorf("%s was restored: %v", stored, err)
		}
	}
}

func FuzzARowIsRestored(f *testing.F) {
	f.Add(`{"text":"a"}`, "b", 70_000)
	f.Add(`{"$aside":{}}`, `\`, 200_000)
	f.Add(`{"a":"\ud83c\udf38"}`, "🌸", 50_000)
	d := open(f)
	f.Fuzz(func(t *testing.T, row, text string, n int) {
		if text == "" || n < 0 || n > 300_000 {
			return
		}
		long := strings.Repeat(text, n/len(text)+1)
		setAside(t, d, long)
		if json.Valid([]byte(row)) && strings.HasPrefix(row, "{") {
			row = strings.TrimSuffix(strings.TrimSpace(row), "}")
			if len(row) > 1 && strings.TrimSpace(row) != "{" {
				row += ","
			}
			row += `"long":` + string(message{Text: long}.json(t)) + `}`
		}
		stored := shorten(t, d, owner, []byte(row))
		if json.Valid([]byte(row)) && !json.Valid(stored) {
			t.Errorf("a row of valid JSON is stored as invalid JSON")
		}
		if got, err := restore(d, stored); err != nil || string(got) != row {
			t.Errorf("a row of %d bytes was restored as %d bytes, %v", len(row), len(got), err)
		}
	})
}
