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

// How fast a command may grow, at the most that two busy cores were seen to
// do. The watcher looks again before what is left could be used up.
const (
	growthBytes     = 4 << 30 // of memory, a second
	growthProcesses = 20_000  // a second
	shortestLook    = 2 * time.Millisecond
	longestLook     = 50 * time.Millisecond
	// diskLook is how often free space is asked for, and walkPause how long
	// after looking through the files they are left alone.
	diskLook  = 50 * time.Millisecond
	walkPause = 2 * time.Second
	// clockTick is by how much the time of a file may stand behind the clock.
	clockTick = 20 * time.Millisecond
)

// watcher looks at what a command uses from outside its sandbox. It finds the
// processes in the sandbox's own /proc, which shows no others.
type watcher struct {
	limits   Limits
	dirs     []disk
	began    time.Time
	first    chan int // the first process of the sandbox, as we number it
	exceeded chan Exceeded
	once     sync.Once
}

// disk is a file system that the command may write to.
type disk struct {
	dir   string
	free  int64 // bytes when the command started
	next  time.Time
	small bool // it was nearly full already
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

// see tells the watcher the first process of the sandbox. It is told once.
func (w *watcher) see(pid int) {
	select {
	case w.first <- pid:
	default:
	}
}

// exceed ends the command for a limit; the first one counts.
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
				return // the sandbox is gone
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

// usage is what the processes of a sandbox use together.
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

// time is how long the command needs at least to use up what is left.
func (w *watcher) time(u usage) time.Duration {
	memory := time.Duration(float64(w.limits.MemoryBytes-u.bytes) / growthBytes * float64(time.Second))
	processes := time.Duration(float64(w.limits.Processes-u.processes) / growthProcesses * float64(time.Second))
	return min(memory, processes)
}

// processesOf returns where the processes of a sandbox can be seen, or "" as
// long as it is not built and its first process still sees ours.
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

// count adds up what the processes use. It stops when that is too much.
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

// processUsage reads the memory that a process alone or with others of the
// sandbox holds, and its threads. What it maps from files is the kernel's to drop.
func processUsage(path string) (size int64, threads int) {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0, 0 // it has just ended
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

// tooManyFiles reports whether there are more files in memory, empty ones too,
// than our own namespaces have room for: bubblewrap sets no bound.
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

// diskFull reports whether the command used too much of a disk. Others write
// there too: so when the free space shrank by the limit, the files are looked
// through for what changed since the command started. Nothing is looked for
// when the disk is nearly full: then the command ends, whoever filled it.
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

// changedBytes adds up what the files hold that changed since a time, until
// that is enough.
func changedBytes(ctx context.Context, dir string, since time.Time, enough int64) (total int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if ctx.Err() != nil || total >= enough {
			return fs.SkipAll
		}
		if err != nil || entry.IsDir() {
			return nil // what cannot be read is left out
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
