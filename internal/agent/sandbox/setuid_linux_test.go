package sandbox_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"lilac/internal/agent/sandbox"
)

// asOwner is a mode with the set-user-ID and set-group-ID bits.
const asOwner = 0o6755

// waysToSetUserID returns the ways to create or change the file "program" with such a mode.
// Opened files stay open until the probes end.
func waysToSetUserID() map[string]func() error {
	here := unix.AT_FDCWD
	cwd := uintptr(here)
	changed := func(change func(file *os.File) error) func() error {
		return func() error {
			file, err := os.Create("program")
			if err != nil {
				return err
			}
			return errors.Join(change(file), file.Close())
		}
	}
	ways := map[string]func() error{
		"fchmod":   changed(func(f *os.File) error { return call(unix.SYS_FCHMOD, f.Fd(), asOwner) }),
		"fchmodat": changed(func(*os.File) error { return call(unix.SYS_FCHMODAT, cwd, text("program"), asOwner) }),
		"its user alone": changed(func(*os.File) error {
			return call(unix.SYS_FCHMODAT, cwd, text("program"), 0o4755)
		}),
		"mknodat": func() error { return call(unix.SYS_MKNODAT, cwd, text("program"), unix.S_IFREG|asOwner) },
		"openat":  func() error { return call(unix.SYS_OPENAT, cwd, text("program"), unix.O_CREAT|unix.O_WRONLY, asOwner) },
		"openat2": func() error {
			how := unix.OpenHow{Flags: unix.O_CREAT | unix.O_WRONLY, Mode: asOwner}
			return call(unix.SYS_OPENAT2, cwd, text("program"), uintptr(unsafe.Pointer(&how)), unsafe.Sizeof(how))
		},
		"a file without a name": func() error {
			fd, err := unix.Openat(here, ".", unix.O_TMPFILE|unix.O_WRONLY, asOwner)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return unix.Linkat(here, fmt.Sprintf("/proc/self/fd/%d", fd), here, "program", unix.AT_SYMLINK_FOLLOW)
		},
	}
	// Kernels before 6.6 do not have fchmodat2.
	if !errors.Is(call(unix.SYS_FCHMODAT2, cwd, text("/nonexistent"), 0o755, 0), unix.ENOSYS) {
		ways["fchmodat2"] = changed(func(*os.File) error { return call(unix.SYS_FCHMODAT2, cwd, text("program"), asOwner, 0) })
	}
	if runtime.GOARCH == "amd64" {
		const open, creat, chmod, mknod = 2, 85, 90, 133
		ways["open"] = func() error { return call(open, text("program"), unix.O_CREAT|unix.O_WRONLY, asOwner) }
		ways["creat"] = func() error { return call(creat, text("program"), asOwner) }
		ways["chmod"] = changed(func(*os.File) error { return call(chmod, text("program"), asOwner) })
		ways["mknod"] = func() error { return call(mknod, text("program"), unix.S_IFREG|asOwner) }
	}
	return ways
}

// A set-user-ID program in the workspace would let every user of the machine who can reach
// it act as Lilac's user.
func init() {
	for name, way := range waysToSetUserID() {
		probes["program that runs as its owner, by "+name] = probe{try: func(target) error {
			if err := os.Remove("program"); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			unix.Umask(0)
			if err := way(); err != nil {
				return err
			}
			info, err := os.Stat("program")
			if err == nil && info.Mode()&fs.ModeSetuid == 0 {
				err = fmt.Errorf("its mode is %v", info.Mode())
			}
			return err
		}}
	}
}

// Programs that preserve, set, and copy ordinary modes work as usual.
func TestUsualModesWork(t *testing.T) {
	const use = `set -e; umask 022; echo x > a; chmod 640 a; cp -p a b; install -m 755 a c; ln -s a l
mkdir -m 1777 d; tar cf - a b c l d | (mkdir e; tar xpf - -C e); mktemp f.XXXXXX > /dev/null; mkfifo -m 600 p
if command -v git > /dev/null; then git init -q g && cd g && cp -p ../c c && git add c && git -c user.name=a -c user.email=a@b commit -qm c; cd ..; fi
if command -v python3 > /dev/null; then python3 -c 'import shutil, os; shutil.copytree("e", "k"); os.open("t", os.O_CREAT | os.O_RDWR, 0o600); os.open("a", os.O_RDONLY, 0o6755)'; fi
stat -c %a a b c d e/a e/c e/d f.* p | tr '\n' ' '`
	each(t, func(t *testing.T, box sandbox.Sandbox, _ bool) {
		out, res := script(t, box, sandbox.Policy{Workspace: t.TempDir()}, use)
		if res.ExitCode != 0 || strings.TrimSpace(out) != "640 640 755 1777 640 755 1777 600 600" {
			t.Errorf("%+v: %s", res, out)
		}
	})
}
