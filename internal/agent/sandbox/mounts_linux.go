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
	// tmpInodes limits the number of files in a tmpfs: each uses about 1 KiB of kernel
	// memory that does not count towards the size of the tmpfs.
	tmpInodes = 64 << 10
)

// devices lists the harmless devices that a command may use.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty"}

// tree builds the file system that a command sees, in its own mount namespace.
type tree struct {
	layers []layer
	// sources holds the descriptors of detached mounts by the index of their layer, nodes
	// those of the devices by name.
	sources map[int]int
	nodes   map[string]int
}

// build replaces the file system of this process by the layers. It mounts the new root
// over stage, an existing directory, whose contents do not change.
func (t *tree) build(stage string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("detach from the machine's mounts: %w", err)
	}
	// Open all sources before any mount can cover them.
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

// seal makes all mounts read-only that no layer declares writable. It comes last, because
// setKernel must write settings under /proc/sys first.
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

// newProc returns a detached /proc of this PID namespace. The kernel allows that only
// while another /proc is fully visible in the mount namespace, so it must happen before
// the old root is unmounted.
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

// detached returns a descriptor of a copy of the mounts at path. The copy is not mounted
// anywhere yet.
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

// attach mounts a detached mount at target, and creates target if it does not exist.
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

// setKernel writes a kernel setting of the sandbox's namespaces. Errors are ignored: older
// kernels have some settings only for the whole machine and refuse the write, and the
// settings only back up the watcher outside.
func setKernel(name string, value int64) {
	_ = os.WriteFile("/proc/sys/"+name, []byte(strconv.FormatInt(value, 10)), 0)
}
