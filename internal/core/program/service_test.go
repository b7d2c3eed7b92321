package program_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"lilac/internal/core/environment"
	"lilac/internal/core/program"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/logtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds a wait for something that has to happen.
const patience = 30 * time.Second

// intake is an intake that keeps what it receives.
type intake struct {
	// fail returns the error of an event, or nil.
	fail func(id string) error
	room chan struct{} // nil: there is always room

	mu      sync.Mutex
	events  []event.EnvEvent
	refused int
	trouble string
	changed chan struct{} // closed and replaced with each change
}

func (i *intake) change(do func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	do()
	close(i.changed)
	i.changed = make(chan struct{})
}

func (i *intake) AwaitRoom(ctx context.Context, _ environment.SourceID, _ int) error {
	if i.room == nil {
		return nil
	}
	select {
	case <-i.room:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (i *intake) Publish(_ context.Context, from environment.SourceID, _ int, e event.EnvEvent, _ func(*db.Tx) (bool, error)) (bool, error) {
	if i.fail != nil {
		if err := i.fail(e.ID); err != nil {
			return false, err
		}
	}
	i.change(func() { i.events = append(i.events, e) })
	return true, nil
}
func (i *intake) Refuse(environment.SourceID) { i.change(func() { i.refused++ }) }
func (i *intake) SetTrouble(_ environment.SourceID, why string) {
	i.change(func() { i.trouble = why })
}

// await waits until a condition holds. It is checked after each change.
func (i *intake) await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		i.mu.Lock()
		changed, ok := i.changed, holds()
		i.mu.Unlock()
		if ok {
			return
		}
		select {
		case <-changed:
		case <-deadline:
			i.mu.Lock()
			defer i.mu.Unlock()
			t.Fatalf("never: %s; events %v, refused %d, trouble %q", what, ids(i.events), i.refused, i.trouble)
		}
	}
}

func ids(events []event.EnvEvent) (out []string) {
	for _, e := range events {
		out = append(out, strings.TrimPrefix(e.ID, "source:p:"))
	}
	return out
}

// world runs a service with one program, a shell script.
type world struct {
	*intake
	dir     string
	service *program.Service
	log     *logtest.Log
	pauses  chan time.Duration // receives the pauses, which take no time
	stop    func()
}

func (w *world) path(name string) string { return filepath.Join(w.dir, name) }

func (w *world) read(name string) string {
	text, _ := os.ReadFile(w.path(name))
	return string(text)
}

// source returns the program as a source.
func (w *world) source(command ...string) program.Source {
	return program.Source{Name: "p", Command: command, Dir: w.dir, Env: []string{"FROM=test"}, MaxBytes: 200, Queue: 10}
}

// script runs a shell script in a directory of its own.
func script(t *testing.T, in *intake, text string) *world {
	t.Helper()
	return run(t, in, "sh", "-c", text)
}

func run(t *testing.T, in *intake, command ...string) *world {
	t.Helper()
	in.changed = make(chan struct{})
	w := &world{intake: in, dir: t.TempDir(), log: &logtest.Log{}, pauses: make(chan time.Duration, 1000)}
	w.service = program.New(program.Options{Intake: in, Grace: 200 * time.Millisecond, AnswerWait: 300 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(w.log, nil)), Sleep: func(ctx context.Context, d time.Duration) bool {
		select {
		case w.pauses <- d:
			return true
		case <-ctx.Done():
			return false
		}
	}})
	w.service.Set([]program.Source{w.source(command...)})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- w.service.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(w.stop)
	return w
}

// wait keeps a script running until its standard input ends.
const wait = "\ncat > /dev/null"

func TestEachLineIsAnsweredAfterItIsDurable(t *testing.T) {
	committed := make(chan struct{})
	w := script(t, &intake{fail: func(string) error { <-committed; return nil }}, `
		echo '{"id":"1","payload":{"a":1}}'; read -r answer; echo "$answer" >> answers
		printf '{"id":"2"}\r\n\n'; read -r answer; echo "$answer" >> answers
		echo 'hello'; read -r answer; echo "$answer" >> answers
		echo '{"id":"3","type":"user_query"}'; read -r answer; echo "$answer" >> answers
		head -c 100000 /dev/zero | tr '\0' x; echo; read -r answer; echo "$answer" >> answers
		echo '{"id":"4"}'; read -r answer; echo "$answer" >> answers
		echo '{"id":"5"}'`+wait)
	if got := w.read("answers"); got != "" {
		t.Errorf("answered before the commit: %q", got)
	}
	close(committed)
	w.await(t, "the last event", func() bool { return len(w.events) == 4 })
	want := `ack 1
ack 2
nack - The line is not an event in JSON, such as {"id": "1", "payload": {}}.
nack 3 Only Lilac itself publishes events of the type user_query. Use a type of your own.
nack - The line is longer than maxBytes.
ack 4
`
	if diff := cmp.Diff(want, w.read("answers")); diff != "" {
		t.Error(diff)
	}
	if w.refused != 3 || !slices.Equal(ids(w.events), []string{"1", "2", "4", "5"}) || string(w.events[0].Payload) != `{"a":1}` {
		t.Errorf("events %+v, refused %d", w.events, w.refused)
	}
}

// Many lines at once are answered in their order, also if the last one has no end.
func TestLinesAreHandledInOrder(t *testing.T) {
	w := script(t, &intake{}, `for i in 1 2 3 4 5 6 7; do echo "{\"id\":\"$i\"}"; done; printf '{"id":"8"}'; exec >&-`+wait)
	w.await(t, "eight events", func() bool { return len(w.events) == 8 })
	if got := ids(w.events); !slices.IsSorted(got) {
		t.Errorf("events %v", got)
	}
}

func TestAnEventThatCannotBeSavedIsTriedAgain(t *testing.T) {
	failures := 2
	w := script(t, &intake{fail: func(string) error {
		if failures--; failures >= 0 {
			return errors.New("the disk is full")
		}
		return nil
	}}, `echo '{"id":"1"}'; echo '{"id":"2"}'; read -r a; read -r b; echo "$a $b" > answers`+wait)
	w.await(t, "both events", func() bool { return len(w.events) == 2 && w.trouble == "" })
	if got := ids(w.events); !slices.Equal(got, []string{"1", "2"}) || len(w.pauses) != 2 {
		t.Errorf("events %v after %d pauses", got, len(w.pauses))
	}
}

// An event that can never be saved does not block those behind it.
func TestAnInvalidEventIsRefused(t *testing.T) {
	w := script(t, &intake{fail: func(id string) error {
		if id == "source:p:1" {
			return fault.New(fault.TooLarge, "The event is too large.")
		}
		return nil
	}}, `echo '{"id":"1"}'; echo '{"id":"2"}'; read -r a; echo "$a" > answers; echo '{"id":"3"}'`+wait)
	w.await(t, "the events behind it", func() bool { return len(w.events) == 2 && w.refused == 1 })
	if got := w.read("answers"); got != "nack 1 The event is too large.\n" {
		t.Errorf("answer %q", got)
	}
}

// While the queue is full, nothing is read and nothing is lost.
func TestAFullQueueHoldsTheProgramBack(t *testing.T) {
	room := make(chan struct{})
	w := script(t, &intake{room: room}, `for i in 1 2 3; do echo "{\"id\":\"$i\"}"; read -r answer; done`+wait)
	for n := range 3 {
		w.mu.Lock()
		got := len(w.events)
		w.mu.Unlock()
		if got > n {
			t.Fatalf("%d events with room for %d", got, n)
		}
		room <- struct{}{}
	}
	w.await(t, "all events", func() bool { return len(w.events) == 3 })
}

func TestAProgramThatEndsIsStartedAgain(t *testing.T) {
	w := script(t, &intake{}, `echo x >> starts; echo oops >&2; [ "$(wc -l < starts)" -ge 4 ] || exit 3; echo '{"id":"1"}'`+wait)
	w.await(t, "an event of the fourth start", func() bool { return len(w.events) == 1 && w.trouble == "" })
	var pauses []time.Duration
	for range 3 {
		pauses = append(pauses, <-w.pauses)
	}
	if diff := cmp.Diff([]time.Duration{time.Second, 2 * time.Second, 4 * time.Second}, pauses); diff != "" {
		t.Error(diff)
	}
	log := w.log.String()
	for _, want := range []string{"exit status 3", "line=oops", "source=p"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %q:\n%s", want, log)
		}
	}
}

func TestTheTroubleOfAProgramIsKnown(t *testing.T) {
	for name, c := range map[string]struct{ command, want string }{
		"it does not exist": {"/no/such/program", "no such file"},
		"it fails":          {"exit 3", "exit status 3"},
		"it ends":           {"exit 0", "it ended; a source must keep running"},
	} {
		t.Run(name, func(t *testing.T) {
			command := []string{"sh", "-c", c.command}
			if strings.HasPrefix(c.command, "/") {
				command = []string{c.command}
			}
			w := run(t, &intake{}, command...)
			w.await(t, "trouble", func() bool { return strings.Contains(w.trouble, c.want) })
		})
	}
}

// Closing the standard output is an end, too.
func TestAProgramWithoutOutputIsStartedAgain(t *testing.T) {
	effort.SkipSlow(t)
	w := script(t, &intake{}, `exec >&-`+wait)
	w.await(t, "trouble", func() bool { return strings.Contains(w.trouble, "closed its standard output") })
}

// The program and its children end with the service, even if they ignore requests to end.
func TestNothingIsLeftRunning(t *testing.T) {
	fifo := filepath.Join(t.TempDir(), "alive")
	w := script(t, &intake{}, `mkfifo `+fifo+`; trap '' TERM; (trap '' TERM; echo '{"id":"1"}'; exec sleep 1000 > `+fifo+`) & wait; sleep 1000`)
	w.await(t, "the child runs", func() bool { return len(w.events) == 1 })
	alive, err := os.Open(fifo)
	if err != nil {
		t.Fatal(err)
	}
	defer alive.Close()
	w.stop()
	// The end of the last writer ends the pipe.
	if n, err := alive.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("read %d, %v", n, err)
	}
}

// A program that asks in time may end by itself.
func TestAProgramIsAskedToEnd(t *testing.T) {
	w := script(t, &intake{}, `trap 'echo asked > end; exit' TERM; echo '{"id":"1"}'; while :; do sleep 0.01; done`)
	w.await(t, "it runs", func() bool { return len(w.events) == 1 })
	w.stop()
	if got := w.read("end"); got != "asked\n" {
		t.Errorf("it ended with %q", got)
	}
}

func TestSetKeepsProgramsThatStayTheSame(t *testing.T) {
	text := `echo x >> starts; echo "{\"id\":\"$(wc -l < starts)\"}"` + wait
	w := script(t, &intake{}, text)
	w.await(t, "the first start", func() bool { return len(w.events) == 1 })
	w.service.Set([]program.Source{w.source("sh", "-c", text), {Name: "q", Command: []string{"sh", "-c", `echo '{"id":"q"}'` + wait}, Dir: w.dir, MaxBytes: 100, Queue: 1}})
	w.await(t, "the second program", func() bool { return len(w.events) == 2 })
	if got := w.read("starts"); got != "x\n" {
		t.Errorf("the program was started again: %q", got)
	}
	w.service.Set([]program.Source{w.source("sh", "-c", text+" ")})
	w.await(t, "the changed program", func() bool { return len(w.events) == 3 })
}

// The environment has what a program needs, and no secret of Lilac.
func TestTheEnvironmentHasNoSecrets(t *testing.T) {
	t.Setenv("LILAC_TOKEN", "secret")
	t.Setenv("DISCORD_TOKEN", "secret")
	w := script(t, &intake{}, `env > env; echo '{"id":"1"}'`+wait)
	w.await(t, "it runs", func() bool { return len(w.events) == 1 })
	got := w.read("env")
	if strings.Contains(got, "secret") || !strings.Contains(got, "LILAC_SOURCE=p\n") || !strings.Contains(got, "FROM=test\n") || !strings.Contains(got, "PATH=") {
		t.Errorf("the environment is\n%s", got)
	}
}

// A program cannot fill the log.
func TestTheLogIsLimited(t *testing.T) {
	w := script(t, &intake{}, `i=0; while [ $i -lt 100 ]; do echo "noise $i" >&2; i=$((i+1)); done; head -c 5000 /dev/zero | tr '\0' x >&2; echo '{"id":"1"}'`+wait)
	w.await(t, "it runs", func() bool { return len(w.events) == 1 })
	w.stop()
	log := w.log.String()
	if n := strings.Count(log, "noise "); n > 60 || n == 0 || !strings.Contains(log, "left_out=") {
		t.Errorf("%d lines in the log:\n%s", n, log)
	}
}

// A program may print many lines before it reads the answers.
func TestAnswersMayBeReadLate(t *testing.T) {
	w := script(t, &intake{}, `i=0; while [ $i -lt 200 ]; do echo "{\"id\":\"$i\"}"; i=$((i+1)); done; i=0; while [ $i -lt 200 ]; do read -r a; i=$((i+1)); done; echo "$a" > last; echo '{"id":"end"}'`+wait)
	w.await(t, "all events", func() bool { return len(w.events) == 201 })
	if got := w.read("last"); got != "ack 199\n" {
		t.Errorf("the last answer is %q", got)
	}
}

// A program that never reads its answers would block itself and Lilac. It is started again.
func TestAProgramThatReadsNoAnswersIsStartedAgain(t *testing.T) {
	w := script(t, &intake{}, `id=$(head -c 120 /dev/zero | tr '\0' x); while :; do echo "{\"id\":\"$id\"}"; done`)
	w.await(t, "trouble", func() bool { return strings.Contains(w.trouble, "has not read its acknowledgments") })
}

// The examples of the documentation lose nothing: they keep a file until it is acknowledged.
func TestTheExamplesOfTheDocumentation(t *testing.T) {
	docs, err := os.ReadFile("../../../docs/sources.md")
	if err != nil {
		t.Fatal(err)
	}
	for name, interpreter := range map[string]string{"python": "python3", "sh": "sh"} {
		t.Run(name, func(t *testing.T) {
			_, rest, _ := strings.Cut(string(docs), "```"+name+"\n#!")
			text, _, found := strings.Cut(rest, "```")
			if !found {
				t.Fatal("there is no example")
			}
			file, spool := filepath.Join(t.TempDir(), "example"), t.TempDir()
			if err := os.WriteFile(file, []byte("#!"+text), 0o600); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				if err := os.WriteFile(filepath.Join(spool, fmt.Sprint("deploy-", i)), []byte("v1"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			committed := make(chan struct{})
			w := run(t, &intake{fail: func(id string) error {
				if id == "source:p:deploy-1" {
					<-committed
				}
				return nil
			}}, interpreter, file, spool)
			w.await(t, "the first event", func() bool { return len(w.events) == 1 })
			if left, _ := os.ReadDir(spool); len(left) < 2 {
				t.Errorf("%d files are left before their events are durable", len(left))
			}
			close(committed)
			w.await(t, "all events", func() bool { return len(w.events) == 3 })
			if got := ids(w.events); !slices.Equal(got, []string{"deploy-0", "deploy-1", "deploy-2"}) || w.refused != 0 {
				t.Errorf("events %v, refused %d", got, w.refused)
			}
			w.stop()
		})
	}
}
