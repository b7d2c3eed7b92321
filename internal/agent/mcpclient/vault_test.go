package mcpclient

import (
	"os"
	"path/filepath"
	"testing"

	"lilac/internal/foundation/osfile"
)

// An operator's root logs in for a service that runs as another user, which must read the key.
func TestTheKeyThatRootMakesBelongsToTheOwnerOfTheDirectory(t *testing.T) {
	if !osfile.HasModes || os.Geteuid() != 0 {
		t.Skip("only root can give something away: run this test as root")
	}
	dir := t.TempDir()
	if err := os.Chown(dir, 61234, 61234); err != nil {
		t.Fatal(err)
	}
	v := &Vault{File: filepath.Join(dir, "keys", "logins.json"), KeyFile: filepath.Join(dir, "keys", "logins.key")}
	if err := v.Save("tracker", Login{}); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{filepath.Dir(v.KeyFile), v.KeyFile, v.File} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if uid, gid, _ := osfile.Owner(info); uid != 61234 || gid != 61234 {
			t.Errorf("%s belongs to %d:%d, want 61234", path, uid, gid)
		}
	}
}
