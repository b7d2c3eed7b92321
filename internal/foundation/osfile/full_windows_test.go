package osfile_test

import (
	"syscall"

	"golang.org/x/sys/windows"
)

var full = []error{syscall.ENOSPC, windows.ERROR_DISK_FULL, windows.ERROR_HANDLE_DISK_FULL, windows.ERROR_DISK_QUOTA_EXCEEDED}
