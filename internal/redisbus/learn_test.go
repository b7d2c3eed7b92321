package redisbus_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/bustest"
	"lilac/internal/db"
	"lilac/internal/redisbus"
	"lilac/internal/redistest"
)

// Rows that Redis got from a process which was killed before it noted that, or whose notes
// a power cut took back, are there once: also where nothing at all is known of the output.
func TestRowsThatWereSentAndNotNotedAreThereOnce(t *testing.T) {
	w := newWorld(t, redistest.Start(t, redistest.Options{}), "")
	if err := w.db.Update(t.Context(), func(tx *db.Tx) error { return tx.Publish(bustest.Events(plain, "e", 3, "l")...) }); err != nil {
		t.Fatal(err)
	}
	until(t, "the rows are sent", func() bool { return w.unsent() == 0 })
	w.close()
	database, err := db.Open(t.Context(), db.Options{Dir: w.dir, Migrations: redisbus.Migrations})
	if err != nil {
		t.Fatal(err)
	}
	for _, forget := range []string{"UPDATE redis_outgoing SET pos = 0, batch = 0, sent_at = 0", "DELETE FROM bus_topics"} {
		if err := database.Update(t.Context(), func(tx *db.Tx) error { _, err := tx.Exec(forget); return err }); err != nil {
			t.Fatal(err)
		}
	}
	if err := database.Close(); err != nil {
		t.Fatal(err)
	}
	w.open()
	until(t, "the rows are sent again", func() bool { return w.unsent() == 0 })
	if err := w.bus.Publish(t.Context(), bustest.Event(plain, "new", "l")); err != nil {
		t.Fatal(err)
	}
	if got, _ := w.read(plain); !cmp.Equal(got, append(names("e", 3), "new")) {
		t.Errorf("the output has %v", got)
	}
}
