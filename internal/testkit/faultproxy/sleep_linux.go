package faultproxy

import (
	"syscall"
	"time"
)

// sleep is exact to about 0.1 ms; time.Sleep rounds up to a millisecond.
func sleep(d time.Duration) {
	if d <= 0 {
		return
	}
	left := syscall.NsecToTimespec(int64(d))
	for syscall.Nanosleep(&left, &left) == syscall.EINTR {
	}
}
