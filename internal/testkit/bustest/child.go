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
	"strconv"
	"strings"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/testkit/dbtest"
)

// Environment variables that make a test binary run as a child program, which a test can
// kill.
const (
	ChildRole = "LILAC_TEST_CHILD"
	ChildDir  = "LILAC_TEST_DIR"
	ChildWho  = "LILAC_TEST_CONSUMER"
)

// ChildLease is the lease of a child's deliveries.
const ChildLease = 700 * time.Millisecond

// ChildGroup returns the subscription of a child.
func ChildGroup() bus.Subscription {
	return bus.Subscription{Topic: Topic, Group: "g", Consumer: os.Getenv(ChildWho), Lease: ChildLease, Timeout: time.Hour}
}

// AwaitHeartbeats waits until a child has renewed its only delivery for more than three
// leases. The child must have received the delivery at or after since.
func AwaitHeartbeats(t testing.TB, dir string, since time.Time) {
	t.Helper()
	until(t, "heartbeats keep the delivery", func() bool { return LeaseEnd(t, dir).After(since.Add(4 * ChildLease)) })
}

// LeaseEnd returns the end of the lease of a child's only delivery. It works while the
// child is running.
func LeaseEnd(t testing.TB, dir string) time.Time {
	t.Helper()
	if dbtest.Postgres() {
		end, err := strconv.ParseInt(dbtest.Ask(t, dir, "SELECT lease_until FROM bus_pending"), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return time.UnixMilli(end)
	}
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

// RunChild runs the role that [StartChild] requested, and reports whether there was one.
// TestMain calls it first. open opens the engine; publish implements the role "publish",
// which differs between engines.
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

// childConsume prints each delivery and never finishes its handler.
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

// Child is a child process with its output.
type Child struct {
	cmd *exec.Cmd
	in  *bufio.Scanner
}

// StartChild starts this binary as a child with the given role, and waits until its
// engine is open. wrap is a command prefix, such as strace. The child is killed when the
// test ends.
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

// Line returns the child's next output line, or "" when the child has exited.
func (c *Child) Line() string {
	if !c.in.Scan() {
		return ""
	}
	return strings.TrimSpace(c.in.Text())
}

// Wait waits until the child exits by itself.
func (c *Child) Wait() { _ = c.cmd.Wait() }

// Kill stops the child with SIGKILL and returns the rest of its output.
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
