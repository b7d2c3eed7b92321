package delivery_test

import (
	"slices"
	"strings"
	"testing"

	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/foundation/fault"
)

// A database whose events are in Redis is refused, and stays as it is. One that has its events
// itself is opened.
func TestADatabaseWhoseLogIsElsewhereIsRefused(t *testing.T) {
	last := slices.IndexFunc(delivery.Migrations, func(m db.Migration) bool { return m.Name == "bus.0005-log-in-the-database" })
	for engine, refused := range map[string]bool{"redis": true, "sqlite": false, "": false} {
		dir := t.TempDir()
		before, err := db.Open(t.Context(), db.Options{Dir: dir, Migrations: delivery.Migrations[:last]})
		if err != nil {
			t.Fatal(err)
		}
		if engine != "" {
			err = before.Update(t.Context(), func(tx *db.Tx) error {
				_, err := tx.Exec("INSERT INTO meta (name, value) VALUES ('bus_engine', ?)", engine)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := before.Close(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			now, err := db.Open(t.Context(), db.Options{Dir: dir, Migrations: delivery.Migrations})
			if refused != (err != nil) || refused && (fault.KindOf(err) != fault.Conflict || !strings.Contains(err.Error(), "are in Redis")) {
				t.Fatalf("with the engine %q: %v", engine, err)
			}
			if err == nil {
				if err := now.Close(); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}
