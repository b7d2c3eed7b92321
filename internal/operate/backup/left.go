package backup

import (
	"os"
	"path/filepath"
	"strings"

	"lilac/internal/foundation/osfile"
)

// tempPrefix is the name prefix of the directories that hold the copy of the database.
const tempPrefix = ".lilac-backup-"

// removeLeft deletes temporary directories that killed backups left behind, because each contains
// a copy of the whole database. It skips those of running backups, which hold a lock.
func removeLeft(dir string) {
	entries, _ := os.ReadDir(dir) // the backup itself reports errors of this directory
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), tempPrefix) {
			continue
		}
		temp := filepath.Join(dir, e.Name())
		if lock, err := osfile.LockDir(temp); err == nil {
			_ = lock.Close()
			_ = os.RemoveAll(temp) // a directory that cannot be removed does no harm
		}
	}
}
