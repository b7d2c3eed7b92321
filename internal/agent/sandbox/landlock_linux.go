package sandbox

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

// minLandlock is the first version of Landlock that can allow moving files between
// directories (Linux 5.19). Without that, git and mv fail.
const minLandlock = 2

// Sets of file access rights of Landlock (linux/landlock.h).
const (
	fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	allRights = fileRights | unix.LANDLOCK_ACCESS_FS_READ_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG |
		unix.LANDLOCK_ACCESS_FS_MAKE_SOCK | unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	seeRights   = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	writeRights = allRights &^ (unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK)
	devRights   = seeRights | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
)

// Landlock returns the version of Landlock that the kernel enforces, or zero if it enforces
// none.
func Landlock() int {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		return 0
	}
	return int(version)
}

// known removes the rights that a version of Landlock does not support.
func known(rights uint64, version int) uint64 {
	if version < 3 {
		rights &^= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version < 5 {
		rights &^= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return rights
}

// applyLandlock restricts this thread and its future children to the layers. Other files
// cannot be opened, even if a mount makes them visible.
func applyLandlock(layers []layer) error {
	version := Landlock()
	if version < minLandlock {
		return fmt.Errorf("the kernel enforces version %d of Landlock, %d is needed", version, minLandlock)
	}
	attr := unix.LandlockRulesetAttr{Access_fs: known(allRights, version)}
	if version >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return fmt.Errorf("make Landlock rules: %w", errno)
	}
	defer func() { _ = unix.Close(int(fd)) }()
	if err := allow(int(fd), "/", known(unix.LANDLOCK_ACCESS_FS_READ_DIR, version)); err != nil {
		return err
	}
	for _, l := range layers {
		rights := uint64(seeRights)
		switch {
		case l.Kind == layerLink:
			continue
		case l.Kind == layerDev:
			rights = devRights
		case l.Writable:
			rights = writeRights
		}
		if err := allow(int(fd), l.Target, known(rights, version)); err != nil {
			return err
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, fd, 0, 0); errno != 0 {
		return fmt.Errorf("apply Landlock rules: %w", errno)
	}
	// Verify that the rules apply: this thread still has CAP_SYS_ADMIN, so only Landlock can
	// deny a remount.
	if err := unix.Mount("", "/", "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""); !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("the kernel does not enforce the Landlock rules (a change of mounts: %v)", err)
	}
	return nil
}

// allow adds a rule for path and everything below it.
func allow(ruleset int, path string, rights uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s for a Landlock rule: %w", path, err)
	}
	defer func() { _ = unix.Close(fd) }()
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("look at %s for a Landlock rule: %w", path, err)
	}
	if !info.IsDir() {
		rights &= fileRights
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("add a Landlock rule for %s: %w", path, errno)
	}
	return nil
}
