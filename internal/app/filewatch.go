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
)

const (
	// settleTime is how long a file has to stay as it is before it is read: an
	// editor may write it in pieces.
	settleTime = 150 * time.Millisecond
	// fallbackTime is how often a file is looked at although nothing was told:
	// network file systems tell nothing, and the system's watches can run out.
	fallbackTime = time.Minute
	// maxHops bounds how many links a path is followed through.
	maxHops = 40
)

// fileState tells one content of a file from another.
type fileState struct {
	info fs.FileInfo // nil when there is no file
}

func stateOf(path string) fileState {
	info, err := os.Stat(path)
	if err != nil {
		return fileState{}
	}
	return fileState{info}
}

func (s fileState) exists() bool { return s.info != nil }

// isFile reports whether both are of one file, whatever it holds.
func (s fileState) isFile(o fileState) bool {
	return s.exists() && o.exists() && os.SameFile(s.info, o.info)
}

func (s fileState) same(o fileState) bool {
	if !s.exists() && !o.exists() {
		return true
	}
	return s.isFile(o) && s.info.ModTime().Equal(o.info.ModTime()) && s.info.Size() == o.info.Size()
}

// fileWatch follows one file: also one that an editor replaces, that is
// reached through links which change, or that appears later.
type fileWatch struct {
	path string
	// busy is a directory that is written to all the time. It is watched only
	// while the file, which was there, is missing in it.
	busy string
	// used is the content that was read last.
	used   fileState
	logger *slog.Logger

	// on are the paths that are watched, with what they were then.
	on     map[string]fileState
	warned bool
}

// run calls reread when ask says so, and changed each time that the file has
// another content than the one used, or is gone, and rests, until ctx ends.
func (w *fileWatch) run(ctx context.Context, ask <-chan os.Signal, reread, changed func()) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		w.warn(err)
		return w.follow(ctx, nil, nil, func() {}, ask, reread, changed)
	}
	defer watcher.Close()
	return w.follow(ctx, watcher.Events, watcher.Errors, func() { w.point(watcher) }, ask, reread, changed)
}

// follow is run with what the system tells as channels. renew makes it tell
// what it has to from now on.
func (w *fileWatch) follow(ctx context.Context, events <-chan fsnotify.Event, errs <-chan error, renew func(), ask <-chan os.Signal, reread, changed func()) error {
	fallback := time.NewTicker(fallbackTime)
	defer fallback.Stop()
	// The first look sees what happened before the watches were there.
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
		case <-errs: // events were lost
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

// matters reports whether an event can concern the file. What is written to its
// neighbours cannot: a directory that is watched may be a person's home.
func (w *fileWatch) matters(e fsnotify.Event) bool {
	_, watched := w.on[e.Name]
	return watched || e.Has(fsnotify.Create|fsnotify.Remove|fsnotify.Rename)
}

// point makes the watcher watch what it has to, and nothing else. What appears
// between the look and the watch is told by nobody, so it looks again.
func (w *fileWatch) point(watcher *fsnotify.Watcher) {
	for range maxHops {
		want := w.targets()
		w.watch(watcher, want)
		if maps.EqualFunc(want, w.targets(), fileState.isFile) {
			return
		}
	}
}

// watch makes the watcher watch these paths.
func (w *fileWatch) watch(watcher *fsnotify.Watcher, want map[string]fileState) {
	live := watcher.WatchList()
	for _, path := range live {
		if now, wanted := want[path]; !wanted || !now.isFile(w.on[path]) {
			_ = watcher.Remove(path) // it may be gone by itself
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

// targets are the paths whose changes can change the file: the file itself, and
// the directories in which a link on the way to it, or it, may be replaced.
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
				dir = filepath.Dir(dir) // it appears below this one
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
