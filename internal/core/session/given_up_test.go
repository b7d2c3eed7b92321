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
// request is given up. It returns the process that gave it up.
func untilGivenUp(t *testing.T, do script) *rig {
	t.Helper()
	r, _ := crashUntilGivenUp(t, func(began func()) rigOptions {
		hangs := &repeatable{counter{do: func(ctx context.Context) error { began(); <-ctx.Done(); return ctx.Err() }}}
		return rigOptions{do: do, tools: []tool.Tool{hangs}}
	})
	return r
}

// crashUntilGivenUp lets the process crash whenever it has begun what it hangs in, until the
// request web:s1:r1 is given up. It returns the process that gave it up, and how many crashed.
// On a busy machine, the request may pass a trial before the crash; then it takes more crashes.
func crashUntilGivenUp(t *testing.T, hanging func(began func()) rigOptions) (r *rig, crashes int) {
	t.Helper()
	dbtest.FileOnly(t) // it copies the file after every commit
	dir := t.TempDir()
	for life := range 30 {
		shots := &snapshots{t: t, root: t.TempDir(), src: dir}
		began := make(chan struct{})
		o := hanging(func() { close(began) })
		o.dir, o.onCommit = dir, shots.commit
		r := newRig(t, o)
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
			return r, life
		}
		note := fmt.Sprint("f", life)
		r.send("web:s1:r1", note, event.FollowUp, "touch") // causes one more commit
		waitUntil(t, "touched", func() bool { return r.mail(note) != "" })
		shots.set(false)
		r.stop()
		dir = shots.dirs[len(shots.dirs)-1]
	}
	t.Fatal("the request was never given up")
	return nil, 0
}
