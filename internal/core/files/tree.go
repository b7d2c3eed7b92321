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
)

const (
	// maxDirs bounds the directories that are watched by all sources.
	maxDirs = 4096
	// maxKnown bounds the files that a source knows. One beyond is a create
	// each time that it changes.
	maxKnown = 50_000
	// readBatch is how many names of a directory are read at once.
	readBatch = 1000
)

// tree is what is watched, in memory. One goroutine uses it.
type tree struct {
	watcher *fsnotify.Watcher
	o       Options
	sources []*sourceFiles
	// dirs are the directories that are watched, with what they were then.
	dirs map[string]os.FileInfo
	// room is how many there may be.
	maxDirs int
}

// sourceFiles is a source with what is known of its files.
type sourceFiles struct {
	source  Source
	pending Pending
	known   map[string]Stamp
	// recalled says that known is what was seen before a restart, or before other
	// sources changed.
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

// learn takes what is there; info is nil when the file is not.
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

// due is when the next file rests.
func (t *tree) due() (due time.Time) {
	for _, b := range t.sources {
		if d := b.pending.Due(); !d.IsZero() && (due.IsZero() || d.Before(due)) {
			due = d
		}
	}
	return due
}

// changed notes a change for every source that means the file.
func (t *tree) noteChange(path string, moved bool) {
	for _, b := range t.sources {
		if b.matches(path) {
			b.add(t.o.Intake, path, moved)
		}
	}
}

// observe takes what the system tells.
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
		// It may be a directory of a pattern, or on the way to one.
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

// forget ends the watches of a directory that is gone, and of all below.
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

// scan watches all that has to be and learns the files. With tell, or when what
// was known is from before, it tells what is other than that: nobody saw it
// change.
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

// add notes a change, or counts it when too many wait.
func (b *sourceFiles) add(intake Intake, path string, moved bool) {
	if !b.pending.Add(path, moved, time.Now()) {
		intake.Drop(b.source.id(), 1)
	}
}

// rescanInterval sees which fixed directories are there now and were not, or are others.
// moved says how those went that are gone.
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

// lookAgain looks after a while. What could not be watched may be by now:
// directories went, or the machine allows more.
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

// begin watches the base of a pattern, or, while there is none, the nearest
// directory in which it can appear.
func (t *tree) watchPattern(b *sourceFiles, p Pattern, tell bool) {
	if info, err := t.stat(p.Base); err == nil && info.IsDir() {
		t.walk(b, p, p.Base, tell)
		return
	}
	for dir := filepath.Dir(p.Base); ; dir = filepath.Dir(dir) {
		if info, err := t.stat(dir); err == nil && info.IsDir() {
			t.watchDir(b, dir)
			// It may have appeared before the watch was there.
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

// walk watches a directory of a pattern and those below, and learns the files.
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
				return // it is gone again
			}
			if was, known := b.known[path]; !tell {
				b.setKnown(path, info)
			} else if !known || was != stampOf(info) {
				b.add(t.o.Intake, path, false)
			}
		}
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		b.problem = "a directory cannot be read: " + err.Error()
	}
}

// eachEntry reads a directory piece by piece, so that a large one does not
// stand in memory as a whole.
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

// add watches a directory. What stands in the way is the trouble of the source.
func (t *tree) watchDir(b *sourceFiles, dir string) bool {
	if _, watched := t.dirs[dir]; watched {
		return true
	}
	info, err := t.stat(dir)
	switch {
	case err != nil:
		return false // it is gone again
	case len(t.dirs) >= t.maxDirs:
		b.problem = "more than 4096 directories would have to be watched; name narrower paths"
		return false
	}
	switch err := t.watcher.Add(dir); {
	case errors.Is(err, syscall.ENOSPC):
		b.problem = "this machine allows no more watches; raise the sysctl fs.inotify.max_user_watches, or name narrower paths"
		return false
	case errors.Is(err, fs.ErrNotExist):
		return false
	case err != nil:
		b.problem = "a directory cannot be watched: " + err.Error()
		return false
	}
	t.dirs[dir] = info
	return true
}

// excluded reports whether a path is one of ours.
func (t *tree) excluded(path string) bool {
	return slices.ContainsFunc(t.o.Exclude, func(dir string) bool { return isWithin(path, dir) })
}
