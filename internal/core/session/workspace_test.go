package session_test

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"lilac/internal/agent/tool"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// placed is a counter that keeps the names of the workspaces in which it was called.
type placed struct {
	counter
	in []string
}

func (p *placed) Spec() tool.Spec { return again{&p.counter}.Spec() }

func (p *placed) Run(ctx context.Context, call tool.Call) (tool.Result, error) {
	p.mu.Lock()
	p.in = append(p.in, filepath.Base(call.Workspace))
	p.mu.Unlock()
	return p.counter.Run(ctx, call)
}

// A request works where it began, also after a restart with another configuration; the next one
// works where the configuration then says.
func TestARequestKeepsTheWorkspaceWithWhichItBegan(t *testing.T) {
	in := func(owner string) func(*session.Options) {
		return func(o *session.Options) { o.Surfaces = fakeSurfaces{workspaceOf: owner} }
	}
	dir := t.TempDir()
	began := make(chan struct{})
	first := &placed{counter: counter{do: func(ctx context.Context) error { close(began); <-ctx.Done(); return ctx.Err() }}}
	r := newRig(t, rigOptions{dir: dir, do: counts, tools: []tool.Tool{first}, change: in("mine")})
	r.send("web:s1:r1", "m1", event.Prompt, "go")
	<-began
	r.stop()

	second := &placed{}
	r = newRig(t, rigOptions{dir: dir, do: counts, tools: []tool.Tool{second}, change: in("other")})
	r.waitForEnd("web:s1:r1")
	r.send("web:s1:r2", "m2", event.Prompt, "go")
	r.waitForEnd("web:s1:r2")
	if got := append(first.in, second.in...); len(second.in) < 2 || second.in[0] != "mine" || second.in[len(second.in)-1] != "other" || slices.Contains(got, "") {
		t.Errorf("the tool worked in %q, want mine until the request ended, and then other", got)
	}
	r.read(func(q db.Queryer) error {
		for id, want := range map[string]string{"web:s1:r1": "mine", "web:s1:r2": "other"} {
			story, err := r.store.Requests.Story(q, id)
			if err != nil {
				return err
			}
			if got, known := session.WorkspaceOf(story.Entries); got != want || !known {
				t.Errorf("the journal of %s says %q (%v), want %s", id, got, known, want)
			}
		}
		return nil
	})
}
