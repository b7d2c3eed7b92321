package files_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"lilac/internal/core/environment"
	"lilac/internal/core/files"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/effort"
)

func TestMain(m *testing.M) {
	effort.SideBySide(8)
	goleak.VerifyTestMain(dbtest.Engines(m))
}

// heard is an intake that keeps what it gets, and commits what goes along.
type heard struct {
	t       *testing.T
	db      *db.DB
	changes chan files.Payload
	// set replaces the sources, stop ends the service.
	set  func([]files.Source)
	stop func()
	src  files.Source

	mu      sync.Mutex
	dropped int64
	trouble string
	ready   chan struct{}
	once    sync.Once
}

func (h *heard) Publish(ctx context.Context, _ environment.SourceID, _ int, e event.EnvEvent, also func(*db.Tx) (bool, error)) (bool, error) {
	var p files.Payload
	if err := json.Unmarshal(e.Payload, &p); err != nil || e.Validate() != nil || e.Type != event.FileChanged {
		h.t.Errorf("%+v: %v", e, err)
	}
	err := h.db.Update(ctx, func(tx *db.Tx) error {
		_, err := also(tx)
		return err
	})
	if err == nil {
		h.changes <- p
	}
	return err == nil, err
}

func (h *heard) Drop(_ environment.SourceID, n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.dropped += n
}

// SetTrouble is called at the end of each scan: then all is watched.
func (h *heard) SetTrouble(_ environment.SourceID, why string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.trouble = why
	h.once.Do(func() { close(h.ready) })
}

func (h *heard) state() (dropped int64, trouble string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.dropped, h.trouble
}

func open(t *testing.T) *db.DB {
	t.Helper()
	database, err := db.Open(context.Background(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: store.Migrations}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := database.Close(); err != nil {
			t.Error(err)
		}
	})
	return database
}

// rest is how long a file has to lie still: longer than a busy disk or processor
// takes for what belongs together.
const rest = 500 * time.Millisecond

// start watches paths below a directory.
func start(t *testing.T, dir string, queue int, paths ...string) *heard {
	t.Helper()
	return watch(t, open(t), dir, files.Source{Queue: queue, Debounce: rest}, paths...)
}

// watch watches paths below a directory, and remembers what was seen there.
func watch(t *testing.T, database *db.DB, dir string, src files.Source, paths ...string) *heard {
	t.Helper()
	h := &heard{t: t, db: database, changes: make(chan files.Payload, 10_000), ready: make(chan struct{})}
	src.Name, src.Changes = "f", files.Changes
	for _, p := range paths {
		compiled, err := files.Compile(dir + p)
		if err != nil {
			t.Fatal(err)
		}
		src.Patterns = append(src.Patterns, compiled)
	}
	s := files.New(files.Options{DB: database, Known: store.WatchedFiles{}, Intake: h, Exclude: []string{filepath.Join(dir, "data")}, AgentWritable: []string{filepath.Join(dir, "ws")}})
	s.Set([]files.Source{src})
	h.src, h.set = src, s.Set
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	h.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(h.stop)
	select {
	case <-h.ready:
	case <-time.After(time.Minute):
		t.Fatal("nothing is watched")
	}
	return h
}

// expect takes the next change, which has to be this one.
func (h *heard) expect(path string, change files.Change) {
	h.t.Helper()
	select {
	case p := <-h.changes:
		if p.Path != path || p.Change != change || (p.Size != nil) != (change == files.Create || change == files.Write) {
			h.t.Fatalf("heard %s of %s (%+v), want %s of %s", p.Change, p.Path, p, change, path)
		}
	case <-time.After(time.Minute):
		h.t.Fatalf("nothing was heard, want %s of %s", change, path)
	}
}

// expectAll takes the next changes, which have to be these, in any order.
func (h *heard) expectAll(want map[string]files.Change) {
	h.t.Helper()
	got := map[string]files.Change{}
	for len(got) < len(want) {
		select {
		case p := <-h.changes:
			got[p.Path] = p.Change
		case <-time.After(time.Minute):
			h.t.Fatalf("heard %v, want %v", got, want)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		h.t.Fatal(diff)
	}
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	for _, err := range errs {
		if err != nil {
			t.Fatal(err)
		}
	}
}

func write(t *testing.T, path string) {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(path), 0o600))
}

func TestTheLifeOfAFile(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	dir := t.TempDir()
	old := filepath.Join(dir, "old.txt")
	write(t, old)
	h := start(t, dir, 100, "/*.txt")
	a := filepath.Join(dir, "a.txt")
	write(t, a)
	h.expect(a, files.Create)
	write(t, a)
	h.expect(a, files.Write)
	must(t, os.Rename(a, filepath.Join(dir, "b.txt")))
	h.expect(a, files.Rename)
	h.expect(filepath.Join(dir, "b.txt"), files.Create)
	must(t, os.Remove(filepath.Join(dir, "b.txt")))
	h.expect(filepath.Join(dir, "b.txt"), files.Remove)
	// What was there at the start was not told, and is known.
	write(t, old)
	h.expect(old, files.Write)
	must(t, os.Chmod(old, 0o400), os.WriteFile(filepath.Join(dir, "x.md"), nil, 0o600), os.Remove(old))
	h.expect(old, files.Remove)
}

// What changed while nobody watched, or had not rested when the watch ended, is
// found at the next start, once.
func TestWhatChangedMeanwhileIsTold(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	soon, never := files.Source{Queue: 100, Debounce: rest}, files.Source{Queue: 100, Debounce: time.Hour}
	dir, database := t.TempDir(), open(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"stays.txt", "goes.txt", "grows.txt", "rests.txt"} {
		write(t, at(name))
	}
	h := watch(t, database, dir, soon, "/*.txt")
	write(t, at("told.txt"))
	h.expect(at("told.txt"), files.Create)
	h.stop()

	must(t, os.Remove(at("goes.txt")), os.WriteFile(at("grows.txt"), []byte("more than it was by far, whatever the clock of the files says"), 0o600))
	write(t, at("new.txt"))
	want := map[string]files.Change{at("goes.txt"): files.Remove, at("grows.txt"): files.Write, at("new.txt"): files.Create}
	h = watch(t, database, dir, never, "/*.txt")
	h.stop() // what was noticed does not rest yet
	h = watch(t, database, dir, soon, "/*.txt")
	h.expectAll(want)
	h.stop()

	h = watch(t, database, dir, soon, "/*.txt") // and not again
	write(t, at("end.txt"))
	h.expect(at("end.txt"), files.Create)
	h.stop()

	// With other paths the source is another one.
	write(t, at("unseen.txt"))
	h = watch(t, database, dir, soon, "/*.txt", "/more/*.txt")
	write(t, at("more/end.txt"))
	h.expect(at("more/end.txt"), files.Create)
}

func TestWhatChangedMeanwhileIsLeftOutWhereAskedFor(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	skip := files.Source{Queue: 100, Debounce: rest, SkipMissed: true}
	dir, database := t.TempDir(), open(t)
	h := watch(t, database, dir, skip, "/*.txt")
	h.stop()
	write(t, filepath.Join(dir, "meanwhile.txt"))
	h = watch(t, database, dir, skip, "/*.txt")
	write(t, filepath.Join(dir, "end.txt"))
	h.expect(filepath.Join(dir, "end.txt"), files.Create)
}

// What a file did before it rests is told, also when the sources beside it are
// edited meanwhile, and what is known of files stays known.
func TestWhatRestsIsToldWhenOtherSourcesChange(t *testing.T) {
	effort.SkipSlow(t)
	for name, skip := range map[string]bool{"missed: skip": true, "control: what was missed is told": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			a, b, c := filepath.Join(dir, "a.txt"), filepath.Join(dir, "b.txt"), filepath.Join(dir, "c.txt")
			write(t, a)
			write(t, b)
			h := watch(t, open(t), dir, files.Source{Queue: 100, Debounce: rest, SkipMissed: skip}, "/*.txt")
			write(t, a)
			must(t, os.Remove(b))
			write(t, c)
			elsewhere, err := files.Compile(t.TempDir() + "/")
			must(t, err)
			other := h.src
			other.Name, other.Patterns = "other", []files.Pattern{elsewhere}
			h.set([]files.Source{other, h.src})
			h.expectAll(map[string]files.Change{a: files.Write, b: files.Remove, c: files.Create})
			write(t, a)
			h.expect(a, files.Write)
		})
	}
}

func TestEditorsThatReplaceAFile(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	for name, save := range map[string]func(t *testing.T, a string){
		"a temporary file is moved over it": func(t *testing.T, a string) {
			write(t, a+".tmp")
			must(t, os.Rename(a+".tmp", a))
		},
		"the old one is moved away": func(t *testing.T, a string) {
			must(t, os.Rename(a, a+"~"))
			write(t, a)
			must(t, os.Remove(a+"~"))
		},
		"the old one is removed": func(t *testing.T, a string) {
			must(t, os.Remove(a))
			write(t, a)
		},
		"it is written in pieces": func(t *testing.T, a string) {
			for range 5 {
				write(t, a)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			a := filepath.Join(dir, "a.txt")
			write(t, a)
			// What an editor does in several steps belongs together on any disk.
			h := watch(t, open(t), dir, files.Source{Queue: 100, Debounce: 3 * time.Second}, "/a.txt")
			save(t, a)
			h.expect(a, files.Write)
		})
	}
}

func TestDirectoriesThatAppearAndGo(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	dir := t.TempDir()
	h := start(t, dir, 100, "/x/y/**/*.txt")
	a, deep := filepath.Join(dir, "x/y/a.txt"), filepath.Join(dir, "x/y/1/2/3/deep.txt")
	for range 3 { // the root is made, removed and made again
		write(t, a)
		h.expect(a, files.Create)
		write(t, deep) // a file that is there before its directory is watched
		h.expect(deep, files.Create)
		write(t, deep)
		h.expect(deep, files.Write)
		must(t, os.RemoveAll(filepath.Join(dir, "x")))
		h.expectAll(map[string]files.Change{deep: files.Remove, a: files.Remove})
	}
}

func TestADirectoryThatIsMovedAway(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	dir := t.TempDir()
	a := filepath.Join(dir, "x/a.txt")
	write(t, a)
	h := start(t, dir, 100, "/x/*.txt")
	must(t, os.Rename(filepath.Join(dir, "x"), filepath.Join(dir, "z")))
	h.expect(a, files.Rename)
	// What changes where it went is nobody's business, what is made in its place is.
	write(t, filepath.Join(dir, "z/b.txt"))
	write(t, a)
	h.expect(a, files.Create)
}

func TestLinksAreNotFollowed(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(dir, "in/a.txt"))
	write(t, filepath.Join(outside, "before.txt"))
	must(t, os.Symlink(outside, filepath.Join(dir, "in/link")))
	h := start(t, dir, 100, "/in/")
	must(t, os.Symlink(outside, filepath.Join(dir, "in/later")))
	h.expect(filepath.Join(dir, "in/later"), files.Create) // the link itself
	write(t, filepath.Join(outside, "secret.txt"))
	// A directory that becomes a link takes what it held with it.
	write(t, filepath.Join(dir, "in/sub/before.txt"))
	h.expect(filepath.Join(dir, "in/sub/before.txt"), files.Create)
	must(t, os.RemoveAll(filepath.Join(dir, "in/sub")), os.Symlink(outside, filepath.Join(dir, "in/sub")))
	h.expectAll(map[string]files.Change{
		filepath.Join(dir, "in/sub"): files.Create, filepath.Join(dir, "in/sub/before.txt"): files.Remove,
	})
	write(t, filepath.Join(outside, "again.txt"))
	write(t, filepath.Join(dir, "in/end.txt"))
	h.expect(filepath.Join(dir, "in/end.txt"), files.Create)
}

// Where the agent may write it would choose what is watched: there not even a
// link in the fixed beginning of a path is followed. Elsewhere one is, the control.
func TestNoLinkOfTheAgentIsFollowed(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	write(t, filepath.Join(outside, "in/before.txt"))
	must(t, os.Mkdir(filepath.Join(dir, "ws"), 0o700), os.Symlink(outside, filepath.Join(dir, "ws/link")), os.Symlink(outside, filepath.Join(dir, "ours")))
	write(t, filepath.Join(dir, "ws/dir/in/before.txt"))
	h := start(t, dir, 100, "/ws/link/in/*.txt", "/ws/dir/in/*.txt", "/ours/in/*.txt")
	write(t, filepath.Join(outside, "in/a.txt"))
	h.expect(filepath.Join(dir, "ours/in/a.txt"), files.Create)
	// A directory that becomes a link takes what it held with it.
	must(t, os.Rename(filepath.Join(dir, "ws/dir/in"), filepath.Join(dir, "ws/was")), os.Symlink(filepath.Join(outside, "in"), filepath.Join(dir, "ws/dir/in")))
	h.expect(filepath.Join(dir, "ws/dir/in/before.txt"), files.Rename)
	write(t, filepath.Join(outside, "in/b.txt"))
	h.expect(filepath.Join(dir, "ours/in/b.txt"), files.Create)
	// What is no link is watched as ever.
	must(t, os.Remove(filepath.Join(dir, "ws/link")))
	write(t, filepath.Join(dir, "ws/link/in/c.txt"))
	h.expect(filepath.Join(dir, "ws/link/in/c.txt"), files.Create)
}

func TestOurOwnFilesAreNotWatched(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "data/lilac.db"))
	h := start(t, dir, 100, "/")
	write(t, filepath.Join(dir, "data/lilac.db"))
	write(t, filepath.Join(dir, "data/blobs/new"))
	write(t, filepath.Join(dir, "end.txt"))
	h.expect(filepath.Join(dir, "end.txt"), files.Create)
}

func TestWhatIsTooMuchIsCounted(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	dir := t.TempDir()
	h := start(t, dir, 5, "/*.txt")
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		for i := range 50 {
			write(t, filepath.Join(dir, fmt.Sprintf("%02d.txt", i)))
		}
		if dropped, _ := h.state(); dropped > 0 && len(h.changes) >= 5 {
			return
		}
	}
	dropped, _ := h.state()
	t.Errorf("heard %d, dropped %d", len(h.changes), dropped)
}

func TestTooManyDirectoriesAreSaid(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	dir := t.TempDir()
	h := start(t, dir, 5, "/**/*.txt")
	for i := range 4200 {
		must(t, os.Mkdir(filepath.Join(dir, fmt.Sprint(i)), 0o700))
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		_, trouble := h.state()
		if trouble != "" {
			return
		}
		if time.Now().After(end) {
			t.Fatal("nothing was said")
		}
	}
}
