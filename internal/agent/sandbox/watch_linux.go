package sandbox

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The highest growth rates of a command that were measured on two busy cores. The watcher
// checks again before a command could use up the rest of a limit at these rates.
const (
	growthBytes     = 4 << 30 // bytes of memory per second
	growthProcesses = 20_000  // processes per second
	shortestLook    = 2 * time.Millisecond
	longestLook     = 50 * time.Millisecond
	// diskLook is the interval between checks of the free space, and walkPause the pause
	// after a walk through all files.
	diskLook  = 50 * time.Millisecond
	walkPause = 2 * time.Second
	// clockTick is the maximum lag of file times behind the clock: the kernel takes them
	// from its last timer tick.
	clockTick = 20 * time.Millisecond
)

// watcher measures the resources of a command from outside its sandbox. It reads the /proc
// of the sandbox, which contains only the sandbox's processes.
type watcher struct {
	limits   Limits
	dirs     []disk
	began    time.Time
	first    chan int // receives the first process of the sandbox, as a PID in our namespace
	exceeded chan Exceeded
	once     sync.Once
}

// disk is a file system that the command may write to.
type disk struct {
	dir   string
	free  int64 // free bytes when the command started
	next  time.Time
	small bool // nearly full when the command started
}

func newWatcher(limits Limits, dirs []string) *watcher {
	w := &watcher{limits: limits, began: time.Now(), first: make(chan int, 1), exceeded: make(chan Exceeded, 1)}
	for _, dir := range dirs {
		if free, ok := freeBytes(dir); ok {
			w.dirs = append(w.dirs, disk{dir: dir, free: free, small: free < 2*keepFreeBytes})
		}
	}
	return w
}

// see passes the PID of the sandbox's first process to the watcher. Only the first call
// has an effect.
func (w *watcher) see(pid int) {
	select {
	case w.first <- pid:
	default:
	}
}

// exceed ends the command because of a limit. Only the first call has an effect.
func (w *watcher) exceed(what Exceeded) { w.once.Do(func() { w.exceeded <- what }) }

// run watches until ctx ends or a limit is exceeded.
func (w *watcher) run(ctx context.Context) {
	var pid int
	select {
	case <-ctx.Done():
		return
	case pid = <-w.first:
	}
	timer := time.NewTimer(shortestLook)
	defer timer.Stop()
	var dir string
	var lastDisk time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		pause := longestLook
		if dir == "" {
			dir = processesOf(pid)
			pause = shortestLook
		}
		if dir != "" {
			used, ok := w.count(dir)
			if !ok {
				return // the sandbox has ended
			}
			if what := w.over(used); what != "" {
				w.exceed(what)
				return
			}
			pause = min(longestLook, w.time(used))
		}
		if now := time.Now(); now.Sub(lastDisk) >= diskLook {
			lastDisk = now
			if w.diskFull(ctx, now) {
				w.exceed(ExceededDisk)
				return
			}
			if dir != "" && tooManyFiles(filepath.Dir(dir)) {
				w.exceed(ExceededMemory)
				return
			}
		}
		timer.Reset(max(pause, shortestLook))
	}
}

// usage is the total usage of all processes in a sandbox.
type usage struct {
	bytes     int64
	processes int
}

func (w *watcher) over(u usage) Exceeded {
	switch {
	case u.processes > w.limits.Processes:
		return ExceededProcesses
	case u.bytes > w.limits.MemoryBytes:
		return ExceededMemory
	}
	return ""
}

// time returns the shortest time in which the command could use up the rest of a limit.
func (w *watcher) time(u usage) time.Duration {
	memory := time.Duration(float64(w.limits.MemoryBytes-u.bytes) / growthBytes * float64(time.Second))
	processes := time.Duration(float64(w.limits.Processes-u.processes) / growthProcesses * float64(time.Second))
	return min(memory, processes)
}

// processesOf returns the path of a sandbox's /proc. It returns "" while the sandbox is
// still being built, because its first process then has our /proc.
func processesOf(pid int) string {
	dir := fmt.Sprintf("/proc/%d/root/proc", pid)
	var ours, its unix.Stat_t
	if unix.Stat("/proc", &ours) != nil || unix.Stat(dir, &its) != nil || ours.Dev == its.Dev {
		return ""
	}
	var kind unix.Statfs_t
	if unix.Statfs(dir, &kind) != nil || kind.Type != unix.PROC_SUPER_MAGIC {
		return ""
	}
	return dir
}

// count adds up the usage of all processes. It stops early once a limit is exceeded.
func (w *watcher) count(dir string) (u usage, ok bool) {
	proc, err := os.Open(dir)
	if err != nil {
		return u, false
	}
	defer func() { _ = proc.Close() }()
	for {
		names, err := proc.Readdirnames(256)
		for _, name := range names {
			if name[0] < '0' || name[0] > '9' {
				continue
			}
			bytes, threads := processUsage(filepath.Join(dir, name, "status"))
			u.bytes += bytes
			u.processes += max(threads, 1)
		}
		if err != nil || w.over(u) != "" {
			return u, u.processes > 0
		}
	}
}

// processUsage reads the anonymous and shared memory of a process, in bytes, and its
// number of threads. It does not count mapped files, because the kernel can drop those
// pages.
func processUsage(path string) (size int64, threads int) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, 0 // the process has just ended
	}
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		name, value, _ := bytes.Cut(lines.Bytes(), []byte(":"))
		fields := bytes.Fields(value)
		if len(fields) == 0 {
			continue
		}
		switch string(name) {
		case "RssAnon", "RssShmem":
			kilobytes, _ := strconv.ParseInt(string(fields[0]), 10, 64)
			size += kilobytes << 10
		case "Threads":
			threads, _ = strconv.Atoi(string(fields[0]))
		}
	}
	return size, threads
}

// tooManyFiles reports whether a tmpfs of the sandbox holds more files than the built-in
// sandbox allows. Bubblewrap does not limit inodes, and even empty files use memory.
func tooManyFiles(root string) bool {
	for _, dir := range []string{"tmp", "dev/shm"} {
		var st unix.Statfs_t
		if unix.Statfs(filepath.Join(root, dir), &st) == nil && st.Type == unix.TMPFS_MAGIC && st.Files-st.Ffree > tmpInodes {
			return true
		}
	}
	return false
}

func freeBytes(dir string) (int64, bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, false
	}
	return int64(st.Bavail) * st.Bsize, true
}

// diskFull reports whether the command must end because of disk usage. Other programs may
// write to the same disk. So when the free space has shrunk by the limit, diskFull adds up
// the files that changed since the command started. If the disk becomes nearly full, the
// command ends in any case, whichever program filled the disk.
func (w *watcher) diskFull(ctx context.Context, now time.Time) bool {
	for i := range w.dirs {
		d := &w.dirs[i]
		free, ok := freeBytes(d.dir)
		if !ok || d.free-free < min(w.limits.DiskBytes, keepFreeBytes) {
			continue
		}
		if free < keepFreeBytes && !d.small {
			return true
		}
		if d.free-free < w.limits.DiskBytes || now.Before(d.next) {
			continue
		}
		if changedBytes(ctx, d.dir, w.began, w.limits.DiskBytes) >= w.limits.DiskBytes {
			return true
		}
		d.next = time.Now().Add(walkPause)
	}
	return false
}

// changedBytes adds up the sizes of the files that changed since a time. It stops once the
// sum reaches enough.
func changedBytes(ctx context.Context, dir string, since time.Time, enough int64) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil || total >= enough {
			return fs.SkipAll
		}
		if err != nil || entry.IsDir() {
			return nil // skip unreadable directories
		}
		info, err := entry.Info()
		if err != nil {
			return nil
		}
		if st, ok := info.Sys().(*syscall.Stat_t); ok && !time.Unix(st.Ctim.Unix()).Before(since.Add(-clockTick)) {
			total += st.Blocks * 512
		}
		return nil
	})
	return total
}
