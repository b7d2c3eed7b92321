package app

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"

	"lilac/internal/core/files"
)

const (
	// settleTime is how long a file must stay unchanged before it is read, because an editor
	// may write it in several steps.
	settleTime = 150 * time.Millisecond
	// fallbackTime is the polling interval. Network file systems send no notifications, and
	// the system's inotify watches can be used up.
	fallbackTime = time.Minute
	// maxHops is the maximum number of symbolic links that are followed.
	maxHops = 40
)

// fileState identifies a version of a file.
type fileState struct {
	info fs.FileInfo // nil if the file does not exist
}

func stateOf(path string) fileState {
	info, err := os.Stat(path)
	if err != nil {
		return fileState{}
	}
	return fileState{info}
}

func (s fileState) exists() bool { return s.info != nil }

// isFile reports whether both states are of the same file, whatever its content.
func (s fileState) isFile(o fileState) bool {
	return s.exists() && o.exists() && os.SameFile(s.info, o.info)
}

func (s fileState) same(o fileState) bool {
	if !s.exists() && !o.exists() {
		return true
	}
	return s.isFile(o) && s.info.ModTime().Equal(o.info.ModTime()) && s.info.Size() == o.info.Size()
}

// fileWatch watches one file. It also notices that an editor replaces the file, that a link on
// the way to it changes, or that the file is created later.
type fileWatch struct {
	path string
	// busy is a directory with constant writes. It is watched only while a file that existed
	// before is missing.
	busy string
	// used is the version that was read last.
	used   fileState
	logger *slog.Logger

	// on holds the watched paths, with their states when the watches were added.
	on     map[string]fileState
	warned bool
}

// run calls reread for every signal on ask. It calls changed when the file differs from the
// version used, or no longer exists, and has been unchanged for settleTime. It returns when
// ctx ends.
func (w *fileWatch) run(ctx context.Context, ask <-chan os.Signal, reread, changed func()) error {
	watcher, err := files.NewWatcher()
	if err != nil {
		w.warn(err)
		return w.follow(ctx, nil, nil, func() {}, ask, reread, changed)
	}
	defer watcher.Close()
	return w.follow(ctx, watcher.Events, watcher.Errors, func() { w.point(watcher) }, ask, reread, changed)
}

// follow is the loop of run, with the notifications of the system as channels. renew updates
// the set of watched paths.
func (w *fileWatch) follow(ctx context.Context, events <-chan fsnotify.Event, errs <-chan error, renew func(), ask <-chan os.Signal, reread, changed func()) error {
	fallback := time.NewTicker(fallbackTime)
	defer fallback.Stop()
	// The first check finds changes from before the watches were added.
	rest := time.NewTimer(0)
	defer rest.Stop()
	seen := w.used
	for {
		rested := false
		select {
		case <-ctx.Done():
			return nil
		case <-ask:
			w.used = stateOf(w.path)
			reread()
			continue
		case e := <-events:
			if !w.matters(e) {
				continue
			}
		case <-errs: // notifications were lost, so check the file
		case <-fallback.C:
		case <-rest.C:
			rested = true
		}
		renew()
		switch now := stateOf(w.path); {
		case !now.same(seen):
			seen = now
			rest.Reset(settleTime)
		case now.same(w.used):
		case rested:
			w.used = now
			changed()
		default:
			rest.Reset(settleTime)
		}
	}
}

// matters reports whether a notification can concern the file. Writes to other files in a
// watched directory cannot; the directory may be a busy home directory.
func (w *fileWatch) matters(e fsnotify.Event) bool {
	_, watched := w.on[e.Name]
	return watched || e.Has(fsnotify.Create|fsnotify.Remove|fsnotify.Rename)
}

// point makes the watcher watch exactly the necessary paths. It checks the paths again after
// adding the watches, because the system does not report changes from before.
func (w *fileWatch) point(watcher *fsnotify.Watcher) {
	for range maxHops {
		want := w.targets()
		w.watch(watcher, want)
		if maps.EqualFunc(want, w.targets(), fileState.isFile) {
			return
		}
	}
}

// watch makes the watcher watch exactly these paths.
func (w *fileWatch) watch(watcher *fsnotify.Watcher, want map[string]fileState) {
	live := watcher.WatchList()
	for _, path := range live {
		if now, wanted := want[path]; !wanted || !now.isFile(w.on[path]) {
			_ = watcher.Remove(path) // the system may have removed it already
		}
	}
	live = watcher.WatchList()
	for path := range want {
		if slices.Contains(live, path) {
			continue
		}
		if err := watcher.Add(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			w.warn(err)
		}
	}
	w.on = want
}

func (w *fileWatch) warn(err error) {
	if !w.warned {
		w.logger.Warn("a change of the configuration file may be noticed only after a minute", "reason", err.Error())
		w.warned = true
	}
}

// targets returns the paths to watch: the file, and the directories in which the file or a
// link on the way to it can be replaced.
func (w *fileWatch) targets() map[string]fileState {
	out := map[string]fileState{}
	add := func(path string) {
		if real, err := filepath.EvalSymlinks(path); err != nil {
			return
		} else if state := stateOf(real); state.exists() {
			out[real] = state
		}
	}
	if w.path == "" {
		return out
	}
	missing := !stateOf(w.path).exists()
	at := w.path
	for range maxHops {
		dest, err := os.Readlink(at)
		dir := filepath.Dir(at)
		if link := err == nil; (link || missing) && (!w.isBusy(dir) || missing && w.used.exists()) {
			for !stateOf(dir).exists() && dir != filepath.Dir(dir) {
				dir = filepath.Dir(dir) // the missing directory will be created below this one
			}
			add(dir)
		}
		if err != nil {
			break
		}
		if !filepath.IsAbs(dest) {
			dest = filepath.Join(filepath.Dir(at), dest)
		}
		at = dest
	}
	add(w.path)
	return out
}

func (w *fileWatch) isBusy(dir string) bool {
	return stateOf(dir).isFile(stateOf(w.busy))
}
