package session_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"lilac/internal/agent/tool"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/effort"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(dbtest.OnRequest(m)) }

// TestSteeringSurvivesACrashAtEveryCommit sends a steer, a follow-up and a prompt while a tool runs.
// It takes a snapshot after every commit and restarts from each one. Every message must be in the
// history exactly once, and every request must end exactly once.
func TestSteeringSurvivesACrashAtEveryCommit(t *testing.T) {
	effort.SkipSlow(t)
	dbtest.FileOnly(t) // it copies the file after every commit
	src := t.TempDir()
	shots := &snapshots{t: t, root: t.TempDir(), src: src, on: true}
	began, release := make(chan struct{}), make(chan struct{})
	slow := &counter{do: func(context.Context) error { close(began); <-release; return nil }}
	send := func(r *rig) {
		r.send("web:s1:r1", "m2", event.Steer, "two")
		r.send("web:s1:r1", "m3", event.FollowUp, "three")
		r.send("web:s1:r4", "m4", event.Prompt, "four")
	}
	r := newRig(t, rigOptions{dir: src, do: busy, tools: []tool.Tool{slow}, onCommit: shots.commit})
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	<-began
	send(r)
	waitUntil(t, "all wait", func() bool { return r.mail("m4") == session.MailWaiting })
	close(release)
	r.waitForEnd("web:s1:r1")
	r.waitForEnd("web:s1:r4")
	shots.set(false)
	r.stop()
	for i, dir := range shots.dirs {
		t.Run(fmt.Sprintf("commit %d", i), func(t *testing.T) {
			r := newRig(t, rigOptions{dir: dir, do: busy, tools: []tool.Tool{&counter{}}})
			r.send("web:s1:r1", "m1", event.Prompt, "one")
			send(r)
			r.waitForEnd("web:s1:r1")
			r.waitForEnd("web:s1:r4")
			waitUntil(t, "the session is idle", func() bool {
				state := ""
				err := r.db.Read(context.Background(), func(q db.Queryer) error {
					s, err := r.store.Sessions.Session(q, sid)
					state = s.State
					return err
				})
				return err == nil && state == "idle" && r.mail("m2") == session.MailApplied && r.mail("m3") == session.MailApplied
			})
			all := strings.Join(r.texts(), "\n") + "\n"
			for _, text := range []string{"one", "two", "three", "four"} {
				if n := strings.Count(all, "user: "+text+"\n"); n != 1 {
					t.Errorf("%q is %d times in the history:\n%s", text, n, all)
				}
			}
			r.checkPaired()
			r.read(func(q db.Queryer) error {
				requests, err := r.store.Requests.Requests(q, sid, 0, "")
				for _, req := range requests {
					ends := 0
					for _, s := range r.states(req.ID) {
						if s.Ended() {
							ends++
						}
					}
					if ends != 1 || req.State != event.StateDone {
						t.Errorf("request %s is %s, with %d ends", req.ID, req.State, ends)
					}
					r.output(req.ID)
				}
				return err
			})
		})
	}
}
