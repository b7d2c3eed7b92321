// Package osfile hides how operating systems differ in file locks, owners, access
// rights, free space, and limits, and replaces files as a whole. Errors of the standard library's error numbers
// (syscall.ENOSPC and so on) exist on every system and are used directly.
package osfile

import "errors"

// ErrLocked says that another process holds a lock.
var ErrLocked = errors.New("another process holds the lock")
