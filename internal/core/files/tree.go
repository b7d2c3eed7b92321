package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"syscall"
	"time"

	"github.com/fsnotify/fsnotify"

	"lilac/internal/foundation/fault"
)

const (
	// maxDirs bounds the watched directories of all sources.
	maxDirs = 4096
	// maxKnown bounds the known files of a source. A file beyond the limit is reported
	// as a create each time that it changes.
	maxKnown = 50_000
	// readBatch is the number of directory entries per read.
	readBatch = 1000
)

// tree is the watched state in memory. One goroutine owns it.
type tree struct {
	watcher *fsnotify.Watcher
	o       Options
	sources []*sourceFiles
	// dirs are the watched directories, with their info at that time.
	dirs map[string]os.FileInfo
	// maxDirs bounds dirs.
	maxDirs int
}

// sourceFiles is a source with the state of its files.
type sourceFiles struct {
	source  Source
	pending Pending
	known   map[string]Stamp
	// loaded reports that known is from before a restart, or from before a change of
	// other sources.
	loaded  bool
	problem string
}

func newTree(w *fsnotify.Watcher, o Options, sources []Source, before []*sourceFiles) *tree {
	t := &tree{watcher: w, o: o, dirs: map[string]os.FileInfo{}, maxDirs: maxDirs}
	for _, s := range sources {
		b := &sourceFiles{source: s, pending: Pending{Wait: s.Debounce, Limit: s.Queue}, known: map[string]Stamp{}}
		if i := slices.IndexFunc(before, func(b *sourceFiles) bool { return reflect.DeepEqual(b.source, s) }); i >= 0 {
			b = before[i]
			b.loaded = true
		}
		t.sources = append(t.sources, b)
	}
	return t
}

// setKnown updates the known state of a file; info is nil if it does not exist.
func (b *sourceFiles) setKnown(path string, info fs.FileInfo) {
	if info == nil {
		delete(b.known, path)
	} else if b.hasRoom(path) {
		b.known[path] = stampOf(info)
	}
}

func (b *sourceFiles) hasRoom(path string) bool {
	_, known := b.known[path]
	return known || len(b.known) < maxKnown
}

func (b *sourceFiles) matches(path string) bool {
	return slices.ContainsFunc(b.source.Patterns, func(p Pattern) bool { return p.Matches(path) })
}

// due returns when the next file becomes stable.
func (t *tree) due() (due time.Time) {
	for _, b := range t.sources {
		if d := b.pending.Due(); !d.IsZero() && (due.IsZero() || d.Before(due)) {
			due = d
		}
	}
	return due
}

// noteChange adds a change to every source that matches the file.
func (t *tree) noteChange(path string, moved bool) {
	for _, b := range t.sources {
		if b.matches(path) {
			b.add(t.o.Intake, path, moved)
		}
	}
}

// handle handles an event of the watcher.
func (t *tree) handle(e fsnotify.Event) {
	if e.Op == fsnotify.Chmod || t.excluded(e.Name) {
		return
	}
	gone, moved := e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename), e.Has(fsnotify.Rename)
	if _, watched := t.dirs[e.Name]; watched && gone {
		t.unwatch(e.Name, moved)
		t.checkBases(moved)
		return
	}
	t.noteChange(e.Name, moved)
	if !e.Has(fsnotify.Create) {
		return
	}
	if info, err := os.Lstat(e.Name); err == nil && (info.IsDir() || info.Mode()&fs.ModeSymlink != 0) {
		// It may be in the path of a pattern, or below its base.
		for _, b := range t.sources {
			for _, p := range b.source.Patterns {
				switch {
				case isWithin(p.Base, e.Name):
					t.watchPattern(b, p, true)
				case info.IsDir() && p.mayContain(e.Name):
					t.walk(b, p, e.Name, true)
				}
			}
		}
		t.reportProblems()
	}
}

// unwatch removes the watches of a directory that is gone, and of those below it.
func (t *tree) unwatch(dir string, moved bool) {
	for d := range t.dirs {
		if isWithin(d, dir) {
			_ = t.watcher.Remove(d) // it may be gone by itself
			delete(t.dirs, d)
		}
	}
	for _, b := range t.sources {
		for path := range b.known {
			if isWithin(path, dir) {
				b.add(t.o.Intake, path, moved)
			}
		}
	}
}

// scan watches all directories and reads the files. With tell, or if the known state was
// loaded, it adds the differences to the known state as changes.
func (t *tree) scan(tell bool) {
	for _, b := range t.sources {
		b.problem = ""
		tell := tell || b.loaded
		for _, p := range b.source.Patterns {
			t.watchPattern(b, p, tell)
		}
		if !tell {
			continue
		}
		for path := range b.known {
			if t.lstat(b, path) == nil {
				b.add(t.o.Intake, path, false)
			}
		}
	}
	t.reportProblems()
}

// add adds a change, or counts it as dropped if too many are pending.
func (b *sourceFiles) add(intake Intake, path string, moved bool) {
	if !b.pending.Add(path, moved, time.Now()) {
		intake.Drop(b.source.id(), 1)
	}
}

// checkBases finds the fixed directories that appeared, disappeared, or were replaced.
// moved reports whether those that are gone were moved.
func (t *tree) checkBases(moved bool) {
	for _, b := range t.sources {
		for _, p := range b.source.Patterns {
			was, watched := t.dirs[p.Base]
			now, err := t.stat(p.Base)
			if watched && err == nil && os.SameFile(now, was) {
				continue
			}
			if watched {
				t.unwatch(p.Base, moved)
			}
			t.watchPattern(b, p, true)
		}
	}
	t.reportProblems()
}

// recheck checks the fixed directories, and retries the directories that could not be
// watched: there may be fewer now, or the limit of the machine may be higher.
func (t *tree) recheck() {
	t.checkBases(true)
	if slices.ContainsFunc(t.sources, func(b *sourceFiles) bool { return b.problem != "" }) {
		t.scan(true)
	}
}

func (t *tree) reportProblems() {
	for _, b := range t.sources {
		t.o.Intake.SetTrouble(b.source.id(), b.problem)
	}
}

// watchPattern watches the base of a pattern, or, if it does not exist, the nearest
// existing parent.
func (t *tree) watchPattern(b *sourceFiles, p Pattern, tell bool) {
	if info, err := t.stat(p.Base); err == nil && info.IsDir() {
		t.walk(b, p, p.Base, tell)
		return
	}
	for dir := filepath.Dir(p.Base); ; dir = filepath.Dir(dir) {
		if info, err := t.stat(dir); err == nil && info.IsDir() {
			t.watchDir(b, dir)
			// It may have appeared before the watch was set.
			if now, err := t.stat(p.Base); err == nil && now.IsDir() {
				t.walk(b, p, p.Base, tell)
			}
			return
		}
		if dir == filepath.Dir(dir) {
			return
		}
	}
}

// walk watches a directory and the ones below it, and reads the files.
func (t *tree) walk(b *sourceFiles, p Pattern, dir string, tell bool) {
	if t.excluded(dir) || !t.watchDir(b, dir) {
		return
	}
	err := eachEntry(dir, func(entry fs.DirEntry) {
		path := filepath.Join(dir, entry.Name())
		switch {
		case entry.IsDir():
			if p.mayContain(path) {
				t.walk(b, p, path, tell)
			}
		case !p.Matches(path):
		default:
			info, err := entry.Info()
			if err != nil {
				return // it was removed just now
			}
			if was, known := b.known[path]; !tell {
				b.setKnown(path, info)
			} else if !known || was != stampOf(info) {
				b.add(t.o.Intake, path, false)
			}
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.problem = "a directory cannot be read: " + fault.Plain(err)
	}
}

// eachEntry calls fn for each entry of a directory. It reads in batches, because a
// directory can be large.
func eachEntry(dir string, fn func(fs.DirEntry)) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		entries, err := f.ReadDir(readBatch)
		for _, e := range entries {
			fn(e)
		}
		if err == io.EOF || err == nil && len(entries) == 0 {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// watchDir watches a directory. An error becomes the problem of the source.
func (t *tree) watchDir(b *sourceFiles, dir string) bool {
	if _, watched := t.dirs[dir]; watched {
		return true
	}
	info, err := t.stat(dir)
	switch {
	case err != nil:
		return false // it was removed just now
	case len(t.dirs) >= t.maxDirs:
		b.problem = "the paths contain more than 4096 directories; use narrower paths"
		return false
	}
	switch err := t.watcher.Add(dir); {
	case errors.Is(err, syscall.ENOSPC):
		b.problem = "the limit of watches on this machine is reached; raise the sysctl fs.inotify.max_user_watches, or use narrower paths"
		return false
	case errors.Is(err, fs.ErrNotExist):
		return false
	case err != nil:
		b.problem = "a directory cannot be watched: " + fault.Plain(err)
		return false
	}
	t.dirs[dir] = info
	return true
}

// excluded reports whether a path is below an excluded directory.
func (t *tree) excluded(path string) bool {
	return slices.ContainsFunc(t.o.Exclude, func(dir string) bool { return isWithin(path, dir) })
}
