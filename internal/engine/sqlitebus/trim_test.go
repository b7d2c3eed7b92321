package sqlitebus_test

import (
	"sync/atomic"
	"testing"

	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/effort"
)

// D4: every group handles every event, in any sequence of publishing, handling,
// failing, trimming and restarting.
func TestTrimmingNeverDropsWork(t *testing.T) {
	sequences := 40
	if bustest.Long() {
		sequences = 10_000
	}
	bustest.Trimming(t, sequences, openTrimmed)
}

// The control of D4: a trim that keeps only the newest events, like MAXLEN, loses work.
func TestControlMaxLenLosesWork(t *testing.T) {
	effort.SkipSlow(t)
	bustest.TrimmingLoses(t, openTrimmed, func(e bustest.Engine, _ event.Topic, newest int) {
		if err := e.DB.Update(t.Context(), func(tx *db.Tx) error {
			if _, err := tx.Exec("DELETE FROM bus_log WHERE pos <= (SELECT max(pos) FROM bus_log) - ?", newest); err != nil {
				return err
			}
			_, err := tx.Exec("UPDATE bus_topics SET trimmed = (SELECT max(pos) & 4294967295 FROM bus_log) - ?", newest)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// openTrimmed opens a fresh engine for sequences. It disables syncs, because the
// sequences test logic and syncs would only slow them down.
func openTrimmed(t testing.TB) bustest.Engine {
	t.Helper()
	return storage{
		dir: t.TempDir(), sync: "OFF", skew: new(atomic.Int64),
		times: delivery.Options{Age: bustest.TrimAge, SilentAfter: bustest.TrimSilence},
	}.open(t)
}
