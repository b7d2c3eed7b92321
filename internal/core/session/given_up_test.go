package session_test

import (
	"context"
	"fmt"
	"testing"

	"lilac/internal/agent/tool"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/dbtest"
)

// repeatable is an idempotent tool: after a crash, the service runs it again.
type repeatable struct{ counter }

func (r *repeatable) Spec() tool.Spec {
	s := r.counter.Spec()
	s.Idempotent = true
	return s
}

// untilGivenUp lets the process crash in a tool call of the request web:s1:r1 until the
// request is given up. It returns the process that gave it up. On a busy machine, the
// request may pass a trial before the crash; then it takes more crashes.
func untilGivenUp(t *testing.T, do script) *rig {
	t.Helper()
	dbtest.FileOnly(t) // it copies the file after every commit
	dir := t.TempDir()
	for life := range 30 {
		shots := &snapshots{t: t, root: t.TempDir(), src: dir}
		began := make(chan struct{})
		hangs := &repeatable{counter{do: func(ctx context.Context) error { close(began); <-ctx.Done(); return ctx.Err() }}}
		r := newRig(t, rigOptions{dir: dir, do: do, tools: []tool.Tool{hangs}, onCommit: shots.commit})
		shots.set(true)
		r.send("web:s1:r1", "m1", event.Prompt, "go")
		var req session.Request
		runs := false
		waitUntil(t, "it runs again or is given up", func() bool {
			select {
			case <-began:
				runs = true
				return true
			default:
			}
			err := r.db.Read(context.Background(), func(q db.Queryer) (err error) {
				req, err = r.store.Requests.Request(q, "web:s1:r1")
				return err
			})
			return err == nil && req.State.Ended()
		})
		if !runs {
			return r
		}
		note := fmt.Sprint("f", life)
		r.send("web:s1:r1", note, event.FollowUp, "touch") // causes one more commit
		waitUntil(t, "touched", func() bool { return r.mail(note) != "" })
		shots.set(false)
		r.stop()
		dir = shots.dirs[len(shots.dirs)-1]
	}
	t.Fatal("the request was never given up")
	return nil
}
