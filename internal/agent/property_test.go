package agent_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"lilac/internal/agent"
	"lilac/internal/agent/tool"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

var errCrash = errors.New("the process is dead")

// journalHost is a host with a journal that survives: at a planned event the
// process dies, just before or just after the record was made.
type journalHost struct {
	*host
	plan    map[int]string // what happens at the n-th record
	n       int
	dead    bool
	stepped int  // the last step that StepDone was recorded for
	ended   bool // the last step called no tools and nothing came since
	closed  bool
	pushed  []string
	stop    context.CancelCauseFunc
}

func (j *journalHost) push(kind string) {
	text := fmt.Sprintf("%s %d", kind, len(j.pushed))
	j.pushed = append(j.pushed, text)
	switch kind {
	case "steer":
		j.steer(text)
	case "followUp":
		j.followUps = append(j.followUps, injected(text))
	case "interrupt":
		j.interrupt(text)
	}
}

// act is an event that a plan may cause during a run.
func (j *journalHost) act(what string) {
	switch what {
	case "steer", "followUp", "interrupt":
		j.push(what)
	case "cancel":
		j.stop(agent.ErrCancelled)
	case "drain":
		j.stop(agent.ErrDrain)
	}
}

func (j *journalHost) guard(record func() error) error {
	if j.dead {
		j.problems = append(j.problems, "a record after one that failed")
		return errCrash
	}
	what := j.plan[j.n]
	j.n++
	switch what {
	case "crash after":
		_ = record()
		fallthrough
	case "crash before":
		j.dead = true
		return errCrash
	}
	j.act(what)
	return record()
}

func (j *journalHost) BeforeModel(ctx context.Context, step int, used chat.Usage) (in []agent.Injected, err error) {
	err = j.guard(func() error {
		in, err = j.host.BeforeModel(ctx, step, used)
		if len(in) > 0 {
			j.ended = false
		}
		return err
	})
	return in, err
}

func (j *journalHost) ResetText(ctx context.Context, offset int64) error {
	return j.guard(func() error { return j.host.ResetText(ctx, offset) })
}

func (j *journalHost) ModelFailed(ctx context.Context, step int, cause error, used chat.Usage, d time.Duration) error {
	return j.guard(func() error { return j.host.ModelFailed(ctx, step, cause, used, d) })
}

func (j *journalHost) ModelDone(ctx context.Context, s agent.Step) error {
	return j.guard(func() error { return j.host.ModelDone(ctx, s) })
}

func (j *journalHost) ToolStarted(ctx context.Context, step int, c chat.Part, display string) error {
	return j.guard(func() error { return j.host.ToolStarted(ctx, step, c, display) })
}

func (j *journalHost) ToolEnded(ctx context.Context, step int, c, result chat.Part, display string) error {
	return j.guard(func() error { return j.host.ToolEnded(ctx, step, c, result, display) })
}

func (j *journalHost) StepDone(ctx context.Context, step int, messages []chat.Message) error {
	return j.guard(func() error {
		err := j.host.StepDone(ctx, step, messages)
		if err == nil {
			j.stepped = step
			j.ended = len(messages) == 1 && !j.journal[len(j.journal)-1].Interrupted
		}
		return err
	})
}

func (j *journalHost) WouldEnd(ctx context.Context, o agent.Outcome) (in []agent.Injected, err error) {
	err = j.guard(func() error {
		j.followUps = append(j.steers, j.followUps...)
		j.steers = nil
		in, err = j.host.WouldEnd(ctx, o)
		if err == nil {
			j.ended = len(in) == 0
			j.closed = len(in) == 0
		}
		return err
	})
	return in, err
}

func (j *journalHost) Compacted(ctx context.Context, summary chat.Message, keep int) error {
	return j.guard(func() error { return j.host.Compacted(ctx, summary, keep) })
}

// input is the input of a new process according to the journal.
func (j *journalHost) input() agent.Input {
	in := question()
	in.Messages, in.Usage = slices.Clone(j.history), j.lost
	for _, s := range j.journal {
		in.Text = agent.JoinText(in.Text, s.Message.Text())
		in.Usage = in.Usage.Add(s.Usage)
	}
	in.Step, in.Offset = len(j.journal), int64(len(in.Text))
	if in.Step > j.stepped {
		last := j.journal[in.Step-1]
		in.Pending = &agent.PendingStep{Message: last.Message, Results: map[string]chat.Part{}, Started: map[string]bool{}, Interrupted: last.Interrupted}
		for id := range j.started {
			if r, ok := j.results[id]; ok {
				in.Pending.Results[id] = r
			} else {
				in.Pending.Started[id] = true
			}
		}
	}
	in.Ended = j.ended
	j.streamed = j.streamed[:in.Offset]
	j.log, j.dead, j.busy = nil, false, false
	return in
}

// disorder returns the reason why the order of a run's reports is wrong, or "".
func disorder(in agent.Input, log []string) string {
	done, open, asked := in.Step, in.Pending != nil, false
	started := map[string]bool{}
	if open {
		for id := range in.Pending.Started {
			started[id] = true
		}
	}
	for i, e := range log {
		what, id, _ := strings.Cut(e, " ")
		bad := false
		switch what {
		case "before":
			bad = open || id != fmt.Sprint(done+1)
			asked = true
		case "failed", "compacted", "reset":
			bad = open || !asked
		case "model", "partial":
			bad = open || !asked || id != fmt.Sprint(done+1)
			done, open, asked = done+1, true, false
		case "start":
			bad = !open
			started[id] = true
		case "end":
			bad = !open || !started[id]
			delete(started, id)
		case "step":
			bad = !open || id != fmt.Sprint(done) || len(started) > 0
			open = false
		case "would":
			bad = open
		}
		if bad {
			return fmt.Sprintf("%q is out of order in %v", e, log[:i+1])
		}
	}
	return ""
}

func TestDisorderIsDetected(t *testing.T) {
	for _, log := range []string{"model 1", "before 2", "before 1,start a", "before 1,model 1,end a", "before 1,model 1,before 2", "before 1,model 1,start a,step 1"} {
		if disorder(agent.Input{}, strings.Split(log, ",")) == "" {
			t.Errorf("control: %s passes", log)
		}
	}
}

// TestRandomRunsKeepTheInvariants runs random scripts with steers, follow-ups,
// interrupts, a cancel, drains and crashes at any record, goes on from the
// journal each time, and checks what holds whatever happens.
func TestRandomRunsKeepTheInvariants(t *testing.T) {
	// So many that each kind of end is among them, also of the fifth of them
	// that the short form runs.
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	defer func() { _ = checks.Value.Set(before) }()
	if err := checks.Value.Set("1000"); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		kinds := []string{"steer", "followUp", "interrupt", "drain", "crash before", "crash after", "cancel"}
		plan := map[int]string{}
		for range rapid.IntRange(0, 6).Draw(t, "events") {
			plan[rapid.IntRange(0, 40).Draw(t, "at")] = rapid.SampledFrom(kinds).Draw(t, "what")
		}
		j := &journalHost{host: newHost(), plan: plan}
		m := &model{info: llm.Info{ContextTokens: rapid.SampledFrom([]int{0, 1_000}).Draw(t, "window")}}
		for n := range rapid.IntRange(1, 6).Draw(t, "replies") {
			m.script = append(m.script, drawReply(t, n, j))
		}
		for range 60 {
			m.script = append(m.script, say("Fin."))
		}
		var mu sync.Mutex
		ran := map[string]int{}
		count := func(name string) fakeTool {
			return named(name, func(ctx context.Context, c tool.Call) (tool.Result, error) {
				mu.Lock()
				ran[name+" "+c.ID]++
				mu.Unlock()
				return tool.Result{Text: strings.Repeat("x", 400)}, ctx.Err()
			})
		}
		safe, again := count("safe"), count("again")
		safe.spec.ParallelSafe, again.spec.Idempotent = true, true
		cfg := agent.Config{Model: m, Tools: []tool.Tool{count("once"), safe, again}, Retries: 50, Backoff: func(int) time.Duration { return 0 }}
		j.history = question().Messages

		var out agent.Outcome
		for range 20 {
			in := j.input()
			ctx, stop := context.WithCancelCause(context.Background())
			j.stop = stop
			out = agent.Run(ctx, cfg, in, j)
			stop(nil)
			if p := disorder(in, j.log); p != "" {
				t.Fatal(p)
			}
			if !errors.Is(out.Err, errCrash) && out.Err != agent.ErrDrain || j.closed {
				break
			}
			seen["restart"]++
		}
		switch {
		case out.Err == nil:
			seen["done"]++
		case out.Err == agent.ErrCancelled:
			seen["cancelled"]++
		case fault.KindOf(out.Err) != fault.Internal:
			seen["failed"]++
		case !j.closed:
			t.Fatal(out.Err)
		}
		if !errors.Is(out.Err, errCrash) {
			checkRun(t, m, j.host, out)
		}
		for _, text := range j.pushed {
			if got := occurrences(j.history, text); got > 1 || got == 0 && j.closed && j.summaries == 0 && !waiting(j, text) {
				t.Fatalf("%q is %d times in the history", text, got)
			}
		}
		for id, n := range ran {
			if n > 1 && !strings.HasPrefix(id, "again") {
				t.Fatalf("%s ran %d times", id, n)
			}
		}
	})
	for _, what := range []string{"restart", "done", "cancelled", "failed"} {
		if seen[what] == 0 {
			t.Errorf("control: no run was ever %s", what)
		}
	}
}

func drawReply(t *rapid.T, n int, j *journalHost) reply {
	text := rapid.SampledFrom([]string{"", "Some text.", "é…", "\n"}).Draw(t, "text")
	r := reply{stop: llm.StopEnd, think: rapid.SampledFrom([]string{"", "hm"}).Draw(t, "think")}
	for _, c := range text {
		r.chunks = append(r.chunks, string(c))
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "calls") {
		name := rapid.SampledFrom([]string{"once", "safe", "again", "unknown"}).Draw(t, "tool")
		r.calls = append(r.calls, call(fmt.Sprintf("c%d.%d", n, i), name, rapid.SampledFrom([]string{`{}`, `{"x":1}`, `[]`}).Draw(t, "input")))
	}
	switch rapid.IntRange(0, 6).Draw(t, "end") {
	case 0:
		r.err = fault.New(fault.Unavailable, "Busy.")
	case 3:
		r.err = fault.New(fault.Invalid, "Not so.")
	case 1:
		r.stop = llm.StopLength
	case 2:
		what := rapid.SampledFrom([]string{"interrupt", "cancel", "drain"}).Draw(t, "stop")
		r.during, r.hang = func() { j.act(what) }, true
	}
	return r
}

func occurrences(messages []chat.Message, text string) (n int) {
	for _, m := range messages {
		if m.Role == chat.User && m.Text() == text {
			n++
		}
	}
	return n
}

// waiting says that the message came too late and waits at the host.
func waiting(j *journalHost, text string) bool {
	for _, i := range append(slices.Clone(j.steers), j.followUps...) {
		if i.MessageID == text {
			return true
		}
	}
	return false
}
