package app

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"lilac/internal/testkit/effort"
)

// place is a directory whose files a test changes.
type place struct {
	t   *testing.T
	dir string
}

func (p place) at(name string) string { return filepath.Join(p.dir, name) }

func (p place) write(name, text string) {
	p.t.Helper()
	p.must(os.MkdirAll(filepath.Dir(p.at(name)), 0o700))
	p.must(os.WriteFile(p.at(name), []byte(text), 0o600))
}

func (p place) rename(from, to string) { p.t.Helper(); p.must(os.Rename(p.at(from), p.at(to))) }

func (p place) link(to, name string) { p.t.Helper(); p.must(os.Symlink(to, p.at(name))) }

func (p place) must(err error) {
	p.t.Helper()
	if err != nil {
		p.t.Fatal(err)
	}
}

// A change is noticed through watches. Polling happens only every minute, which is longer than
// the test waits.
func TestAChangeOfTheFileIsSeen(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	for name, c := range map[string]struct {
		before, change func(place)
		busy           string
	}{
		"it is written": {
			before: func(p place) { p.write("c.yaml", "one") },
			change: func(p place) { p.write("c.yaml", "two") },
		},
		"an editor replaces it": {
			before: func(p place) { p.write("c.yaml", "one") },
			change: func(p place) { p.write(".c.yaml.swp", "two"); p.rename(".c.yaml.swp", "c.yaml") },
		},
		"an editor keeps the old one and writes it anew": {
			before: func(p place) { p.write("c.yaml", "one") },
			change: func(p place) { p.rename("c.yaml", "c.yaml~"); p.write("c.yaml", "two") },
		},
		"the directory of a ConfigMap is swapped": {
			before: func(p place) {
				p.write("..2026_1/c.yaml", "one")
				p.link("..2026_1", "..data")
				p.link("..data/c.yaml", "c.yaml")
			},
			change: func(p place) {
				p.write("..2026_2/c.yaml", "two")
				p.link("..2026_2", "..data_tmp")
				p.rename("..data_tmp", "..data")
				p.must(os.RemoveAll(p.at("..2026_1")))
			},
		},
		"a link goes elsewhere, and the old file stays": {
			before: func(p place) { p.write("dots/one", "one"); p.link("dots/one", "c.yaml") },
			change: func(p place) {
				p.write("dots/two", "two")
				p.link("dots/two", "new")
				p.rename("new", "c.yaml")
			},
		},
		"the file behind a link is replaced": {
			before: func(p place) { p.write("dots/one", "one"); p.link("dots/one", "c.yaml") },
			change: func(p place) { p.write("dots/new", "two"); p.rename("dots/new", "dots/one") },
		},
		"it appears later": {
			before: func(place) {},
			change: func(p place) { p.write("c.yaml", "two") },
		},
		"it is replaced where the program writes all the time": {
			busy:   ".",
			before: func(p place) { p.write("c.yaml", "one") },
			change: func(p place) { p.rename("c.yaml", "c.yaml~"); p.write("c.yaml", "two") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := place{t, t.TempDir()}
			c.before(p)
			w := &fileWatch{path: p.at("c.yaml"), used: stateOf(p.at("c.yaml")), logger: slog.New(slog.DiscardHandler)}
			if c.busy != "" {
				w.busy = p.at(c.busy)
			}
			again := watched(t, w)
			c.change(p)
			again("two")
			p.write("c.yaml", "three, which is longer") // the file is still watched
			again("three, which is longer")
		})
	}
	t.Run("it is gone, and comes again", func(t *testing.T) {
		p := place{t, t.TempDir()}
		p.write("c.yaml", "one")
		again := watched(t, &fileWatch{path: p.at("c.yaml"), used: stateOf(p.at("c.yaml")), logger: slog.New(slog.DiscardHandler)})
		p.must(os.Remove(p.at("c.yaml")))
		again("")
		p.write("c.yaml", "two")
		again("two")
	})
	t.Run("in a directory that appears later", func(t *testing.T) {
		p := place{t, t.TempDir()}
		w := &fileWatch{path: p.at("a/b/c.yaml"), logger: slog.New(slog.DiscardHandler)}
		again := watched(t, w)
		p.write("a/b/c.yaml", "two")
		again("two")
	})
}

// watched watches a file and returns once the watches are in place. The returned function
// waits until the file was read with the given content.
func watched(t *testing.T, w *fileWatch) (until func(content string)) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ready, read, done := make(chan struct{}, 1), make(chan string, 100), make(chan error, 1)
	renew := func() {
		w.point(watcher)
		select {
		case ready <- struct{}{}:
		default:
		}
	}
	go func() {
		done <- w.follow(ctx, watcher.Events, watcher.Errors, renew, nil, nil, func() {
			raw, _ := os.ReadFile(w.path) // for the failure message
			read <- string(raw)
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := watcher.Close(); err != nil {
			t.Error(err)
		}
	})
	<-ready
	return func(content string) {
		t.Helper()
		for late := time.After(patience); ; {
			select {
			case got := <-read:
				if got == content {
					return
				}
			case <-late:
				t.Fatalf("%q was not read", content)
			}
		}
	}
}

// Without notifications, the file is polled every minute, and read once it stays unchanged.
func TestAFileIsLookedAtWithoutWatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := place{t, t.TempDir()}
		p.write("c.yaml", "one")
		w := &fileWatch{path: p.at("c.yaml"), used: stateOf(p.at("c.yaml")), logger: slog.New(slog.DiscardHandler)}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var asked, read atomic.Int64
		ask := make(chan os.Signal)
		go func() { _ = w.follow(ctx, nil, nil, func() {}, ask, func() { asked.Add(1) }, func() { read.Add(1) }) }()
		time.Sleep(time.Second)
		p.write("c.yaml", "the second")
		time.Sleep(fallbackTime - 2*time.Second)
		synctest.Wait()
		if read.Load() != 0 {
			t.Error("it polls") // control: nothing happens before the polling interval
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if n := read.Load(); n != 1 {
			t.Errorf("it was read %d times", n)
		}
		p.write("c.yaml", "the third one")
		ask <- os.Interrupt
		time.Sleep(3 * fallbackTime)
		synctest.Wait()
		if a, r := asked.Load(), read.Load(); a != 1 || r != 1 {
			t.Errorf("it was read %d times when asked and %d times beside, want once and no further time", a, r)
		}
	})
}

// Writes to other files in the directory do not trigger a check. As a control, creating the
// file and writing to it do.
func TestWritesToNeighboursAreNoReasonToLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := place{t, t.TempDir()}
		p.write("c.yaml", "one")
		w := &fileWatch{path: p.at("c.yaml"), used: stateOf(p.at("c.yaml")), logger: slog.New(slog.DiscardHandler), on: map[string]fileState{p.at("c.yaml"): {}}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var looked atomic.Int64
		events := make(chan fsnotify.Event)
		go func() { _ = w.follow(ctx, events, nil, func() { looked.Add(1) }, nil, func() {}, func() {}) }()
		time.Sleep(time.Second)
		looks := func(name string, op fsnotify.Op) int64 {
			before := looked.Load()
			events <- fsnotify.Event{Name: p.at(name), Op: op}
			synctest.Wait()
			return looked.Load() - before
		}
		if n := looks("neighbour.log", fsnotify.Write) + looks("neighbour.log", fsnotify.Chmod); n != 0 {
			t.Errorf("it looked %d times", n)
		}
		if looks("neighbour.log", fsnotify.Create) == 0 || looks("neighbour.log", fsnotify.Rename) == 0 || looks("c.yaml", fsnotify.Write) == 0 {
			t.Error("it does not look at what can concern the file")
		}
	})
}
