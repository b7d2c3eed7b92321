package files

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/fsnotify/fsnotify"

	"lilac/internal/core/environment"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// troubles is an intake that keeps what is in the way of each source.
type troubles map[string]string

func (troubles) Publish(context.Context, environment.SourceID, int, event.EnvEvent, func(*db.Tx) (bool, error)) (bool, error) {
	return true, nil
}
func (troubles) Drop(environment.SourceID, int64)                         {}
func (have troubles) SetTrouble(from environment.SourceID, reason string) { have[from.Name] = reason }

// A source that takes all directories leaves none for another. When some are
// gone, what is left is watched and nothing is said any more.
func TestWhatFoundNoRoomIsWatchedWhenThereIsSome(t *testing.T) {
	many, other := t.TempDir(), t.TempDir()
	const room = 10
	for i := range room {
		if err := os.Mkdir(filepath.Join(many, fmt.Sprint(i)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	var sources []Source
	for _, s := range []struct{ name, path string }{{"many", many + "/"}, {"other", other + "/*.txt"}} {
		p, err := Compile(s.path)
		if err != nil {
			t.Fatal(err)
		}
		sources = append(sources, Source{Name: s.name, Patterns: []Pattern{p}, Changes: []Change{Create}, Queue: 10})
	}
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	said := troubles{}
	tr := newTree(watcher, Options{Intake: said}, sources, nil)
	tr.maxDirs = room
	tr.scan(false)
	if said["many"] == "" || said["other"] == "" {
		t.Fatalf("%d directories are watched, said %v", len(tr.dirs), said)
	}
	var gone []string
	for dir := range tr.dirs {
		if dir != many && len(gone) < 3 {
			gone = append(gone, dir)
			if err := os.Remove(dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	watched := func(dir string) bool { _, ok := tr.dirs[dir]; return ok }
	for slices.ContainsFunc(gone, watched) {
		tr.handle(<-watcher.Events)
	}
	tr.recheck()
	left, err := filepath.Glob(many + "/*")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range append(left, many, other) {
		if !watched(dir) {
			t.Errorf("%s is not watched", dir)
		}
	}
	if said["many"] != "" || said["other"] != "" {
		t.Errorf("said %v", said)
	}
}
