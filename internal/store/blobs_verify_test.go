package store_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/engine/db"
	"lilac/internal/store"
)

// VerifyFiles reports each file whose content does not match its name, and each missing
// file that still has a reference.
func TestADeepLookReadsEveryStoredFile(t *testing.T) {
	f := newShelf(t)
	whole, changed, gone, loose := f.put("whole"), f.put("changed"), f.put("gone"), f.put("loose")
	update(t, f.db, func(tx *db.Tx) error {
		for _, ref := range []string{whole, changed, gone} {
			if err := f.store.Files.ReferFiles(tx, "s", withFile(ref).Parts); err != nil {
				return err
			}
		}
		return nil
	})
	look := func() []string {
		t.Helper()
		bad, err := f.store.VerifyFiles(t.Context(), store.BlobsDir(f.dir), nil)
		if err != nil {
			t.Fatal(err)
		}
		return bad
	}
	if bad := look(); len(bad) > 0 {
		t.Fatalf("control: %q", bad)
	}
	if err := os.WriteFile(f.path(changed), []byte("Changed"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{gone, loose} { // the loose file has no reference, so it is not reported
		if err := os.Remove(f.path(ref)); err != nil {
			t.Fatal(err)
		}
	}
	bad := look()
	if len(bad) != 2 || !strings.Contains(bad[0], changed[12:]+" is damaged") || !strings.Contains(bad[1], gone[12:]+" is missing, to which session/s refers") {
		t.Errorf("found: %q", bad)
	}
	if err := os.RemoveAll(filepath.Join(f.dir, "blobs")); err != nil {
		t.Fatal(err)
	}
	if bad := look(); len(bad) != 3 {
		t.Errorf("without the directory: %q", bad)
	}
}
