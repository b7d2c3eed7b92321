package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/agent/tool"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/policy"
	"lilac/internal/model/llm"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/effort"
)

const req1 = "web:s1:r1"

// counts is a model that calls the tool once for each "go", and then says what it got.
func counts(_ context.Context, req llm.Request, say func(string)) (chat.Message, error) {
	wanted, text := 0, ""
	for _, m := range req.Messages {
		switch {
		case m.Role == chat.User && m.Text() == "go":
			wanted++
		case m.Role == chat.Tool:
			text, _ = m.ToolResults()[0].OutputText()
			wanted--
		}
	}
	if wanted > 0 {
		return callCount(fmt.Sprintf("c%d", len(req.Messages))), nil
	}
	say("got " + text)
	return chat.Text(chat.Assistant, "got "+text), nil
}

// asking changes the options of a service so that a person has to approve each call.
func asking(rule *atomic.Value, approvers ...string) func(*session.Options) {
	return func(o *session.Options) {
		o.Policy = fakePolicy{permit: func(c session.PolicyCall) policy.Decision {
			d := policy.Decision{Verdict: policy.Ask, Approvers: approvers, Rule: "rule", Position: 1}
			if rule != nil && rule.Load() != nil {
				d = rule.Load().(policy.Decision)
			}
			return d
		}}
	}
}

func from(p grant.Person) func(*event.RequestMessage) {
	return func(m *event.RequestMessage) { m.Grant = grant.By(p) }
}

var operator = grant.Person{ID: grant.Operator}

func (r *rig) state() (s session.State) {
	r.t.Helper()
	r.read(func(q db.Queryer) (err error) {
		s, err = tables().States.State(q, sid)
		return err
	})
	return s
}

func TestACallThatNeedsApprovalWaits(t *testing.T) {
	for name, c := range map[string]struct {
		answer string
		want   string
		runs   int
	}{
		"once":   {"Yes.", "got counted 1", 1},
		"always": {"always here", "got counted 1", 1},
		"no":     {"no", "got Not run: count needs an approval, and a person said no.", 0},
	} {
		t.Run(name, func(t *testing.T) {
			tools := &counter{}
			r := newRig(t, rigOptions{do: counts, tools: []tool.Tool{tools}, change: asking(nil)})
			r.send(req1, "m1", event.Prompt, "go", from(operator))
			p := r.pauses(1)
			if p.Kind != session.ForApproval || p.Call.Tool != "count" || p.Call.Input != "{}" || !strings.Contains(p.Question, p.Call.Hash[:16]) || tools.runs != 0 {
				t.Fatalf("paused with %+v after %d runs", p, tools.runs)
			}
			r.send(req1, "m2", event.Steer, "what is this about?", from(operator)) // not an answer
			r.send(req1, "m3", event.Steer, c.answer, from(operator))
			if req := r.waitForEnd(req1); req.State != event.StateDone {
				t.Fatalf("ended as %s: %s", req.State, req.Detail)
			}
			text, _ := r.output(req1)
			if !strings.Contains(text, c.want) || tools.runs != c.runs {
				t.Errorf("%d runs, and the text %q", tools.runs, text)
			}
			all := strings.Join(r.texts(), "\n")
			if strings.Contains(all, "May I") || strings.Contains(text, "May I") || strings.Contains(all, "user: "+c.answer) || !strings.Contains(all, "what is this about?") {
				t.Errorf("the conversation is\n%s", all)
			}
			r.checkPaired()
			if q := r.questions(); len(q) != 2 || q[0].Call == nil || q[0].Kind != "approval" || !q[1].Again {
				t.Errorf("asked %+v", q)
			}
		})
	}
}

func TestAlwaysHoldsInTheSessionForTheSameRule(t *testing.T) {
	var rule atomic.Value
	tools := &counter{}
	r := newRig(t, rigOptions{do: counts, tools: []tool.Tool{tools}, change: asking(&rule)})
	r.send(req1, "m1", event.Prompt, "go", from(operator))
	r.pauses(1)
	r.send(req1, "m2", event.Steer, "always", from(operator))
	r.waitForEnd(req1)
	r.send("web:s1:r2", "m3", event.Prompt, "go", from(operator))
	r.waitForEnd("web:s1:r2")
	if tools.runs != 2 {
		t.Fatalf("%d runs", tools.runs)
	}
	// Another rule asks again, and a deny wins over the approval.
	rule.Store(policy.Decision{Verdict: policy.Ask, Rule: "another"})
	r.send("web:s1:r3", "m4", event.Prompt, "go", from(operator))
	r.pauses(1)
	rule.Store(policy.Decision{Verdict: policy.Deny, Rule: "third", Position: 3})
	r.send("web:s1:r3", "m5", event.Steer, "once", from(operator))
	r.waitForEnd("web:s1:r3")
	if text, _ := r.output("web:s1:r3"); tools.runs != 2 || !strings.Contains(text, "The policy (rule 3) does not allow count here.") {
		t.Errorf("%d runs, and the text %q", tools.runs, text)
	}
	// Revoked, it asks again.
	rule.Store(policy.Decision{Verdict: policy.Ask, Rule: "rule"})
	if err := r.svc.Approvals().Revoke(t.Context(), sid, "count"); err != nil {
		t.Fatal(err)
	}
	r.send("web:s1:r4", "m6", event.Prompt, "go", from(operator))
	r.pauses(1)
	r.cancel("web:s1:r4", false)
	r.waitForEnd("web:s1:r4")
	r.checkPaired()
}

func TestOnlyPermittedPeopleApprove(t *testing.T) {
	tools := &counter{}
	r := newRig(t, rigOptions{do: counts, tools: []tool.Tool{tools}, change: asking(nil, "role:1")})
	ann := grant.Person{ID: "5", Roles: []string{"2"}, RolesKnown: true}
	r.send(req1, "m1", event.Prompt, "go", from(ann))
	r.pauses(1)
	r.send(req1, "m2", event.Steer, "yes", from(ann))
	r.send(req1, "m3", event.Steer, "yes")                                                            // nobody knows who says it
	r.send(req1, "m4", event.Steer, "yes", from(grant.Person{ID: "6", Roles: []string{"1"}}))         // its roles are not known
	r.send(req1, "m5", event.Steer, "yes", from(ann), from(operator), func(m *event.RequestMessage) { // two authors
		m.Grant = grant.By(ann).And(grant.By(operator))
	})
	waitUntil(t, "all wait", func() bool { return r.mail("m5") == session.MailWaiting })
	if p := r.state().OpenPause(); p == nil || tools.runs != 0 {
		t.Fatalf("%+v after %d runs", p, tools.runs)
	}
	press := func(by grant.Person, pause int, a session.Answer) error {
		return r.db.Update(t.Context(), func(tx *db.Tx) error {
			req, err := tables().Requests.Request(tx, req1)
			if err != nil {
				return err
			}
			state, err := tables().States.State(tx, sid)
			if err != nil {
				return err
			}
			_, err = session.AnswerPause(tx, state.OpenQuestion(req), session.PauseAnswer{Pause: pause, Answer: a, By: by, Name: "@bob"})
			return err
		})
	}
	bob := grant.Person{ID: "6", Roles: []string{"1"}, RolesKnown: true}
	for _, c := range []struct {
		by    grant.Person
		pause int
		a     session.Answer
		want  fault.Kind
	}{
		{ann, 1, session.Once, fault.Denied},
		{grant.Person{}, 1, session.Once, fault.Denied},
		{bob, 2, session.Once, fault.Conflict},
		{bob, 1, session.Continue, fault.Invalid},
		{bob, 1, session.Replied, fault.Invalid},
	} {
		if err := press(c.by, c.pause, c.a); fault.KindOf(err) != c.want {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if err := press(bob, 1, session.No); err != nil {
		t.Fatal(err)
	}
	r.waitForEnd(req1)
	if text, _ := r.output(req1); !strings.Contains(text, "@bob said no") {
		t.Errorf("the text is %q", text)
	}
	if err := press(bob, 1, session.Once); fault.KindOf(err) != fault.Conflict {
		t.Errorf("a button of an old question: %v", err)
	}
}

func TestAnApprovalTimesOutVisibly(t *testing.T) {
	tools := &counter{}
	r := newRig(t, rigOptions{do: counts, tools: []tool.Tool{tools}, change: func(o *session.Options) {
		asking(nil)(o)
		o.Settings.Limits.Wait = 20 * time.Millisecond
	}})
	r.send(req1, "m1", event.Prompt, "go", from(operator))
	if req := r.waitForEnd(req1); req.State != event.StateDone || tools.runs != 0 {
		t.Errorf("ended as %s after %d runs", req.State, tools.runs)
	}
	if text, _ := r.output(req1); !strings.Contains(text, "nobody answered in time") {
		t.Errorf("the text is %q", text)
	}
	r.checkPaired()
}

func TestNobodyIsAskedWhereNobodyAnswers(t *testing.T) {
	tools := &counter{}
	r := newRig(t, rigOptions{do: counts, tools: []tool.Tool{tools}, change: func(o *session.Options) {
		asking(nil)(o)
		o.Surfaces = fakeSurfaces{unattended: true}
	}})
	r.send(req1, "m1", event.Prompt, "go", from(operator))
	r.waitForEnd(req1)
	if text, _ := r.output(req1); tools.runs != 0 || !strings.Contains(text, "nobody can be asked here") {
		t.Errorf("%d runs, and the text %q", tools.runs, text)
	}
}

func TestACancelOfAWaitingCallClosesItsStep(t *testing.T) {
	r := newRig(t, rigOptions{do: counts, tools: []tool.Tool{&counter{}}, change: asking(nil)})
	r.send(req1, "m1", event.Prompt, "go", from(operator))
	r.pauses(1)
	r.cancel(req1, false)
	if req := r.waitForEnd(req1); req.State != event.StateCancelled {
		t.Errorf("ended as %s", req.State)
	}
	r.output(req1)
	r.checkPaired()
	if all := r.texts(); !slices.Contains(all, "assistant: counting") {
		t.Errorf("the conversation is %q", all)
	}
}

// kills copies the data directory after every commit and in the middle of each run of a tool,
// with the numbers of runs and of approvals until then.
type kills struct {
	snapshots
	runs, approvals atomic.Int64
	before, given   []int64
}

func (k *kills) take(done bool) {
	n := len(k.dirs)
	if k.commit(done); len(k.dirs) > n {
		k.before, k.given = append(k.before, k.runs.Load()), append(k.given, k.approvals.Load())
	}
}

// again is a tool that may be run again after a crash.
type again struct{ *counter }

func (a again) Spec() tool.Spec {
	s := a.counter.Spec()
	s.Idempotent = true
	return s
}

// A call that was approved runs once or never, whenever the process is killed. The control
// is the same tool, which is run again, without an approval.
func TestAnApprovedCallRunsOnceOrNeverThroughKills(t *testing.T) {
	effort.SkipSlow(t)
	dbtest.FileOnly(t)
	twice := func(t *testing.T, change func(*session.Options)) (doubled, done int) {
		k := &kills{snapshots: snapshots{t: t, root: t.TempDir(), src: t.TempDir(), on: true}}
		tools := again{&counter{do: func(context.Context) error {
			k.runs.Add(1)
			k.take(true)
			return nil
		}}}
		asks := change != nil
		talk := func(r *rig) {
			r.send(req1, "m1", event.Prompt, "go", from(operator))
			if asks {
				waitUntil(t, "the question or the end", func() bool {
					s := r.state()
					return s.OpenPause() != nil || slices.Contains(s.Ended, req1) || s.Active != nil && s.Active.Pauses > 0
				})
				r.send(req1, "m2", event.Steer, "once", from(operator), func(m *event.RequestMessage) { m.AnswersPause = 1 })
			}
			if req := r.waitForEnd(req1); req.State != event.StateDone {
				t.Errorf("ended as %s: %s", req.State, req.Detail)
			}
		}
		r := newRig(t, rigOptions{dir: k.src, do: counts, tools: []tool.Tool{tools}, onCommit: k.take, change: change})
		talk(r)
		k.set(false)
		r.stop()
		for i, dir := range k.dirs {
			tools := &counter{}
			r := newRig(t, rigOptions{dir: dir, do: counts, tools: []tool.Tool{again{tools}}, change: change})
			talk(r)
			r.checkPaired()
			r.output(req1)
			r.stop()
			if total := k.before[i] + int64(tools.runs); total > 1 {
				doubled++
			} else if total == 1 {
				done++
			}
		}
		if done == 0 {
			t.Error("the call never ran")
		}
		return doubled, done
	}
	if doubled, _ := twice(t, asking(nil)); doubled > 0 {
		t.Errorf("the call ran twice after %d kills", doubled)
	}
	t.Run("control: without an approval it runs again", func(t *testing.T) {
		if doubled, _ := twice(t, nil); doubled == 0 {
			t.Error("it never ran twice")
		}
	})
}

// command is a tool whose command calls a callable, as the tool server does.
func command(r **rig, effect func()) *counter {
	return &counter{do: func(ctx context.Context) error {
		err := (*r).svc.Approvals().Permit(ctx, req1, session.PolicyCall{SessionID: sid, Client: "web", Tool: "surface.messages.send", Input: json.RawMessage(`{"text":"hi"}`)})
		var f *fault.Error
		if errors.As(err, &f) {
			return fmt.Errorf("%s: %s", f.Code, f.Message)
		}
		if err == nil {
			effect()
		}
		return err
	}}
}

// repeats is a model that repeats a command that needed an approval, at most twice.
func repeats(_ context.Context, req llm.Request, say func(string)) (chat.Message, error) {
	last := req.Messages[len(req.Messages)-1]
	text := ""
	if last.Role == chat.Tool {
		text, _ = last.ToolResults()[0].OutputText()
	}
	if last.Role != chat.Tool || strings.Contains(text, "approval_needed") && len(req.Messages) < 8 {
		return callCount(fmt.Sprintf("c%d", len(req.Messages))), nil
	}
	say("got " + text)
	return chat.Text(chat.Assistant, "got "+text), nil
}

// onlyCallables asks about callables, and not about the tool whose command calls them.
func onlyCallables(o *session.Options) {
	o.Policy = fakePolicy{permit: func(c session.PolicyCall) policy.Decision {
		if c.Tool == "count" {
			return policy.Decision{Verdict: policy.Allow}
		}
		return policy.Decision{Verdict: policy.Ask, Rule: "rule"}
	}}
}

func TestACallOfARunningCommandIsRepeatedAfterTheApproval(t *testing.T) {
	for name, c := range map[string]struct {
		answer, want string
		effects      int64
	}{
		"once":   {"once", "got counted 2", 1},
		"always": {"always", "got counted 2", 1},
		"no":     {"no", "got The tool failed: rejected: Not run: surface.messages.send needs an approval, and a person said no.", 0},
	} {
		t.Run(name, func(t *testing.T) {
			var r *rig
			var effects atomic.Int64
			r = newRig(t, rigOptions{do: repeats, tools: []tool.Tool{command(&r, func() { effects.Add(1) })}, change: onlyCallables})
			r.send(req1, "m1", event.Prompt, "go", from(operator))
			p := r.pauses(1)
			if p.Call == nil || p.Call.Tool != "surface.messages.send" || p.Call.Input != `{"text":"hi"}` || effects.Load() != 0 {
				t.Fatalf("paused with %+v", p)
			}
			r.send(req1, "m2", event.Steer, c.answer, from(operator))
			r.waitForEnd(req1)
			if text, _ := r.output(req1); !strings.Contains(text, c.want) || effects.Load() != c.effects {
				t.Errorf("%d effects, and the text %q", effects.Load(), text)
			}
			r.checkPaired()
		})
	}
}

// An approval of a callable holds for one call, even if the process is killed anywhere and runs
// the command again. The control needs no approval.
func TestAnApprovalOfACallableIsUsedOnceThroughKills(t *testing.T) {
	effort.SkipSlow(t)
	dbtest.FileOnly(t)
	excess := func(t *testing.T, change func(*session.Options)) (found int) {
		k := &kills{snapshots: snapshots{t: t, root: t.TempDir(), src: t.TempDir(), on: true}}
		var r *rig
		r = newRig(t, rigOptions{dir: k.src, do: repeats, tools: []tool.Tool{again{command(&r, func() { k.runs.Add(1); k.take(true) })}}, change: change, onCommit: k.take})
		approveAll(r, &k.approvals)
		k.set(false)
		r.stop()
		for i, dir := range k.dirs {
			var r *rig
			var effects, approvals atomic.Int64
			r = newRig(t, rigOptions{dir: dir, do: repeats, tools: []tool.Tool{again{command(&r, func() { effects.Add(1) })}}, change: change})
			approveAll(r, &approvals)
			if k.before[i]+effects.Load() > max(1, k.given[i]+approvals.Load()) {
				found++
			}
			r.checkPaired()
			r.stop()
		}
		return found
	}
	if n := excess(t, onlyCallables); n > 0 {
		t.Errorf("after %d kills, the call ran more often than it was approved", n)
	}
	t.Run("control: without an approval it runs again", func(t *testing.T) {
		if excess(t, nil) == 0 {
			t.Error("it never ran twice")
		}
	})
}

// approveAll sends a prompt and approves once whatever the request asks, until it ends.
func approveAll(r *rig, approvals *atomic.Int64) {
	r.t.Helper()
	r.send(req1, "m1", event.Prompt, "go", from(operator))
	for n := 1; ; n++ { // after some kills, the model asks again
		ended := false
		waitUntil(r.t, "the question or the end", func() bool {
			s := r.state()
			if ended = slices.Contains(s.Ended, req1); ended {
				return true
			}
			p := s.OpenPause()
			if p == nil || p.Number < n {
				return false
			}
			n = p.Number
			return true
		})
		if ended {
			return
		}
		approvals.Add(1)
		r.send(req1, fmt.Sprintf("a%d", n), event.Steer, "once", from(operator), func(m *event.RequestMessage) { m.AnswersPause = n })
	}
}
