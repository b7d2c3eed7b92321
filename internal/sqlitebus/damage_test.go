package sqlitebus_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/bus"
	"lilac/internal/bustest"
	"lilac/internal/db"
	"lilac/internal/event"
	"lilac/internal/fault"
	"lilac/internal/sqlitebus"
)

// D3: a flipped byte in a row of the log is found and never served.
func TestFlippedBytesAreFound(t *testing.T) {
	flips := 60
	if long() {
		flips = 2000
	}
	dir := t.TempDir()
	database, b := openBus(t, dir, db.Options{}, sqlitebus.Options{TrimEvery: -1})
	want := bustest.Events(bustest.Topic, "marked-event-", 40)
	if err := b.Publish(context.Background(), want...); err != nil {
		t.Fatal(err)
	}
	closeBus(t, database, b)
	sound, err := os.ReadFile(filepath.Join(dir, db.FileName))
	if err != nil {
		t.Fatal(err)
	}
	rows := rowSpans(t, sound)
	random := rand.New(rand.NewPCG(1, 2))
	for n := range flips {
		span := rows[random.IntN(len(rows))]
		at := span[0] + random.IntN(span[1]-span[0])
		if at == span[2] {
			continue
		}
		broken := bytes.Clone(sound)
		broken[at] ^= byte(1 + random.IntN(255))
		found, served := examine(t, broken, want)
		if !found {
			t.Errorf("flip %d: byte %d (%q → %q) was not found", n, at, sound[at], broken[at])
		}
		if served {
			t.Errorf("flip %d: byte %d: an event was served that was not published", n, at)
		}
	}
	// The control: nothing is found where nothing is damaged.
	if found, served := examine(t, sound, want); found || served {
		t.Errorf("control: an undamaged database was found damaged (%v) or served other events (%v)", found, served)
	}
}

// rowSpans finds the rows of the log in the file: the cells, length and number
// included, that the leaf pages of a table point to.
func rowSpans(t *testing.T, file []byte) (spans [][3]int) {
	t.Helper()
	const pageSize, leaf = 4096, 0x0d
	for page := pageSize; page < len(file); page += pageSize {
		if file[page] != leaf {
			continue
		}
		for i := range int(binary.BigEndian.Uint16(file[page+3:])) {
			start := page + int(binary.BigEndian.Uint16(file[page+8+2*i:]))
			size, n := varint(file[start:])
			_, m := varint(file[start+n:])
			end := start + n + m + size
			if bytes.Contains(file[start:end], []byte("test.happened")) {
				// The type of the row number's column, which SQLite does not read.
				spans = append(spans, [3]int{start, end, start + n + m + 1})
			}
		}
	}
	if len(spans) != 40 {
		t.Fatalf("found %d rows in the file, want 40", len(spans))
	}
	return spans
}

// varint reads a number of SQLite's file format.
func varint(b []byte) (value, size int) {
	for size < 8 {
		value = value<<7 | int(b[size]&0x7f)
		size++
		if b[size-1] < 0x80 {
			return value, size
		}
	}
	return value<<8 | int(b[8]), 9
}

// examine opens a file and says whether damage was found, by name, and whether
// anything was served that is not what was published.
func examine(t *testing.T, file []byte, want []event.Event) (found, served bool) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, db.FileName), file, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	database, err := db.Open(ctx, db.Options{Dir: dir, Migrations: sqlitebus.Migrations})
	if err != nil {
		after, readErr := os.ReadFile(filepath.Join(dir, db.FileName))
		if readErr != nil || !bytes.Equal(file, after) {
			t.Error("a refused database was touched")
		}
		return true, false
	}
	defer database.Close()
	b, err := sqlitebus.New(database, sqlitebus.Options{TrimEvery: -1})
	if err != nil {
		return true, false
	}
	defer b.Close()
	var f *fault.Error
	var after bus.Position
	for {
		got, err := b.Fetch(ctx, bustest.Topic, after, 7)
		if err != nil {
			found = errors.As(err, &f) && f.Code == db.CodeDamagedRow || found
			break
		}
		if len(got) == 0 {
			break
		}
		for _, d := range got {
			var seq int
			fmt.Sscan(string(d.Position), &seq)
			served = served || cmp.Diff(want[seq-1], d.Event) != ""
			after = d.Position
		}
	}
	bad, err := b.Verify(ctx)
	if found && len(bad) == 0 && err == nil {
		t.Error("Verify did not find what a read had found")
	}
	structure, err2 := database.Verify(ctx)
	return found || len(bad) > 0 || err != nil || len(structure) > 0 || err2 != nil, served
}

// A damaged row does not stop a group: it is set aside, named, and the log keeps it.
func TestDamagedRowIsSetAside(t *testing.T) {
	database, b := openBus(t, t.TempDir(), db.Options{}, sqlitebus.Options{TrimEvery: -1})
	ctx, cancel := context.WithCancel(context.Background())
	s := bus.Subscription{Topic: bustest.Topic, Group: "g"}
	if err := b.Declare(ctx, s); err != nil {
		t.Fatal(err)
	}
	if err := b.Publish(ctx, bustest.Events(bustest.Topic, "e", 3)...); err != nil {
		t.Fatal(err)
	}
	err := database.Update(ctx, func(tx *db.Tx) error {
		_, err := tx.Exec("UPDATE bus_log SET data = ? WHERE id = 'e1'", []byte(`{"id":"forged"}`))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	handled, done := make(chan string, 3), make(chan error, 1)
	go func() {
		done <- b.Subscribe(ctx, s, func(_ context.Context, d bus.Delivery) error { handled <- d.ID; return nil })
	}()
	if got := []string{<-handled, <-handled}; cmp.Diff([]string{"e0", "e2"}, got) != "" {
		t.Errorf("handled %v", got)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	letters, err := b.DeadLetters(context.Background(), "", 5)
	if err != nil || len(letters) != 1 || !strings.Contains(letters[0].Reason, "test.topic/2") {
		t.Errorf("dead letters %+v, %v; want one that names the row", letters, err)
	}
	if bad, err := b.Verify(context.Background()); err != nil || len(bad) != 1 {
		t.Errorf("Verify: %v, %v; want the one row", bad, err)
	}
}
