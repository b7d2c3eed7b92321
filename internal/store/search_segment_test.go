package store_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/store"
)

// In scripts without spaces between words, a search finds parts of a sentence, also in
// messages from before the migration that added segmentation.
func TestSearchFindsWordsThatNoSpaceEnds(t *testing.T) {
	dir := t.TempDir()
	opened := func(migrations []db.Migration) (*db.DB, *store.Store) {
		d, err := db.Open(t.Context(), db.Options{Dir: dir, Migrations: migrations})
		if err != nil {
			t.Fatal(err)
		}
		return d, store.New(d)
	}
	last := slices.IndexFunc(store.Migrations, func(m db.Migration) bool { return m.Name == "store.0009-search-unspaced" })
	d, s := opened(store.Migrations[:last])
	newSession(t, d, s, "s1", "ÉCOLE")
	say(t, d, s, "s1", "old", `{"role":"user","content":"東京都に住んでいます。サーバーは遅い tower"}`)
	say(t, d, s, "s1", "plain", `{"role":"user","content":"the tower"}`)
	put(t, d, surface.Message{Platform: "discord", ChannelID: "10", ID: "7", AuthorID: "5", Text: "초등학교에 갑니다"})
	update(t, d, s.History.IndexHistory)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d, s = opened(store.Migrations)
	t.Cleanup(func() { d.Close() })
	say(t, d, s, "s1", "new", `{"role":"assistant","content":"東京の塔。ฉันรักแมว"}`)
	for query, want := range map[string][]string{
		"東京":       {"new", "old"},
		"住んで":      {"old"},
		"サーバー":     {"old"},
		"京東":       nil,
		"東京 tower": {"old"},
		"tow":      {"plain", "old"},
		"รัก":      {"new"},
	} {
		if diff := cmp.Diff(want, found(t, d, s, query)); diff != "" {
			t.Errorf("search %q (-want +got):\n%s", query, diff)
		}
	}
	err := read(t, d, func(q db.Queryer) error {
		got, err := store.SurfaceCache{}.SearchMessages(q, "discord", []string{"10"}, "학교", 10)
		if len(got) != 1 {
			t.Errorf("of the platform's messages %d are found", len(got))
		}
		titled, titleErr := s.Sessions.SessionsTitled(q, "école", 10)
		if len(titled) != 1 || titleErr != nil {
			t.Errorf("%d titles, %v", len(titled), titleErr)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
