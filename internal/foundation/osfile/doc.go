// Package osfile hides how operating systems differ in file locks, owners, access
// rights, full disks, and limits, and replaces files as a whole. The other error numbers of the standard library
// (syscall.EISDIR and so on) exist on every system and are used directly.
package osfile

import "errors"

// ErrLocked says that another process holds a lock.
var ErrLocked = errors.New("another process holds the lock")
