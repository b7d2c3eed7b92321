package session_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/model/llm"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/effort"
)

// crashLoop runs one request that stops the process soon after it is resumed among n others
// whose model calls last long. It restarts the process until that request has ended or it was
// stopped 12 times, then lets the others finish. It returns all requests, that one first.
func crashLoop(t *testing.T, n int) (requests []session.Request, stops int) {
	rng := rand.New(rand.NewPCG(1, 2))
	root, dir := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		id := func(i int) string { return fmt.Sprintf("web:s%d:r", i) }
		asked, finish := make(chan struct{}, 1), make(chan struct{})
		do := func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
			if lastUser(req) == id(0) {
				asked <- struct{}{}
				<-ctx.Done()
				return chat.Message{}, ctx.Err()
			}
			say("working: ")
			select {
			case <-ctx.Done():
				return chat.Message{}, ctx.Err()
			case <-finish:
				return chat.Text(chat.Assistant, "working: done"), nil
			}
		}
		start := func() *rig {
			return newRig(t, rigOptions{dir: dir, do: do, change: func(o *session.Options) { o.Trial = session.DefaultTrial }})
		}
		read := func(r *rig, i int) (req session.Request) {
			r.read(func(q db.Queryer) (err error) {
				req, err = r.store.Requests.Request(q, id(i))
				return err
			})
			return req
		}
		r := start()
		for i := range n + 1 {
			r.publishTo(fmt.Sprint("s", i), id(i), "cmd:"+id(i), event.RequestMessage{
				Queue: event.Prompt, MessageID: "m" + id(i), Messages: []chat.Message{chat.Text(chat.User, id(i))},
			})
		}
		for stops < 12 {
			gaveUp := false
			select {
			case <-asked:
			case <-time.After(20 * time.Minute):
				gaveUp = true
			}
			if gaveUp || read(r, 0).State.Ended() {
				break
			}
			time.Sleep(60*time.Millisecond + time.Duration(rng.Int64N(int64(1900*time.Millisecond))))
			synctest.Wait() // nothing is being written
			dir = filepath.Join(root, fmt.Sprint(stops))
			if err := os.CopyFS(dir, os.DirFS(r.dir)); err != nil {
				t.Fatal(err)
			}
			_ = os.Remove(filepath.Join(dir, "lilac.db.lock"))
			stops++
			r.stop()
			r = start()
		}
		close(finish)
		for i := range n + 1 {
			requests = append(requests, r.waitForEnd(id(i)))
		}
		r.stop()
	})
	return requests, stops
}

// TestControlWithoutTurnsACrashLoopFailsOthers is its control.
func TestOnlyTheCauseOfACrashLoopEndsWithIt(t *testing.T) {
	effort.SkipSlow(t)
	dbtest.FileOnly(t) // it copies the file after every crash
	requests, stops := crashLoop(t, 20)
	if first := requests[0]; first.State != event.StateFailed || !strings.Contains(first.Detail, "given up") {
		t.Errorf("the cause ended as %s: %s", first.State, first.Detail)
	}
	for _, req := range requests[1:] {
		if req.State != event.StateDone {
			t.Errorf("%s ended as %s: %s", req.ID, req.State, req.Detail)
		}
	}
	if stops > 8 {
		t.Errorf("the program was stopped %d times", stops)
	}
	t.Logf("%d stops", stops)
}

// A request that waits for its turn is known to run, and can be cancelled at once.
func TestARequestThatWaitsForItsTurnCanBeCancelled(t *testing.T) {
	dbtest.FileOnly(t) // it copies the file after every commit
	root, dir := t.TempDir(), t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		asked := make(chan struct{}, 4)
		do := func(ctx context.Context, _ llm.Request, _ func(string)) (chat.Message, error) {
			asked <- struct{}{}
			<-ctx.Done()
			return chat.Message{}, ctx.Err()
		}
		r := newRig(t, rigOptions{dir: dir, do: do})
		r.send("web:s1:r1", "m1", event.Prompt, "one")
		for i := range 2 {
			<-asked
			synctest.Wait()
			dir = filepath.Join(root, fmt.Sprint(i))
			if err := os.CopyFS(dir, os.DirFS(r.dir)); err != nil {
				t.Fatal(err)
			}
			r.stop()
			r = newRig(t, rigOptions{dir: dir, do: do})
		}
		waitUntil(t, "it waits", func() bool { return r.svc.IsRunning("web:s1:r1") })
		synctest.Wait()
		if n := r.svc.Active(); n != 0 {
			t.Fatalf("%d runs, although the request waits", n)
		}
		if n := session.WaitingTurns(r.svc); n != 1 {
			t.Errorf("%d requests are said to wait, want 1", n)
		}
		begun := time.Now()
		r.cancel("web:s1:r1", false)
		if req := r.waitForEnd("web:s1:r1"); req.State != event.StateCancelled || time.Since(begun) > time.Second {
			t.Errorf("ended as %s after %s", req.State, time.Since(begun))
		}
		r.output("web:s1:r1")
		r.stop()
	})
}
