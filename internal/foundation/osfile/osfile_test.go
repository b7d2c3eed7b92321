package osfile_test

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"lilac/internal/foundation/osfile"
)

// TestMain makes the test program lock the file that LOCK names and hold the lock until
// its standard input ends: a lock counts between processes.
func TestMain(m *testing.M) {
	path := os.Getenv("LOCK")
	if path == "" {
		os.Exit(m.Run())
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		err = osfile.TryLock(f)
	}
	if err != nil {
		os.Exit(1)
	}
	os.Stdout.WriteString("locked\n")
	io.Copy(io.Discard, os.Stdin)
}

func TestALockIsHeldUntilItsProcessEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(path, []byte("123\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), "LOCK="+path)
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(stdout).ReadString('\n'); line != "locked\n" {
		t.Fatalf("the other process printed %q, %v, want that it holds the lock", line, err)
	}

	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := osfile.TryLock(f); !errors.Is(err, osfile.ErrLocked) {
		t.Errorf("TryLock = %v while another process holds the lock, want ErrLocked", err)
	}
	if content, err := os.ReadFile(path); string(content) != "123\n" {
		t.Errorf("a locked file reads as %q, %v, want its content", content, err)
	}
	stdin.Close()
	if err := holder.Wait(); err != nil {
		t.Fatal(err)
	}
	if err := osfile.TryLock(f); err != nil {
		t.Errorf("TryLock = %v after the other process ended, want success", err)
	}
	if err := osfile.Unlock(f); err != nil {
		t.Errorf("Unlock = %v, want success", err)
	}
}

func TestOpenDirRefusesFilesAndLinks(t *testing.T) {
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(dir, link); err != nil {
		t.Skipf("this user cannot make symbolic links: %v", err)
	}
	for path, want := range map[string]bool{dir: true, file: false, link: false} {
		f, err := osfile.OpenDir(path)
		if (err == nil) != want {
			t.Errorf("OpenDir(%s) = %v, want success %v", path, err, want)
		}
		if err == nil {
			f.Close()
		}
	}
}

func TestAFileIsReplacedAsAWhole(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	file := filepath.Join(dir, "file")
	if err := osfile.Replace(file, nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("in a missing directory: %v", err)
	}
	for range 2 { // a directory that exists is no error
		if err := osfile.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, text := range []string{"a longer one", "short"} {
		if err := osfile.Replace(file, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(file)
		if err != nil || osfile.HasModes && info.Mode().Perm() != 0o640 {
			t.Errorf("the mode is %v, %v", info.Mode(), err)
		}
		if got, err := os.ReadFile(file); string(got) != text {
			t.Errorf("the file has %q, %v, want %q", got, err, text)
		}
	}
	if err := osfile.Replace(dir, []byte("x"), 0o600); err == nil {
		t.Error("a file replaced a directory")
	}
	if err := osfile.MkdirAll(filepath.Join(file, "below"), 0o700); err == nil {
		t.Error("there is a directory below a file")
	}
	for _, at := range []string{dir, filepath.Dir(dir)} {
		if left, err := os.ReadDir(at); len(left) != 1 {
			t.Errorf("%s has %v, %v, want one entry", at, left, err)
		}
	}
}

// Control: what root makes in a directory of its own is root's.
func TestWhatRootMakesBelongsToTheOwnerOfTheDirectory(t *testing.T) {
	if !osfile.HasModes || os.Geteuid() != 0 {
		t.Skip("only root can give something away: run this test as root")
	}
	for _, uid := range []int{61234, 0} {
		dir := t.TempDir()
		given := filepath.Join(dir, "of another user")
		err := errors.Join(os.WriteFile(given, nil, 0o600), os.Chown(given, 61235, 61235), os.Chown(dir, uid, uid))
		for _, path := range []string{"file", "made/below/file", "of another user"} {
			path = filepath.Join(dir, path)
			err = errors.Join(err, osfile.MkdirAll(filepath.Dir(path), 0o700), osfile.Replace(path, []byte("x"), 0o600))
		}
		if err != nil {
			t.Fatal(err)
		}
		for path, want := range map[string]int{"file": uid, "made": uid, "made/below": uid, "made/below/file": uid, "of another user": 61235} {
			info, err := os.Stat(filepath.Join(dir, path))
			if err != nil {
				t.Fatal(err)
			}
			if got, group, _ := osfile.Owner(info); got != want || group != want {
				t.Errorf("%s in a directory of %d belongs to %d:%d, want %d", path, uid, got, group, want)
			}
		}
	}
}

func TestADirectoryOfThisUserIsWritableAndHasSpace(t *testing.T) {
	dir := t.TempDir()
	if err := osfile.CanWrite(dir); err != nil {
		t.Errorf("CanWrite = %v, want success", err)
	}
	if err := osfile.CanWrite(filepath.Join(dir, "missing")); err == nil {
		t.Error("CanWrite of a missing directory succeeded, want an error")
	}
	if free, _, err := osfile.Space(dir); free == 0 || err != nil {
		t.Errorf("Space = %d, %v, want some free space", free, err)
	}
}

func TestAFullDiskIsRecognized(t *testing.T) {
	for _, err := range full {
		if !osfile.IsFull(&fs.PathError{Op: "write", Path: "x", Err: err}) {
			t.Errorf("%v is not recognized", err)
		}
	}
	if osfile.IsFull(nil) || osfile.IsFull(fs.ErrPermission) {
		t.Error("control: another error is a full disk")
	}
}
