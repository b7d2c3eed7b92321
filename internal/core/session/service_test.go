package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
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

func wantStates(t *testing.T, r *rig, id string, want ...event.RequestState) {
	t.Helper()
	if d := cmp.Diff(want, r.states(id)); d != "" {
		t.Errorf("states of %s (-want +got):\n%s", id, d)
	}
}

func TestPromptIsAnswered(t *testing.T) {
	r := newRig(t, rigOptions{})
	r.send("web:s1:r1", "m1", event.Prompt, "hello\nthere")
	req := r.waitForEnd("web:s1:r1")
	wantStates(t, r, "web:s1:r1", event.StateRunning, event.StateStreaming, event.StateDone)
	if d := cmp.Diff([]string{"user: hello\nthere", "assistant: echo: hello\nthere"}, r.texts()); d != "" {
		t.Errorf("history (-want +got):\n%s", d)
	}
	if text, _ := r.output("web:s1:r1"); text != "echo: hello\nthere" {
		t.Errorf("text %q", text)
	}
	if req.Steps != 1 || req.Usage.InputTokens != 10 || req.WokenBy != "cmd:m1" || req.Model != "test/script" {
		t.Errorf("request %+v", req)
	}
	r.read(func(q db.Queryer) error {
		s, err := r.store.Sessions.Session(q, sid)
		if s.Title != "hello there" || s.State != "idle" || s.ActiveRequest != "" || s.Client != "web" {
			t.Errorf("session %+v", s)
		}
		return err
	})
}

func TestPromptsAreFirstInFirstOut(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, rigOptions{do: func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
		<-release
		return echo(ctx, req, say)
	}})
	for i := range 4 {
		r.send(fmt.Sprintf("web:s1:r%d", i), fmt.Sprintf("m%d", i), event.Prompt, fmt.Sprint(i))
	}
	r.send("web:s1:r0", "m0", event.Prompt, "again") // a duplicate
	waitUntil(t, "all are queued", func() bool { return len(r.states("web:s1:r3")) == 1 })
	close(release)
	r.waitForEnd("web:s1:r3")
	var want []string
	for i := range 4 {
		want = append(want, fmt.Sprintf("user: %d", i), fmt.Sprintf("assistant: echo: %d", i))
	}
	if d := cmp.Diff(want, r.texts()); d != "" {
		t.Errorf("history (-want +got):\n%s", d)
	}
	wantStates(t, r, "web:s1:r2", event.StateQueued, event.StateRunning, event.StateStreaming, event.StateDone)
	for _, e := range r.events(event.TopicRequest) {
		if a, err := event.Decode(e); err == nil && e.Type == event.RequestMessageApplied && a.(event.MessageApplied).Offset != 0 {
			t.Errorf("%s is read behind %d bytes of an answer that is not its request's", a.(event.MessageApplied).MessageID, a.(event.MessageApplied).Offset)
		}
	}
}

// busy is a model that calls the tool once and then echoes all user messages.
func busy(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
	last := req.Messages[len(req.Messages)-1]
	if last.Role == chat.User && len(req.Messages) == 1 {
		return callCount("c1"), nil
	}
	var told []string
	for _, m := range req.Messages {
		if m.Role == chat.User {
			told = append(told, m.Text())
		}
	}
	return chat.Text(chat.Assistant, "told: "+strings.Join(told, ", ")), nil
}

func TestSteerIsAppliedAfterTheRunningTools(t *testing.T) {
	began, release := make(chan struct{}), make(chan struct{})
	tools := &counter{do: func(context.Context) error { close(began); <-release; return nil }}
	r := newRig(t, rigOptions{do: busy, tools: []tool.Tool{tools}})
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	<-began
	r.send("web:s1:r1", "m2", event.Steer, "two")
	r.send("web:s1:other", "m3", event.Steer, "three", func(m *event.RequestMessage) { m.AnyActive = true })
	waitUntil(t, "steers wait", func() bool { return r.mail("m3") == session.MailWaiting })
	close(release)
	r.waitForEnd("web:s1:r1")
	want := []string{"user: one", "assistant: counting", "tool: ", "user: two", "user: three", "assistant: told: one, two, three"}
	if d := cmp.Diff(want, r.texts()); d != "" {
		t.Errorf("history (-want +got):\n%s", d)
	}
	r.checkPaired()
	if n := strings.Count(r.journal("web:s1:r1"), "input"); n != 3 {
		t.Errorf("%d inputs in the journal, want 3", n)
	}
}

func (r *rig) mail(id string) (state session.MailState) {
	_ = r.db.Read(context.Background(), func(q db.Queryer) error {
		m, err := r.store.Mailbox.Mail(q, sid, id)
		state = m.State
		return err
	})
	return state
}

func (r *rig) journal(requestID string) string {
	r.t.Helper()
	var kinds []string
	r.read(func(q db.Queryer) error {
		story, err := r.store.Requests.Story(q, requestID)
		if fault.KindOf(err) == fault.NotFound {
			return nil // the request has not started
		}
		for _, e := range story.Entries {
			kinds = append(kinds, e.Kind)
		}
		return err
	})
	return strings.Join(kinds, " ")
}

func TestFollowUpContinuesTheSameRequest(t *testing.T) {
	asked, release := make(chan struct{}, 9), make(chan struct{})
	r := newRig(t, rigOptions{do: func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
		asked <- struct{}{}
		<-release
		return echo(ctx, req, say)
	}})
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	<-asked
	r.send("web:s1:r1", "m2", event.FollowUp, "two")
	waitUntil(t, "followUp waits", func() bool { return r.mail("m2") == session.MailWaiting })
	close(release)
	r.waitForEnd("web:s1:r1")
	wantStates(t, r, "web:s1:r1", event.StateRunning, event.StateStreaming, event.StateDone)
	if text, _ := r.output("web:s1:r1"); text != "echo: one\n\necho: two" {
		t.Errorf("text %q", text)
	}
}

func TestInterruptStopsTheModelNow(t *testing.T) {
	speaking := make(chan struct{})
	r := newRig(t, rigOptions{do: func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
		if lastUser(req) == "one" {
			say("I was saying")
			close(speaking)
			<-ctx.Done()
			return chat.Message{}, ctx.Err()
		}
		return echo(ctx, req, say)
	}})
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	<-speaking
	r.send("web:s1:r1", "m2", event.Interrupt, "two")
	r.waitForEnd("web:s1:r1")
	want := []string{"user: one", "assistant: I was saying", "user: two", "assistant: echo: two"}
	if d := cmp.Diff(want, r.texts()); d != "" {
		t.Errorf("history (-want +got):\n%s", d)
	}
	r.output("web:s1:r1")
}

func TestCancelEndsWithinASecondAndKeepsTheOutput(t *testing.T) {
	speaking := make(chan struct{})
	r := newRig(t, rigOptions{do: func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
		if lastUser(req) == "next" {
			return echo(ctx, req, say)
		}
		say("I was saying")
		close(speaking)
		<-ctx.Done()
		return chat.Message{}, ctx.Err()
	}})
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	<-speaking
	r.send("web:s1:r1", "m2", event.Steer, "next")
	waitUntil(t, "steer waits", func() bool { return r.mail("m2") == session.MailWaiting })
	begin := time.Now()
	r.cancel("web:s1:r1", false)
	req := r.waitForEnd("web:s1:r1")
	if d := time.Since(begin); d > 20*time.Second { // the limit in production is one second; a busy test machine needs more
		t.Errorf("cancel took %s", d)
	}
	if req.State != event.StateCancelled || req.Detail != "Stopped by a person." {
		t.Errorf("ended as %s %q", req.State, req.Detail)
	}
	if text, _ := r.output("web:s1:r1"); text != "I was saying" {
		t.Errorf("text %q", text)
	}
	// The steer that arrived too late is not lost.
	r.waitForEnd("web:s1:m2")
	if got := r.texts(); !slices.Contains(got, "assistant: echo: next") {
		t.Errorf("history %q", got)
	}
}

func TestCancelOfQueuedWork(t *testing.T) {
	asked := make(chan struct{})
	r := newRig(t, rigOptions{do: func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
		close(asked)
		<-ctx.Done()
		return chat.Message{}, ctx.Err()
	}})
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	<-asked
	r.send("web:s1:r2", "m2", event.Prompt, "two")
	waitUntil(t, "r2 is queued", func() bool { return len(r.states("web:s1:r2")) == 1 })
	r.cancel("web:s1:r1", true)
	r.waitForEnd("web:s1:r1")
	if req := r.waitForEnd("web:s1:r2"); req.State != event.StateCancelled {
		t.Errorf("r2 ended as %s", req.State)
	}
	r.output("web:s1:r2")
	wantStates(t, r, "web:s1:r2", event.StateQueued, event.StateCancelled)
	if got := r.mail("m2"); got != session.MailDiscarded {
		t.Errorf("mail of r2 is %s", got)
	}
}

func TestFailureIsVisibleAndTheNextRequestRuns(t *testing.T) {
	r := newRig(t, rigOptions{do: func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
		if lastUser(req) == "bad" {
			return chat.Message{}, fault.New(fault.Invalid, "The model does not like this.")
		}
		return echo(ctx, req, say)
	}})
	r.send("web:s1:r1", "m1", event.Prompt, "bad")
	r.send("web:s1:r2", "m2", event.Prompt, "good")
	if req := r.waitForEnd("web:s1:r1"); req.State != event.StateFailed || req.Detail != "The model does not like this." {
		t.Errorf("r1 ended as %s %q", req.State, req.Detail)
	}
	r.output("web:s1:r1")
	if req := r.waitForEnd("web:s1:r2"); req.State != event.StateDone {
		t.Errorf("r2 ended as %s", req.State)
	}
}

func TestAMalformedCommandBecomesADeadLetterAtOnce(t *testing.T) {
	r := newRig(t, rigOptions{})
	for id, data := range map[string]string{
		"shape":   `{"messages":7}`,
		"queue":   `{"queue":"bogus","messages":[{"role":"user","content":"hi"}],"messageId":"m1"}`,
		"nothing": `{"queue":"prompt","messages":[],"messageId":"m2"}`,
	} {
		e, err := event.New(event.Meta{ID: id, Time: time.Now(), Headers: event.RequestHeaders("web:s1:"+id, sid, "web")},
			event.RequestMessage{Queue: event.Prompt, Messages: []chat.Message{chat.Text(chat.User, "hi")}})
		if err != nil {
			t.Fatal(err)
		}
		e.Data = []byte(data)
		if err := r.bus.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	r.send("web:s1:good", "good", event.Prompt, "hello")
	if req := r.waitForEnd("web:s1:good"); req.State != event.StateDone {
		t.Errorf("the request behind them ended as %s", req.State)
	}
	letters, err := r.bus.DeadLetters(t.Context(), "", 10)
	if err != nil || len(letters) != 3 {
		t.Fatalf("dead letters %v, %v; want three", letters, err)
	}
	for _, l := range letters {
		if l.Attempts != 1 || l.Reason == "" {
			t.Errorf("%s was tried %d times, reason %q; want once and a reason", l.Event.ID, l.Attempts, l.Reason)
		}
	}
}

func TestSessionsBeyondTheMaximumWaitForAFreeSlot(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, rigOptions{change: func(o *session.Options) { o.MaxActive = 2 }, do: func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
		<-release
		return echo(ctx, req, say)
	}})
	for i := range 6 {
		id := fmt.Sprintf("x%d", i)
		e, err := event.New(event.Meta{ID: id, Time: time.Now(), Headers: event.RequestHeaders("web:"+id+":r", id, "web")},
			event.RequestMessage{Queue: event.Prompt, MessageID: id, Messages: []chat.Message{chat.Text(chat.User, id)}})
		if err != nil {
			t.Fatal(err)
		}
		if err := r.bus.Publish(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	waitUntil(t, "all were taken", func() bool {
		n := 0
		for i := range 6 {
			n += len(r.states(fmt.Sprintf("web:x%d:r", i)))
		}
		return n == 6
	})
	if n := r.svc.Active(); n != 2 {
		t.Errorf("%d run, want 2", n)
	}
	close(release)
	for i := range 6 {
		r.waitForEnd(fmt.Sprintf("web:x%d:r", i))
	}
}

func TestBlobsAreInlinedForTheModelOnly(t *testing.T) {
	got := make(chan string, 1)
	r := newRig(t, rigOptions{
		do: func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
			got <- string(req.Messages[0].Parts[1].Data)
			return echo(ctx, req, say)
		},
		change: func(o *session.Options) { o.Blobs = fakeBlobs("bytes") },
	})
	ref := json.RawMessage(`"blob:sha256:00"`)
	r.send("web:s1:r1", "m1", event.Prompt, "", func(m *event.RequestMessage) {
		m.Messages = []chat.Message{{Role: chat.User, Parts: []chat.Part{chat.TextPart("see"), {Type: chat.TypeFile, Data: ref, MediaType: "text/plain", Filename: "a.txt"}}}}
	})
	if data := <-got; data != `"Ynl0ZXM="` {
		t.Errorf("the model got %s", data)
	}
	r.waitForEnd("web:s1:r1")
	if data := string(r.history()[0].Message.Parts[1].Data); data != string(ref) {
		t.Errorf("the history holds %s", data)
	}
}

// TestACrashAtEveryCommitIsSurvived runs one request with a tool, takes a snapshot of the data after
// every commit, and restarts from each snapshot.
func TestACrashAtEveryCommitIsSurvived(t *testing.T) {
	dbtest.FileOnly(t) // it copies the file after every commit
	src := t.TempDir()
	shots := &snapshots{t: t, root: t.TempDir(), src: src, on: true}
	first := &counter{}
	r := newRig(t, rigOptions{dir: src, do: busy, tools: []tool.Tool{first}, onCommit: shots.commit})
	r.send("web:s1:r1", "m1", event.Prompt, "one")
	r.waitForEnd("web:s1:r1")
	shots.set(false)
	r.stop()
	if len(shots.dirs) < 6 {
		t.Fatalf("only %d commits", len(shots.dirs))
	}
	recovered := 0
	for i, dir := range shots.dirs {
		t.Run(fmt.Sprintf("commit %d", i), func(t *testing.T) {
			again := &counter{}
			r := newRig(t, rigOptions{dir: dir, do: busy, tools: []tool.Tool{again}})
			r.send("web:s1:r1", "m1", event.Prompt, "one") // the publisher does not know whether it arrived
			req := r.waitForEnd("web:s1:r1")
			r.output("web:s1:r1")
			r.checkPaired()
			wantStates(t, r, "web:s1:r1", event.StateRunning, event.StateStreaming, event.StateDone)
			if d := cmp.Diff([]string{"user: one", "assistant: counting", "tool: ", "assistant: told: one"}, r.texts()); d != "" {
				t.Errorf("history (-want +got):\n%s", d)
			}
			kinds := r.journal("web:s1:r1")
			if n := strings.Count(kinds+" ", "model "); n != 2 || req.Steps != 2 {
				t.Errorf("%d finished model calls in %q, want 2", n, kinds)
			}
			if again.runs > 1 || strings.Contains(kinds, "tool_start tool_start") {
				t.Errorf("the tool was repeated: %q", kinds)
			}
			if strings.Contains(kinds, "recovered") {
				recovered++
				before := strings.Count(strings.Split(kinds, "recovered")[0], "model ")
				if r.model.count() != 2-before {
					t.Errorf("%d model calls after a crash behind %d, want %d in all", r.model.count(), before, 2)
				}
			}
		})
	}
	if recovered < 4 {
		t.Errorf("only %d of %d images had to be recovered", recovered, len(shots.dirs))
	}
}

func TestARequestThatKeepsCrashingIsGivenUp(t *testing.T) {
	effort.SkipSlow(t)
	r, crashes := crashUntilGivenUp(t, func(began func()) rigOptions {
		return rigOptions{do: func(ctx context.Context, _ llm.Request, say func(string)) (chat.Message, error) {
			say("half an answer")
			began()
			<-ctx.Done()
			return chat.Message{}, ctx.Err()
		}}
	})
	req := r.waitForEnd("web:s1:r1")
	if req.State != event.StateFailed || !strings.Contains(req.Detail, "given up") || req.Recoveries < 3 || crashes == 4 && req.Recoveries != 3 {
		t.Errorf("ended as %s %q after %d crashes and %d recoveries", req.State, req.Detail, crashes, req.Recoveries)
	}
	r.output("web:s1:r1")
}

func TestACleanRestartIsNotChargedAsACrash(t *testing.T) {
	dir := t.TempDir()
	asked := make(chan struct{}, 1)
	for range 6 {
		r := newRig(t, rigOptions{dir: dir, do: func(ctx context.Context, _ llm.Request, say func(string)) (chat.Message, error) {
			say("half")
			asked <- struct{}{}
			<-ctx.Done()
			return chat.Message{}, ctx.Err()
		}})
		r.send("web:s1:r1", "m1", event.Prompt, "one")
		<-asked
		r.stop()
	}
	r := newRig(t, rigOptions{dir: dir})
	if req := r.waitForEnd("web:s1:r1"); req.State != event.StateDone || req.Recoveries != 6 {
		t.Errorf("ended as %s %q after %d recoveries", req.State, req.Detail, req.Recoveries)
	}
	if text, _ := r.output("web:s1:r1"); text != "echo: one" {
		t.Errorf("text %q", text)
	}
}

func TestCompactedHistoryIsNotSentAgainAndStaysReadable(t *testing.T) {
	longest := 0
	r := newRig(t, rigOptions{do: func(_ context.Context, req llm.Request, say func(string)) (chat.Message, error) {
		longest = max(longest, len(req.Messages))
		return chat.Text(chat.Assistant, "noted"), nil
	}})
	r.model.window = 2000
	for i := range 12 {
		id := fmt.Sprintf("web:s1:r%d", i)
		r.send(id, fmt.Sprintf("m%d", i), event.Prompt, fmt.Sprintf("%d %s", i, strings.Repeat("word ", 120)))
		if req := r.waitForEnd(id); req.State != event.StateDone {
			t.Fatalf("%s ended as %s: %s", id, req.State, req.Detail)
		}
	}
	if n := len(r.history()); n != 24 {
		t.Errorf("%d messages in the history, want 24", n)
	}
	r.read(func(q db.Queryer) error {
		conv, err := r.store.History.Conversation(q, sid)
		if err != nil {
			return err
		}
		if conv.Summary == nil || len(conv.Messages) >= 24 {
			t.Fatalf("summary %v, %d messages behind it", conv.Summary, len(conv.Messages))
		}
		if last := conv.Messages[len(conv.Messages)-2].Message.Text(); !strings.HasPrefix(last, "11 ") {
			t.Errorf("the last prompt in the conversation is %.20q", last)
		}
		return nil
	})
	if longest >= 24 {
		t.Errorf("the model got %d messages", longest)
	}
}
