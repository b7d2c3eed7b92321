package app

import (
	"errors"
	"path/filepath"
	"testing"

	"lilac/internal/foundation/fault"
	"lilac/internal/store"
	"lilac/internal/telemetry/health"
)

// Files from people are rejected before they fill the disk, because everyone who may write to
// the bot can send files. The control is a file of the agent, which bypasses that check.
func TestFilesThatPeopleSendLeaveTheDatabaseItsRoom(t *testing.T) {
	dir := t.TempDir()
	blobs, err := store.OpenBlobs(store.BlobsDir(dir), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	kept := func() int {
		files, err := filepath.Glob(filepath.Join(dir, "blobs", "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	free := uint64(health.LowDisk) + 4
	files := sentFiles{blobs, dir, func(path string) (health.Disk, error) {
		if path != dir {
			t.Errorf("it looks at %s", path)
		}
		return health.Disk{Free: free}, nil
	}}
	if _, err := files.Put(t.Context(), []byte("five!")); fault.KindOf(err) != fault.Unavailable || kept() != 0 {
		t.Errorf("without room: %v, %d files", err, kept())
	}
	if ref, err := files.Put(t.Context(), []byte("four")); err != nil || kept() != 1 {
		t.Errorf("with room: %q, %v, %d files", ref, err, kept())
	}
	if _, err := blobs.Put(t.Context(), []byte("five!")); err != nil || kept() != 2 {
		t.Errorf("the store itself: %v, %d files", err, kept())
	}
	unknown := errors.New("no such file system")
	files.diskAt = func(string) (health.Disk, error) { return health.Disk{}, unknown }
	if _, err := files.Put(t.Context(), []byte("unknown")); !errors.Is(err, unknown) || kept() != 2 {
		t.Errorf("when nobody knows the room: %v, %d files", err, kept())
	}
}
