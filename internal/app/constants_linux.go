package app

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// releaseConstants unmaps the read-only data of the program's file: strings, tables, and what the
// runtime knows about types and functions. Linux counts these pages as memory of the process, and
// maps 16 of them for each one that is read, so most were never used. A page that is read later is
// mapped again from the cache of the file system. Code stays mapped, because tracers write into it.
func releaseConstants() error {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return fmt.Errorf("find the program's file: %w", err)
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return fmt.Errorf("read the mappings of the program: %w", err)
	}
	for line := range strings.Lines(string(maps)) {
		start, length, ok := constantsIn(line, program)
		if !ok {
			continue
		}
		// Cold pages are the first ones that the cache of the file system drops. Linux before 5.4
		// does not know the advice.
		if err := advise(start, length, unix.MADV_COLD); err != nil && !errors.Is(err, unix.EINVAL) {
			return err
		}
		if err := advise(start, length, unix.MADV_DONTNEED); err != nil {
			return err
		}
	}
	return nil
}

func advise(start, length, advice uintptr) error {
	if _, _, errno := unix.Syscall(unix.SYS_MADVISE, start, length, advice); errno != 0 {
		return fmt.Errorf("release the program's read-only data: %w", errno)
	}
	return nil
}

// constantsIn returns the address and the length of the mapping in a line of /proc/self/maps (see
// proc_pid_maps(5)), if it is a part of the program's file that can only be read.
func constantsIn(line, program string) (start, length uintptr, ok bool) {
	fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 6)
	if len(fields) < 6 || fields[1] != "r--p" || strings.TrimLeft(fields[5], " ") != program {
		return 0, 0, false
	}
	from, to, _ := strings.Cut(fields[0], "-")
	first, err1 := strconv.ParseUint(from, 16, strconv.IntSize)
	end, err2 := strconv.ParseUint(to, 16, strconv.IntSize)
	return uintptr(first), uintptr(end - first), err1 == nil && err2 == nil && end > first
}
