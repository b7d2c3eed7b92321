package backup

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/telemetry/health"
)

const mib = 1 << 20

// noRoom returns the error for a backup that filled its disk. It names the directory, the free
// space after the incomplete backup was deleted, and the space that a backup needs.
func noRoom(full error, dataDir, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return errors.Join(full, err)
	}
	disk, err := health.DiskAt(dir)
	if err != nil {
		return errors.Join(full, err)
	}
	most, err := room(dataDir)
	if err != nil {
		return errors.Join(full, err)
	}
	return fault.Wrap(fault.Unavailable, full, "There is no room for the backup: %s has %d MiB free, and a backup of %s takes up to %d MiB there while it is made.",
		dir, disk.Free/mib, dataDir, (most+mib-1)/mib)
}

// noRoomToRestore returns the error for a restore that filled its disk. It names the free space
// after the incomplete files were deleted, and the space that the restore needs.
func noRoomToRestore(full error, m Manifest, dataDir string) error {
	disk, err := health.DiskAt(dataDir)
	if err != nil {
		return errors.Join(full, err)
	}
	return fault.Wrap(fault.Unavailable, full, "There is no room for what the backup holds: %s has %d MiB free, and it takes %d MiB. Nothing was restored.",
		dataDir, disk.Free/mib, (m.Bytes()+mib-1)/mib)
}

// room returns the maximum space that a backup needs while it is made: twice the database with its
// write-ahead log, plus the stored files.
func room(dataDir string) (bytes int64, err error) {
	err = filepath.WalkDir(dataDir, func(_ string, d fs.DirEntry, err error) error {
		inDatabase := strings.HasPrefix(d.Name(), db.FileName)
		if err != nil || !d.Type().IsRegular() || !inDatabase && !isBlob(d.Name()) {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		bytes += info.Size()
		if inDatabase {
			bytes += info.Size()
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("measure %s: %w", dataDir, err)
	}
	return bytes, nil
}
