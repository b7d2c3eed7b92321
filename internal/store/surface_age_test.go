package store_test

import (
	"slices"
	"testing"

	"lilac/internal/db"
	"lilac/internal/store"
)

// A database from before has titles by which nothing was found.
func TestTitlesOfSessionsFromBeforeAreFound(t *testing.T) {
	before := slices.IndexFunc(store.Migrations, func(m db.Migration) bool { return m.Name == "surface.0004-sessions" })
	dir := t.TempDir()
	reopen := func(migrations []db.Migration, do func(d *db.DB)) {
		t.Helper()
		d, err := db.Open(t.Context(), db.Options{Dir: dir, Migrations: migrations})
		if err != nil {
			t.Fatal(err)
		}
		do(d)
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
	reopen(store.Migrations[:before], func(d *db.DB) {
		update(t, d, func(tx *db.Tx) error {
			_, err := tx.Exec(`INSERT INTO surface_sessions (platform, channel_id, updated_at, json) VALUES
				('discord', '1', 0, CAST('{"platform":"discord","channelId":"1","kind":"thread","title":"#Ä-Team"}' AS BLOB)), ('discord', '2', 0, CAST('{"platform":"discord","channelId":"2","kind":"dm"}' AS BLOB))`)
			return err
		})
	})
	reopen(store.Migrations, func(d *db.DB) {
		for title, want := range map[string]int{"ä-team": 1, "#Ä-TEAM": 1, "": 0, "team": 0} {
			if err := read(t, d, func(q db.Queryer) error {
				found, err := store.SurfaceCache{}.SessionsTitled(q, "discord", title)
				if len(found) != want {
					t.Errorf("%q finds %+v", title, found)
				}
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
	})
}
