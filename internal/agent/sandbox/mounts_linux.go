package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

const (
	mountFenced = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV
	// tmpInodes bounds the files of an empty directory: each costs the kernel
	// about a kilobyte that is not counted as content.
	tmpInodes = 64 << 10
)

// devices are the harmless ones.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// tree builds what a command sees, in a mount namespace of its own.
type tree struct {
	layers []layer
	// sources are the detached copies of what is bound, by the layer's index,
	// and nodes those of the devices, by name.
	sources map[int]int
	nodes   map[string]int
}

// build makes the layers the whole file system of this process. stage is a
// directory that exists; nothing of it is changed.
func (t *tree) build(stage string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("detach from the machine's mounts: %w", err)
	}
	// All sources are taken before anything is laid over them.
	if err := t.take(); err != nil {
		return err
	}
	if err := unix.Mount("tmpfs", stage, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=1m,nr_inodes=4096"); err != nil {
		return fmt.Errorf("mount new root: %w", err)
	}
	if err := os.Chdir(stage); err != nil {
		return fmt.Errorf("enter new root: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("change root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("let go of the machine's root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("enter new root: %w", err)
	}
	for i, l := range t.layers {
		if err := t.lay(i, l); err != nil {
			return fmt.Errorf("lay %s: %w", l.Target, err)
		}
	}
	return nil
}

// seal makes read only what the layers do not give for writing. Until then
// our own settings can be written under /proc/sys.
func (t *tree) seal() error {
	for _, l := range t.layers {
		if l.Kind == layerTmpfs && !l.Writable || l.Kind == layerProc || l.Kind == layerDev {
			if err := readOnly(l.Target); err != nil {
				return err
			}
		}
	}
	return readOnly("/")
}

func readOnly(path string) error {
	if err := unix.MountSetattr(unix.AT_FDCWD, path, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
		return fmt.Errorf("make %s read only: %w", path, err)
	}
	return nil
}

func (t *tree) take() error {
	t.sources, t.nodes = map[int]int{}, map[string]int{}
	for _, name := range devices {
		fd, err := detached("/dev/"+name, true, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
		if err != nil {
			return err
		}
		t.nodes[name] = fd
	}
	for i, l := range t.layers {
		var fd int
		var err error
		switch l.Kind {
		case layerBind:
			fd, err = detached(l.Source, l.Writable, mountFenced)
		case layerProc:
			fd, err = newProc()
		default:
			continue
		}
		if err != nil {
			return err
		}
		t.sources[i] = fd
	}
	return nil
}

// newProc returns a /proc of this namespace. The kernel gives one only to who
// still sees another.
func newProc() (int, error) {
	fs, err := unix.Fsopen("proc", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open a new /proc: %w", err)
	}
	defer func() { _ = unix.Close(fs) }()
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, fmt.Errorf("make a new /proc: %w", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, mountFenced|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return -1, fmt.Errorf("mount a new /proc: %w", err)
	}
	return fd, nil
}

// detached returns a copy of the mounts at path that is mounted nowhere yet.
func detached(path string, writable bool, attr uint64) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, fmt.Errorf("take %s: %w", path, err)
	}
	if !writable {
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr, Propagation: unix.MS_PRIVATE})
	if err != nil {
		_ = unix.Close(fd)
		return -1, fmt.Errorf("restrict %s: %w", path, err)
	}
	return fd, nil
}

func (t *tree) lay(i int, l layer) error {
	if err := os.MkdirAll(filepath.Dir(l.Target), 0o755); err != nil {
		return err
	}
	switch l.Kind {
	case layerLink:
		return os.Symlink(l.Source, l.Target)
	case layerText:
		return os.WriteFile(l.Target, []byte(l.Source), 0o444)
	case layerBind, layerProc:
		return attach(t.sources[i], l.Target)
	}
	if err := os.MkdirAll(l.Target, 0o755); err != nil {
		return err
	}
	switch l.Kind {
	case layerTmpfs:
		mode := "1777"
		if !l.Writable {
			mode = "0555"
		}
		return unix.Mount("tmpfs", l.Target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV,
			fmt.Sprintf("mode=%s,size=%d,nr_inodes=%d", mode, l.Bytes, tmpInodes))
	case layerDev:
		return t.layDevices(l.Target)
	}
	return fmt.Errorf("unknown kind of layer %q", l.Kind)
}

// attach mounts a detached copy at target, which it makes if it is missing.
func attach(fd int, target string) error {
	defer func() { _ = unix.Close(fd) }()
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if _, err := os.Lstat(target); err != nil {
		if st.Mode&unix.S_IFMT == unix.S_IFDIR {
			err = os.Mkdir(target, 0o755)
		} else {
			err = os.WriteFile(target, nil, 0o444)
		}
		if err != nil {
			return err
		}
	}
	return unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

func (t *tree) layDevices(dir string) error {
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NOEXEC, "mode=0755,size=64k,nr_inodes=64"); err != nil {
		return err
	}
	for name, fd := range t.nodes {
		if err := attach(fd, filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	for _, name := range []string{"pts", "shm"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}
	return unix.Mount("devpts", filepath.Join(dir, "pts"), "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=620")
}

// setKernel writes a setting of the sandbox's own namespaces. Older kernels
// have some of them for the whole machine only and refuse; they are a second
// fence behind what watches from outside.
func setKernel(name string, value int64) {
	_ = os.WriteFile("/proc/sys/"+name, []byte(strconv.FormatInt(value, 10)), 0)
}
