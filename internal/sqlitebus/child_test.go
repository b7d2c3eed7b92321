package sqlitebus_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lilac/internal/bus"
	"lilac/internal/bustest"
	"lilac/internal/db"
	"lilac/internal/sqlitebus"
)

// The variables that tell this binary, started again, to be a program that a
// test can kill.
const (
	childRole = "LILAC_TEST_CHILD"
	childDir  = "LILAC_TEST_DIR"
	childSync = "LILAC_TEST_SYNC"
	childFrom = "LILAC_TEST_FROM"
	childWho  = "LILAC_TEST_CONSUMER"
)

// runChild does what a test asked this binary for when it started it again.
func runChild() bool {
	role := map[string]func(*db.DB, *sqlitebus.Bus) error{
		"publish": childPublish, "consume": childConsume, "exit": childExit,
	}[os.Getenv(childRole)]
	if role == nil {
		return false
	}
	ctx := context.Background()
	database, err := db.Open(ctx, db.Options{
		Dir: os.Getenv(childDir), Migrations: sqlitebus.Migrations, Synchronous: os.Getenv(childSync),
	})
	if err == nil {
		var b *sqlitebus.Bus
		if b, err = sqlitebus.New(database, sqlitebus.Options{}); err == nil {
			fmt.Println("ready")
			err = role(database, b)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return true
}

// childPublish publishes for ever with eight publishers and prints each id
// once it is acknowledged.
func childPublish(_ *db.DB, b *sqlitebus.Bus) error {
	from, _ := strconv.Atoi(os.Getenv(childFrom))
	most, _ := strconv.Atoi(os.Getenv("LILAC_TEST_MOST"))
	var all sync.WaitGroup
	for w := range 8 {
		all.Go(func() {
			for i := 0; most == 0 || i < most; i++ {
				id := fmt.Sprintf("e-%d-%d-%d", from, w, i)
				if err := b.Publish(context.Background(), bustest.Event(bustest.Topic, id, "l")); err != nil {
					return
				}
				os.Stdout.WriteString(id + "\n")
			}
		})
	}
	all.Wait()
	return nil
}

// childConsume prints each delivery and never finishes it.
func childConsume(_ *db.DB, b *sqlitebus.Bus) error {
	return b.Subscribe(context.Background(), childGroup(), func(ctx context.Context, d bus.Delivery) error {
		fmt.Println(d.ID, d.Attempt)
		<-ctx.Done()
		return nil
	})
}

// childExit ends the process in the handler.
func childExit(_ *db.DB, b *sqlitebus.Bus) error {
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
	out io.ReadCloser
	in  *bufio.Scanner
}

func startChild(t testing.TB, dir, role string, wrap []string, env ...string) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := append(wrap, exe)
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Env = append(append(os.Environ(), childRole+"="+role, childDir+"="+dir), env...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c := &child{cmd: cmd, out: out, in: bufio.NewScanner(out)}
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

// kill ends the child as a power button would end a process, and returns what
// it had still printed.
func (c *child) kill() (rest []string) {
	if c.cmd.ProcessState != nil {
		return nil
	}
	c.cmd.Process.Kill()
	for line := c.line(); line != ""; line = c.line() {
		rest = append(rest, line)
	}
	c.cmd.Wait()
	return rest
}
