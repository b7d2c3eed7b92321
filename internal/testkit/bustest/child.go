package bustest

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
)

// The variables that tell a test binary, started again, to be a program that a
// test can kill.
const (
	ChildRole = "LILAC_TEST_CHILD"
	ChildDir  = "LILAC_TEST_DIR"
	ChildWho  = "LILAC_TEST_CONSUMER"
)

// ChildLease is how long a child has its work without a heartbeat.
const ChildLease = 700 * time.Millisecond

// ChildGroup is the group of which a child is a consumer.
func ChildGroup() bus.Subscription {
	return bus.Subscription{Topic: Topic, Group: "g", Consumer: os.Getenv(ChildWho), Lease: ChildLease, Timeout: time.Hour}
}

// AwaitHeartbeats waits until a child that got its one delivery not before a
// moment has kept it for longer than three leases.
func AwaitHeartbeats(t testing.TB, dir string, since time.Time) {
	t.Helper()
	until(t, "heartbeats keep the delivery", func() bool { return LeaseEnd(t, dir).After(since.Add(4 * ChildLease)) })
}

// LeaseEnd is until when the one delivery of a child belongs to it, also while
// it runs.
func LeaseEnd(t testing.TB, dir string) time.Time {
	t.Helper()
	file := (&url.URL{Path: filepath.Join(dir, db.FileName)}).EscapedPath()
	database, err := sql.Open("sqlite", "file:"+file+"?mode=ro&_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	var end int64
	err = database.QueryRow("SELECT lease_until FROM bus_pending").Scan(&end)
	if err := errors.Join(err, database.Close()); err != nil {
		t.Fatal(err)
	}
	return time.UnixMilli(end)
}

// RunChild does what a test asked this binary for when it started it again, and
// reports whether one did; TestMain calls it first. Open opens the engine;
// publish is the engine's own role, "publish".
func RunChild(open func(ctx context.Context, dir string) (bus.Bus, error), publish func(bus.Bus) error) bool {
	role := map[string]func(bus.Bus) error{"publish": publish, "consume": childConsume, "exit": childExit}[os.Getenv(ChildRole)]
	if role == nil {
		return false
	}
	b, err := open(context.Background(), os.Getenv(ChildDir))
	if err == nil {
		fmt.Println("ready")
		err = role(b)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// childConsume prints each delivery and never finishes it.
func childConsume(b bus.Bus) error {
	return b.Subscribe(context.Background(), ChildGroup(), func(ctx context.Context, d bus.Delivery) error {
		fmt.Println(d.ID, d.Attempt)
		<-ctx.Done()
		return nil
	})
}

// childExit ends the process in the handler.
func childExit(b bus.Bus) error {
	return b.Subscribe(context.Background(), ChildGroup(), func(_ context.Context, d bus.Delivery) error {
		fmt.Println(d.ID, d.Attempt)
		os.Exit(3)
		return nil
	})
}

// Child is a started program and what it printed.
type Child struct {
	cmd *exec.Cmd
	in  *bufio.Scanner
}

// StartChild starts this binary again in a role, behind the words of wrap, and
// waits until its engine is open. It ends with the test.
func StartChild(t testing.TB, dir, role string, wrap []string, env ...string) *Child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(wrap, exe)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(append(os.Environ(), ChildRole+"="+role, ChildDir+"="+dir), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &Child{cmd: cmd, in: bufio.NewScanner(out)}
	t.Cleanup(func() { c.Kill() })
	if line := c.Line(); line != "ready" {
		t.Fatalf("the child said %q, want ready", line)
	}
	return c
}

// Line is the next line that it printed, "" when it has ended.
func (c *Child) Line() string {
	if !c.in.Scan() {
		return ""
	}
	return strings.TrimSpace(c.in.Text())
}

// Wait waits until it has ended by itself.
func (c *Child) Wait() { _ = c.cmd.Wait() }

// Kill ends the child as kill -9 does, and returns what it had still printed.
func (c *Child) Kill() (rest []string) {
	if c.cmd.ProcessState != nil {
		return nil
	}
	_ = c.cmd.Process.Kill()
	for line := c.Line(); line != ""; line = c.Line() {
		rest = append(rest, line)
	}
	c.Wait()
	return rest
}
