package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/agent/tool"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/effort"
)

// loops is a model that calls the tool forever.
func loops(_ context.Context, req llm.Request, _ func(string)) (chat.Message, error) {
	return callCount(fmt.Sprintf("c%d", len(req.Messages))), nil
}

// noon returns a time zone in which it is now about noon, so that no test crosses midnight.
func noon() *time.Location { return time.FixedZone("noon", (12-time.Now().UTC().Hour())*60*60) }

// looping returns a rig with the model do. Each step uses 15 tokens and 15 millionths of a dollar,
// and advances the rig's clock by one minute. The day does not change during a test.
func looping(t *testing.T, dir string, do script, limits session.Limits) *rig {
	t.Helper()
	var clock atomic.Int64
	tools := &counter{do: func(context.Context) error { clock.Add(int64(time.Minute)); return nil }}
	return newRig(t, rigOptions{dir: dir, do: do, tools: []tool.Tool{tools}, change: func(o *session.Options) {
		model := &scripted{do: do, window: 1_000_000, price: &llm.Price{Input: 1, Output: 1}}
		o.Model = func(context.Context, session.Session) (llm.Model, error) { return model, nil }
		o.Settings.Limits = limits
		o.Settings.Limits.Zone = noon()
		o.Now = func() time.Time { return time.Now().Add(time.Duration(clock.Load())) }
		begun := time.Now()
		o.Awake = func() time.Duration { return time.Since(begun) + time.Duration(clock.Load()) }
	}})
}

func (r *rig) request(id string) (req session.Request) {
	r.t.Helper()
	r.read(func(q db.Queryer) (err error) {
		req, err = r.store.Requests.Request(q, id)
		return err
	})
	return req
}

// pauses waits until the session is paused with its n-th question.
func (r *rig) pauses(n int) session.Pause {
	r.t.Helper()
	var p *session.Pause
	waitUntil(r.t, fmt.Sprintf("pause %d", n), func() bool {
		_ = r.db.Read(context.Background(), func(q db.Queryer) error {
			s, err := r.store.Sessions.Session(q, sid)
			p = s.Paused
			return err
		})
		return p != nil && p.Number == n && r.svc.Active() == 0
	})
	return *p
}

func TestALoopingModelStopsWithinOneStepOfEachLimit(t *testing.T) {
	effort.SkipSlow(t)
	for name, b := range map[string]session.Budget{
		"steps": {Steps: 3}, "tokens": {Tokens: 40}, "money": {CostMicros: 40}, "time": {Time: 150 * time.Second},
	} {
		for scope, limits := range map[string]session.Limits{
			"request": {Request: b}, "session": {Session: b}, "day": {Day: b},
		} {
			t.Run(scope+"."+name, func(t *testing.T) {
				r := looping(t, "", loops, limits)
				r.send("web:s1:r1", "m1", event.Prompt, "go")
				p := r.pauses(1)
				if p.Limit != session.Limit(scope+"."+name) || p.Used < p.Allowed {
					t.Errorf("paused with %+v", p)
				}
				if steps := r.request("web:s1:r1").Steps; steps != 3 {
					t.Errorf("%d steps, want 3", steps)
				}
				texts := r.texts()
				if last := texts[len(texts)-1]; !strings.HasPrefix(last, "assistant: ") || !strings.HasSuffix(last, p.Question) {
					t.Errorf("the conversation ends with %q", last)
				}
				r.send("web:s1:r2", "m2", event.Prompt, "Continue.")
				again := r.pauses(2)
				allowed := again.Allowed
				if name == "time" { // stopping also takes time
					allowed = min(allowed, p.Used+p.More)
				}
				if steps := r.request("web:s1:r1").Steps; steps < 5 || steps > 6 || allowed != p.Used+p.More {
					t.Errorf("after the answer: %d steps, %+v", steps, again)
				}
				r.send("web:s1:r1", "m3", event.Steer, "stop")
				if req := r.waitForEnd("web:s1:r1"); req.State != event.StateCancelled || !strings.Contains(req.Detail, "limit") {
					t.Errorf("ended as %s: %s", req.State, req.Detail)
				}
				r.output("web:s1:r1")
				r.checkPaired()
			})
		}
	}
	t.Run("control: without a limit it goes on", func(t *testing.T) {
		r := looping(t, "", loops, session.Limits{})
		r.send("web:s1:r1", "m1", event.Prompt, "go")
		waitUntil(t, "20 steps", func() bool { return strings.Count(r.journal("web:s1:r1"), "model") >= 20 })
		r.cancel("web:s1:r1", false)
		r.waitForEnd("web:s1:r1")
	})
}

// One call may consume several times the limit; the answer still grants the full
// amount again.
func TestOneAnswerGrantsTheFullLimitHoweverFarItIsExceeded(t *testing.T) {
	for scope, limits := range map[string]session.Limits{
		"request": {Request: session.Budget{Tokens: 5}}, "session": {Session: session.Budget{Tokens: 5}}, "day": {Day: session.Budget{Tokens: 5}},
	} {
		t.Run(scope, func(t *testing.T) {
			r := looping(t, "", loops, limits)
			r.send("web:s1:r1", "m1", event.Prompt, "go")
			for pause := 1; pause <= 3; pause++ {
				p := r.pauses(pause)
				if steps := r.request("web:s1:r1").Steps; steps != pause || p.Used < p.Allowed+p.More {
					t.Fatalf("%d steps at the pause %+v", steps, p)
				}
				r.send("web:s1:r1", fmt.Sprint("continue", pause), event.Steer, "continue")
			}
		})
	}
}

// Consumption by other sessions during the pause does not reduce the granted amount.
func TestAnAnswerGrantsTheFullLimitWhateverOthersUsedMeanwhile(t *testing.T) {
	b := session.Budget{Steps: 3}
	for scope, c := range map[string]struct {
		limits  session.Limits
		spender string
		allowed int64
	}{
		"day":                {session.Limits{Day: b}, "other", 3 + 5 + 3},
		"session":            {session.Limits{Session: b}, sid, 3 + 5 + 3},
		"control: a request": {session.Limits{Request: b}, sid, 3 + 3},
	} {
		t.Run(scope, func(t *testing.T) {
			r := looping(t, "", loops, c.limits)
			r.send("web:s1:r1", "m1", event.Prompt, "go")
			r.pauses(1)
			err := r.db.Update(t.Context(), func(tx *db.Tx) error { return r.svc.Spend(tx, c.spender, session.Spent{Steps: 5}) })
			if err != nil {
				t.Fatal(err)
			}
			r.send("web:s1:r1", "m2", event.Steer, "continue")
			if p := r.pauses(2); p.Allowed != c.allowed || r.request("web:s1:r1").Steps != 6 {
				t.Errorf("%d steps, then %+v", r.request("web:s1:r1").Steps, p)
			}
		})
	}
}

// once is a model that calls the tool until a user answers "continue".
func once(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
	if session.AnswerOf([]chat.Message{chat.Text(chat.User, lastUser(req))}) == session.Continue {
		return chat.Text(chat.Assistant, "done"), nil
	}
	return loops(ctx, req, say)
}

func TestARestartDuringAPauseLosesNothing(t *testing.T) {
	dir := t.TempDir()
	limits := session.Limits{Request: session.Budget{Steps: 2}}
	r := looping(t, dir, once, limits)
	r.send("web:s1:r1", "m1", event.Prompt, "go")
	before := r.pauses(1)
	r.stop()
	r = looping(t, dir, once, limits)
	if d := cmp.Diff(before, r.pauses(1)); d != "" {
		t.Errorf("the pause changed (-want +got):\n%s", d)
	}
	r.send("web:s1:r1", "m2", event.Steer, "continue, but hurry")
	if req := r.waitForEnd("web:s1:r1"); req.State != event.StateDone || req.Steps != 3 || req.Recoveries != 0 {
		t.Errorf("%+v", req)
	}
	text, _ := r.output("web:s1:r1")
	if want := "counting\n\ncounting\n\n" + before.Question + "\n\ndone"; text != want {
		t.Errorf("text %q, want %q", text, want)
	}
	wantStates(t, r, "web:s1:r1", event.StateRunning, event.StateStreaming, event.StateStreaming, event.StateStreaming, event.StateDone)
}

func TestAPauseSurvivesACrashAtEveryCommit(t *testing.T) {
	effort.SkipSlow(t)
	dbtest.FileOnly(t) // it copies the file after every commit
	src := t.TempDir()
	shots := &snapshots{t: t, root: t.TempDir(), src: src, on: true}
	limits := func(o *session.Options) {
		o.Settings.Limits = session.Limits{Request: session.Budget{Steps: 1}}
	}
	r := newRig(t, rigOptions{dir: src, do: once, tools: []tool.Tool{&counter{}}, onCommit: shots.commit, change: limits})
	r.send("web:s1:r1", "m1", event.Prompt, "go")
	question := r.pauses(1).Question
	r.send("web:s1:r1", "m2", event.Steer, "continue")
	r.waitForEnd("web:s1:r1")
	shots.set(false)
	r.stop()
	for i, dir := range shots.dirs {
		t.Run(fmt.Sprintf("commit %d", i), func(t *testing.T) {
			r := newRig(t, rigOptions{dir: dir, do: once, tools: []tool.Tool{&counter{}}, change: limits})
			r.send("web:s1:r1", "m1", event.Prompt, "go")
			waitUntil(t, "the question was asked", func() bool { return strings.Contains(r.journal("web:s1:r1"), "paused") })
			r.send("web:s1:r1", "m2", event.Steer, "continue")
			if req := r.waitForEnd("web:s1:r1"); req.State != event.StateDone || req.Steps != 2 {
				t.Errorf("%+v", req)
			}
			want := []string{"user: go", "assistant: counting", "tool: ", "assistant: " + question, "user: continue", "assistant: done"}
			if d := cmp.Diff(want, r.texts()); d != "" {
				t.Errorf("history (-want +got):\n%s", d)
			}
			r.output("web:s1:r1")
		})
	}
}

func TestTwoAnswersCountOnce(t *testing.T) {
	answer := func(m *event.RequestMessage) { m.AnswersPause = 1 }
	r := looping(t, "", loops, session.Limits{Request: session.Budget{Steps: 2}})
	r.send("web:s1:r1", "m1", event.Prompt, "go")
	r.pauses(1)
	r.send("web:s1:r1", "a1", event.Steer, "continue", answer)
	r.send("web:s1:r1", "a2", event.Steer, "continue", answer)
	r.send("web:s1:r1", "a3", event.Steer, "stop", answer)
	if p := r.pauses(2); p.Allowed != 4 {
		t.Errorf("two answers allowed %d steps, want 4", p.Allowed)
	}
	if n := strings.Count(strings.Join(r.texts(), "\n"), "user: "); n != 2 {
		t.Errorf("%d messages of people in the history, want 2: %q", n, r.texts())
	}
	t.Run("control: an answer to the new question counts", func(t *testing.T) {
		r.send("web:s1:r1", "a4", event.Steer, "continue", func(m *event.RequestMessage) { m.AnswersPause = 2 })
		if p := r.pauses(3); p.Allowed != 6 {
			t.Errorf("%d steps allowed, want 6", p.Allowed)
		}
	})
	r.cancel("web:s1:r1", true)
	if req := r.waitForEnd("web:s1:r1"); req.State != event.StateCancelled {
		t.Errorf("a cancel in the pause ended as %s", req.State)
	}
}

func TestAMessageThatIsNoAnswerWaitsAndTheQuestionIsRepeated(t *testing.T) {
	r := looping(t, "", once, session.Limits{Request: session.Budget{Steps: 2}})
	r.send("web:s1:r1", "m1", event.Prompt, "go")
	r.pauses(1)
	r.send("web:s1:r2", "m2", event.Prompt, "what is it?")
	waitUntil(t, "the question is shown again", func() bool { return len(r.questions()) == 2 })
	if q := r.questions(); q[0].Again || !q[1].Again || q[0].Question != q[1].Question {
		t.Errorf("questions %+v", q)
	}
	wantStates(t, r, "web:s1:r2", event.StateQueued)
	r.send("web:s1:r1", "m3", event.Steer, "go on")
	if req := r.waitForEnd("web:s1:r1"); req.State != event.StateDone {
		t.Errorf("r1 ended as %s", req.State)
	}
	r.pauses(1) // the second request also loops
	r.cancel("web:s1:r2", false)
	r.waitForEnd("web:s1:r2")
}

func TestOnlyTheAuthorOfTheRequestMayAnswer(t *testing.T) {
	r := looping(t, "", once, session.Limits{Request: session.Budget{Steps: 1}})
	says := func(user, text string) string {
		return fmt.Sprintf("[discord user_id=%s user_name=x message_id=1]\n%s", user, text)
	}
	r.send("web:s1:r1", "m1", event.Prompt, says("1", "go"))
	r.pauses(1)
	r.send("web:s1:r1", "m2", event.Steer, says("2", "stop"))
	waitUntil(t, "the question is shown again", func() bool { return len(r.questions()) == 2 })
	if req := r.request("web:s1:r1"); req.State.Ended() {
		t.Errorf("another person ended it: %s", req.Detail)
	}
	r.send("web:s1:r1", "m3", event.Steer, says("1", "stop"))
	if req := r.waitForEnd("web:s1:r1"); req.State != event.StateCancelled {
		t.Errorf("ended as %s", req.State)
	}
}

func (r *rig) questions() (out []event.SessionPausedPayload) {
	r.t.Helper()
	for _, e := range r.events(event.TopicEnv) {
		if e.Type != event.SessionPaused {
			continue
		}
		var env event.EnvEvent
		var p event.SessionPausedPayload
		if err := json.Unmarshal(e.Data, &env); err != nil {
			r.t.Fatal(err)
		}
		if err := json.Unmarshal(env.Payload, &p); err != nil {
			r.t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}

func TestAnUnansweredPauseFailsTheRequest(t *testing.T) {
	effort.SkipSlow(t)
	for name, restart := range map[string]bool{"while the program runs": false, "while it does not": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			limits := session.Limits{Request: session.Budget{Steps: 1}, Wait: time.Second}
			if restart {
				limits.Wait = time.Hour
			}
			r := looping(t, dir, loops, limits)
			r.send("web:s1:r1", "m1", event.Prompt, "go")
			if restart {
				r.pauses(1)
				r.stop()
				r = newRig(t, rigOptions{dir: dir, change: func(o *session.Options) {
					o.Now = func() time.Time { return time.Now().Add(2 * time.Hour) }
				}})
			}
			req := r.waitForEnd("web:s1:r1")
			if req.State != event.StateFailed || req.ErrorKind != fault.LimitReached || !strings.Contains(req.Detail, "Nobody answered") {
				t.Errorf("ended as %s (%s): %s", req.State, req.ErrorKind, req.Detail)
			}
			r.output("web:s1:r1")
		})
	}
}

func TestADailyLimitIsExceededByAtMostOneStepPerRequest(t *testing.T) {
	const limit, running = 20, 8
	r := looping(t, "", loops, session.Limits{Day: session.Budget{Steps: limit}})
	for i := range running {
		s := fmt.Sprintf("x%d", i)
		e, err := event.New(event.Meta{ID: s, Time: time.Now(), Headers: event.RequestHeaders("web:"+s+":r", s, "web")},
			event.RequestMessage{Queue: event.Prompt, MessageID: "m", Messages: []chat.Message{chat.Text(chat.User, "go")}})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.bus.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	waitUntil(t, "all ask", func() bool { return len(r.questions()) == running && r.svc.Active() == 0 })
	var used session.Spent
	r.read(func(q db.Queryer) (err error) {
		used, err = r.store.Usage.SpentOn(q, time.Now().In(noon()).Format(time.DateOnly))
		return err
	})
	if used.Steps < limit || used.Steps > limit+running {
		t.Errorf("%d steps, the limit is %d and %d ran", used.Steps, limit, running)
	}
}

func TestAnswers(t *testing.T) {
	for text, want := range map[string]session.Answer{
		"continue": session.Continue, " Continue! ": session.Continue, "go  on": session.Continue, "OK": session.Continue, "yes.": session.Continue,
		"continue, but only with the first file": session.Continue, "/stop": session.Stop, "STOP!": session.Stop, "no": session.Stop,
		"[discord user_id=1 user_name=ann message_id=7]\nyes": session.Continue, "[discord user_id=1]\nyes": session.NoAnswer,
		"[discord user_id=1 user_name=ann message_id=7]\n(in reply to bob: \"all (of it)\")\nyes": session.Continue,
		"": session.NoAnswer, "continued": session.NoAnswer, "stop it from happening": session.NoAnswer, "what does it cost?": session.NoAnswer,
		"continue " + strings.Repeat("x", 600): session.NoAnswer,
	} {
		if got := session.AnswerOf([]chat.Message{chat.Text(chat.User, text)}); got != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	if got := session.AuthorOf([]chat.Message{chat.Text(chat.User, "[discord user_id=1 user_name=ann message_id=7]\nyes"), chat.Text(chat.User, "no")}); got != "1" {
		t.Errorf("the author is %q", got)
	}
	if got := session.AnswerOf([]chat.Message{chat.Text(chat.Assistant, "stop")}); got != session.NoAnswer {
		t.Errorf("an assistant's word is %q", got)
	}
}

// A message is an answer only if it answers the open pause and its author is allowed to answer.
func TestIsAnswer(t *testing.T) {
	paused := func(asker string) session.State {
		return session.State{Active: &session.Active{RequestID: "r", Asker: asker, Paused: &session.Pause{Number: 1}}}
	}
	ann := "[discord user_id=1 user_name=ann message_id=7]\n"
	for name, c := range map[string]struct {
		state session.State
		said  []chat.Message
		want  bool
	}{
		"a word":                     {paused(""), []chat.Message{chat.Text(chat.User, "continue")}, true},
		"more than a word":           {paused(""), []chat.Message{chat.Text(chat.User, "Tuesday")}, false},
		"behind something else":      {paused(""), []chat.Message{chat.Text(chat.System, "x"), chat.Text(chat.User, "continue")}, false},
		"of the one who asked":       {paused("1"), []chat.Message{chat.Text(chat.User, ann+"stop")}, true},
		"of another one":             {paused("2"), []chat.Message{chat.Text(chat.User, ann+"stop")}, false},
		"of nobody knows whom":       {paused("2"), []chat.Message{chat.Text(chat.User, "stop")}, false},
		"while it works":             {session.State{Active: &session.Active{RequestID: "r"}}, []chat.Message{chat.Text(chat.User, "continue")}, false},
		"while there is no question": {session.State{}, []chat.Message{chat.Text(chat.User, "continue")}, false},
	} {
		if got := c.state.IsAnswer(c.said); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestADailyLimitIsResetAtMidnightOfItsTimeZone(t *testing.T) {
	zone := time.FixedZone("far east", 9*60*60)
	var clock atomic.Int64 // 23:50 in the zone, which is the afternoon in UTC
	clock.Store(time.Date(2026, 3, 1, 23, 50, 0, 0, zone).UnixMilli())
	r := newRig(t, rigOptions{do: loops, tools: []tool.Tool{&counter{}}, change: func(o *session.Options) {
		o.Settings.Limits = session.Limits{Day: session.Budget{Steps: 2}, Zone: zone}
		o.Now = func() time.Time { return time.UnixMilli(clock.Load()) }
	}})
	for i, c := range []struct {
		later time.Duration
		steps int
	}{
		{0, 2},
		{5 * time.Minute, 0}, // control: on the same day, no budget is left
		{10 * time.Minute, 2},
	} {
		clock.Add(c.later.Milliseconds())
		id := fmt.Sprintf("web:s1:r%d", i)
		r.send(id, fmt.Sprint("m", i), event.Prompt, "go")
		if p := r.pauses(1); p.Limit != "day.steps" {
			t.Errorf("paused at %s", p.Limit)
		}
		if got := r.request(id).Steps; got != c.steps {
			t.Errorf("request %d took %d steps, want %d", i, got, c.steps)
		}
		r.cancel(id, false)
		r.waitForEnd(id)
	}
}
