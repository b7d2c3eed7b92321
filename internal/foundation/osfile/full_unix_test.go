//go:build unix

package osfile_test

import "syscall"

var full = []error{syscall.ENOSPC, syscall.EDQUOT}
