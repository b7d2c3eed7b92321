package setup

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/foundation/fault"
	"lilac/internal/operate/config"
)

func TestStoreKeepsTheOldFileAndHidesSecrets(t *testing.T) {
	dir := t.TempDir()
	real, link := filepath.Join(dir, "real.yaml"), filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(real, []byte("model: demo\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	s := Store{Path: link, DataDir: filepath.Join(dir, "data")}
	before, err := s.Read()
	if err != nil {
		t.Fatal(err)
	}
	after := Files{"model: a/b\n", map[string]config.Secret{"A_KEY": "k"}}
	if err := s.Write(before, after); err != nil {
		t.Fatal(err)
	}
	got, err := s.Read()
	if diff := cmp.Diff(after, got); err != nil || diff != "" {
		t.Errorf("error %v; want -, got +:\n%s", err, diff)
	}
	if old, ok, err := s.Previous(); old != "model: demo\n" || !ok || err != nil {
		t.Errorf("the old file is %q, %v, error %v", old, ok, err)
	}
	for path, mode := range map[string]os.FileMode{filepath.Join(dir, "data", "secrets"): 0o600, real: 0o640, real + ".old": 0o640} {
		if info, err := os.Lstat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v, error %v, want mode %v", path, info.Mode(), err, mode)
		}
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is gone: %v", err)
	}
	if err := s.Write(before, after); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a file that changed meanwhile is written: %v", err)
	}
}

func TestReadOnlyFileIsNotWritten(t *testing.T) {
	dir := t.TempDir()
	blocked := filepath.Join(dir, "blocked")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	paths := []string{filepath.Join(blocked, "config.yaml")}
	if os.Getuid() == 0 {
		t.Log("root may write every file; the directory that is a file stands for a read-only one")
	} else {
		locked := filepath.Join(dir, "locked")
		if err := os.Mkdir(locked, 0o500); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, filepath.Join(locked, "missing", ".lilac", "config.yaml"))
	}
	for _, path := range paths {
		s := Store{Path: path, DataDir: dir}
		if s.ReadOnly() == "" {
			t.Errorf("%s is said to be writable", path)
		}
		if err := s.Write(Files{}, Files{Config: "model: demo\n"}); err == nil {
			t.Errorf("%s was written", path)
		}
	}
}
