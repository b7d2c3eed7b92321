package redisbus_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"lilac/internal/bus"
	"lilac/internal/bustest"
	"lilac/internal/db"
	"lilac/internal/delivery"
	"lilac/internal/event"
	"lilac/internal/redisbus"
	"lilac/internal/redistest"
)

// The variables that tell this binary, started again, to be a program that a
// test can kill.
const (
	childRole  = "LILAC_TEST_CHILD"
	childDir   = "LILAC_TEST_DIR"
	childURL   = "LILAC_TEST_URL"
	childRound = "LILAC_TEST_ROUND"
	childWho   = "LILAC_TEST_CONSUMER"
)

// runChild does what a test asked this binary for when it started it again.
func runChild() bool {
	role := map[string]func(*redisbus.Bus) error{
		"publish": childPublish, "consume": childConsume, "exit": childExit,
	}[os.Getenv(childRole)]
	if role == nil {
		return false
	}
	ctx := context.Background()
	database, err := db.Open(ctx, db.Options{Dir: os.Getenv(childDir), Migrations: redisbus.Migrations})
	if err == nil {
		var b *redisbus.Bus
		if b, err = redisbus.Open(ctx, database, redisbus.Options{URL: os.Getenv(childURL)}); err == nil {
			fmt.Println("ready")
			err = role(b)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// childPublish publishes for ever, half of it for a group and half not, and
// prints topic and id once they are acknowledged.
func childPublish(b *redisbus.Bus) error {
	var all sync.WaitGroup
	for w := range 8 {
		topic := []event.Topic{bustest.Topic, plain}[w%2]
		all.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("e-%s-%d-%d", os.Getenv(childRound), w, i)
				if err := b.Publish(context.Background(), bustest.Event(topic, id, "l")); err != nil {
					return
				}
				os.Stdout.WriteString(string(topic) + " " + id + " .\n")
			}
		})
	}
	all.Wait()
	return nil
}

// childConsume prints each delivery and never finishes it.
func childConsume(b *redisbus.Bus) error {
	return b.Subscribe(context.Background(), childGroup(), func(ctx context.Context, d bus.Delivery) error {
		fmt.Println(d.ID, d.Attempt)
		<-ctx.Done()
		return nil
	})
}

// childExit ends the process in the handler.
func childExit(b *redisbus.Bus) error {
	return b.Subscribe(context.Background(), childGroup(), func(_ context.Context, d bus.Delivery) error {
		fmt.Println(d.ID, d.Attempt)
		os.Exit(3)
		return nil
	})
}

const childLease = 700 * time.Millisecond

func childGroup() bus.Subscription {
	return bus.Subscription{Topic: bustest.Topic, Group: "g", Consumer: os.Getenv(childWho), Lease: childLease, Timeout: time.Hour}
}

// child is a started program and what it printed.
type child struct {
	cmd *exec.Cmd
	in  *bufio.Scanner
}

func startChild(t testing.TB, server *redistest.Server, dir, role string, env ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = append(append(os.Environ(), childRole+"="+role, childDir+"="+dir, childURL+"="+server.URL()), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd, in: bufio.NewScanner(out)}
	t.Cleanup(func() { c.kill() })
	if line := c.line(); line != "ready" {
		t.Fatalf("the child said %q, want ready", line)
	}
	return c
}

func (c *child) line() string {
	if !c.in.Scan() {
		return ""
	}
	return strings.TrimSpace(c.in.Text())
}

// kill ends the child as kill -9 does, and returns what it had still printed.
func (c *child) kill() (rest []string) {
	if c.cmd.ProcessState != nil {
		return nil
	}
	_ = c.cmd.Process.Kill()
	for line := c.line(); line != ""; line = c.line() {
		rest = append(rest, line)
	}
	_ = c.cmd.Wait()
	return rest
}

func missing(acked []string, w *world) (lost int) {
	held := map[string]map[string]bus.Position{string(bustest.Topic): w.places(bustest.Topic), string(plain): w.places(plain)}
	for _, line := range acked {
		topic, id, _ := strings.Cut(strings.TrimSuffix(line, " ."), " ")
		if _, ok := held[topic][id]; !ok {
			lost++
		}
	}
	return lost
}

// handledOnly leaves out the events that no group handles: of those Redis may
// lose the last two seconds when it dies together with the program, whose memory
// has them otherwise.
func handledOnly(acked []string) (out []string) {
	for _, line := range acked {
		if strings.HasPrefix(line, string(bustest.Topic)+" ") {
			out = append(out, line)
		}
	}
	return out
}

// written waits until Redis has written its append-only file. While a sync is
// slow it answers before it writes.
func written(t testing.TB, server *redistest.Server) {
	t.Helper()
	until(t, "the append-only file is written", func() bool {
		return strings.Contains(server.Do("INFO", "persistence").(string), "aof_buffer_length:0\r")
	})
}

// D1: what was acknowledged survives kill -9 of the program, and what a group
// handles survives that of the program and Redis together.
func TestAcknowledgedSurvivesKill(t *testing.T) {
	loops := 6
	if long() {
		loops = 200
	}
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server, server.URL())
	if err := w.bus.Declare(context.Background(), group); err != nil {
		t.Fatal(err)
	}
	w.close()
	var all []string
	for n := range loops {
		var acked []string
		c := startChild(t, server, w.dir, "publish", fmt.Sprint(childRound, "=", n))
		for range 250 + 13*(n%20) {
			acked = append(acked, c.line())
		}
		if n%3 == 1 { // the program goes on while Redis is killed
			server.Kill()
			for range 50 {
				acked = append(acked, c.line())
			}
		}
		acked = append(acked, c.kill()...)
		if n%3 == 2 {
			server.Kill()
		}
		// What was cut off in the middle of a line was not acknowledged in full.
		if last := acked[len(acked)-1]; !strings.HasSuffix(last, " .") {
			acked = acked[:len(acked)-1]
		}
		if n%3 == 0 {
			written(t, server)
		} else {
			server.Restart()
			acked = handledOnly(acked)
		}
		all = append(all, acked...)
	}
	w.open()
	w.healthy()
	until(t, "what waited is sent", func() bool { return w.unsent() == 0 })
	if lost := missing(all, w); lost > 0 {
		t.Errorf("%d of %d acknowledged events are lost", lost, len(all))
	}
	t.Logf("%d kills, %d acknowledged", loops, len(all))
	// The control: one that is acknowledged and not there is noticed.
	topic, id, _ := strings.Cut(strings.TrimSuffix(all[0], " ."), " ")
	server.Do("XDEL", "lilac:s:"+topic, string(w.places(event.Topic(topic))[id]))
	if lost := missing(all, w); lost != 1 {
		t.Errorf("control: %d were found missing, want 1", lost)
	}
}

func (w *world) unsent() (n int) {
	err := w.db.Read(context.Background(), func(q db.Queryer) error {
		return q.QueryRow("SELECT count(*) FROM redis_outgoing WHERE pos = 0").Scan(&n)
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return n
}

// prepared is a world with a group and one event that waits for it.
func prepared(t *testing.T) *world {
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server, server.URL())
	if err := w.bus.Declare(context.Background(), group); err != nil {
		t.Fatal(err)
	}
	if err := w.bus.Publish(context.Background(), bustest.Event(bustest.Topic, "poison", "l")); err != nil {
		t.Fatal(err)
	}
	w.close()
	return w
}

// D6: the work of a process that died is taken over: by the same consumer at
// once, by another one when the lease is over. The other one is the control:
// heartbeats are what keeps it away.
func TestDeadWorkIsTakenOver(t *testing.T) {
	for _, successor := range []string{"first", "second"} {
		t.Run(successor, func(t *testing.T) {
			w := prepared(t)
			c := startChild(t, w.server, w.dir, "consume", childWho+"=first")
			if got := c.line(); got != "poison 1" {
				t.Fatalf("first delivery %q", got)
			}
			time.Sleep(3 * childLease) // heartbeats must have kept it
			c.kill()
			died := time.Now()
			next := startChild(t, w.server, w.dir, "consume", childWho+"="+successor)
			if got := next.line(); got != "poison 2" {
				t.Fatalf("delivery after the death %q", got)
			}
			after := time.Since(died)
			next.kill()
			if limit := childLease + 10*time.Second; after > limit {
				t.Errorf("taken over after %v, want at most %v", after, limit)
			}
			if successor == "second" && after < childLease/3 {
				t.Errorf("taken over after %v although the lease was renewed shortly before", after)
			}
		})
	}
}

// D7: an event whose handler ends the process is tried five times, and then it
// is a dead letter that can be replayed.
func TestPoisonThatEndsTheProcessIsCounted(t *testing.T) {
	w := prepared(t)
	for n := 1; n <= 5; n++ {
		c := startChild(t, w.server, w.dir, "exit", childWho+"=first")
		if got, want := c.line(), fmt.Sprint("poison ", n); got != want {
			t.Fatalf("delivery %q, want %q", got, want)
		}
		_ = c.cmd.Wait()
	}
	w.db, w.bus = openBus(t, w.dir, db.Options{}, redisbus.Options{URL: w.url, Options: delivery.Options{TrimEvery: -1}})
	w.attach()
	var letters []bus.DeadLetter
	until(t, "it is a dead letter", func() bool {
		letters, _ = w.bus.DeadLetters(context.Background(), "", 10)
		return len(letters) == 1
	})
	if letters[0].Event.ID != "poison" || letters[0].Attempts != 5 {
		t.Errorf("dead letter %+v", letters[0])
	}
	if err := w.bus.Replay(context.Background(), letters[0].ID); err != nil {
		t.Fatal(err)
	}
	until(t, "the replay is handled", func() bool { h, _ := w.counts(); return h == 1 })
	w.detach()
}
