package task

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

var now = time.UnixMilli(1_000_000)

func running(kind Kind) Task {
	t := Task{ID: "t1", SessionID: "s1", RequestID: "web:s1:m1", Kind: kind, State: Running, CreatedAt: now.UnixMilli() - 5000, Deadline: now.UnixMilli() + 55_000, Depth: 3}
	if kind == Agent {
		t.ChildSession, t.ChildRequest = "sub-t1", "sub:s1:t1"
	}
	return t
}

func code(n int) *int { return &n }

func TestWhatEndsATask(t *testing.T) {
	said := Output{Bytes: 9000, Tail: "the end"}
	for _, c := range []struct {
		name    string
		kind    Kind
		in      Input
		want    Task // what differs
		cancels bool
	}{
		{"a command ends well", Command, Exited{Exit{}, said}, Task{State: Completed, ExitCode: code(0)}, false},
		{"a command fails", Command, Exited{Exit{Code: 2}, said}, Task{State: Failed, ExitCode: code(2), Reason: "The command ended with exit code 2."}, false},
		{"a command is killed for a limit", Command, Exited{Exit{137, "it used more memory than a command may"}, said}, Task{State: Failed, Reason: "The command was killed: it used more memory than a command may."}, false},
		{"a command cannot be run", Command, NotRun{"The command was not run: no sandbox.", said}, Task{State: Failed, Reason: "The command was not run: no sandbox."}, false},
		{"the time of a command is up", Command, Expired{said}, Task{State: Timeout, Reason: "It did not end within 1m0s and was stopped."}, false},
		{"a person stops a command", Command, Stop{ByPerson, said}, Task{State: Stopped, StoppedBy: ByPerson, Reason: "It was stopped."}, false},
		{"the program ended under a command", Command, Lost{said}, Task{State: Failed, Reason: reasonLost}, false},
		{"a sub-agent answers", Agent, Answered{State: event.StateDone, Text: "42"}, Task{State: Completed, Result: "42"}, false},
		{"a sub-agent fails", Agent, Answered{State: event.StateFailed, Text: "so far", Detail: "No tokens left."}, Task{State: Failed, Result: "so far", Reason: "The sub-agent's request failed: No tokens left."}, false},
		{"a sub-agent's answer is damaged", Agent, Answered{State: event.StateDone, Unreadable: "The row s1/2 is damaged."}, Task{State: Failed, Reason: "The sub-agent's answer cannot be read: The row s1/2 is damaged."}, false},
		{"a sub-agent fails whose last words are damaged", Agent, Answered{State: event.StateFailed, Detail: "No tokens left.", Unreadable: "The row s1/2 is damaged."}, Task{State: Failed, Reason: "The sub-agent's request failed: No tokens left."}, false},
		{"a sub-agent's request is cancelled", Agent, Answered{State: event.StateCancelled}, Task{State: Stopped, StoppedBy: ByPerson, Reason: "It was stopped."}, false},
		{"the agent stops a sub-agent", Agent, Stop{By: ByAgent}, Task{State: Stopped, StoppedBy: ByAgent, Reason: "It was stopped."}, true},
		{"the time of a sub-agent is up", Agent, Expired{}, Task{State: Timeout, Reason: "It did not end within 1m0s and was stopped."}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := running(c.kind)
			want.State, want.ExitCode, want.Reason, want.StoppedBy, want.Result = c.want.State, c.want.ExitCode, c.want.Reason, c.want.StoppedBy, c.want.Result
			if want.EndedAt = now.UnixMilli(); c.kind == Command {
				want.Result, want.Printed = said.Tail, said.Bytes
			}
			got, effects := Decide(running(c.kind), c.in, now)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			wantEffects := []Effect{PublishEnd{}}
			if c.cancels {
				wantEffects = append(wantEffects, CancelRequest{})
			}
			if diff := cmp.Diff(wantEffects, effects); diff != "" {
				t.Errorf("effects: -want +got\n%s", diff)
			}
			for _, later := range []Input{Exited{}, NotRun{}, Expired{}, Stop{}, Lost{}, Answered{State: event.StateDone}} {
				if again, effects := Decide(got, later, now.Add(time.Hour)); len(effects) > 0 || !cmp.Equal(again, got) {
					t.Errorf("after its end %T changes it", later)
				}
			}
		})
	}
	if same, effects := Decide(running(Agent), Lost{}, now); len(effects) > 0 || same.State != Running {
		t.Error("a sub-agent is lost with the program, whose request goes on")
	}
}

func TestAdmission(t *testing.T) {
	limits := Limits{PerSession: 2, Total: 3, Time: time.Hour, MaxTime: 2 * time.Hour}
	for _, c := range []struct {
		name string
		o    Spec
		s    Facts
		want string // of the message; empty is admitted
		kind fault.Kind
	}{
		{"a command", Spec{Command: "make"}, Facts{InSession: 1, InAll: 2}, "", ""},
		{"a sub-agent", Spec{Prompt: "look"}, Facts{Depth: 7}, "", ""},
		{"the longest time", Spec{Command: "make", Time: 2 * time.Hour}, Facts{}, "", ""},
		{"nothing", Spec{}, Facts{}, "either a command or a prompt", fault.Invalid},
		{"both", Spec{Command: "make", Prompt: "look"}, Facts{}, "either a command or a prompt", fault.Invalid},
		{"too long", Spec{Command: "make", Time: 3 * time.Hour}, Facts{}, "at most 2h0m0s", fault.Invalid},
		{"by a sub-agent", Spec{Prompt: "look"}, Facts{Sub: true}, "A sub-agent cannot start background tasks", fault.Denied},
		{"at the end of a chain", Spec{Command: "make"}, Facts{Depth: 8}, "a chain of 8 events", fault.LimitReached},
		{"too many in the session", Spec{Command: "make"}, Facts{InSession: 2, InAll: 2}, "2 background tasks run in this conversation", fault.LimitReached},
		{"too many in all", Spec{Command: "make"}, Facts{InSession: 0, InAll: 3}, "all conversations together", fault.LimitReached},
	} {
		t.Run(c.name, func(t *testing.T) {
			started, effects := Decide(Task{}, Start{ID: "t1", Spec: c.o, Facts: c.s, Limits: limits, MaxDepth: 8}, now)
			var err error
			if refused, is := effects[0].(Refuse); is {
				err = refused.Err
			}
			if (err == nil) != (started.State == Running) {
				t.Errorf("the task is %q with the effects %v", started.State, effects)
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || fault.KindOf(err) != c.kind || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// The agent is told that one cannot be read, and nothing that is made up.
func TestADamagedTaskIsDescribed(t *testing.T) {
	got := Describe(Task{ID: "t1", State: Damaged, Reason: "The row t1 is damaged."}, now)
	if want := "t1 damaged [The row t1 is damaged.]"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestTheEventOfAnEnd(t *testing.T) {
	done, _ := Decide(running(Command), Exited{Exit{Code: 2}, Output{Bytes: 9000, Tail: "2 tests failed"}}, now)
	done.Description = "tests"
	e, err := endEvent(done)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":"task-t1-failed","type":"background_task.failed","timestamp":1000000,` +
		`"metadata":{"depth":3,"source":"tool","trigger_agent_id":"t1","trigger_agent_name":"tests","trigger_session_id":"s1"},` +
		`"payload":{"taskId":"t1","kind":"command","description":"tests","requestId":"web:s1:m1",` +
		`"result":{"exitCode":2,"output":"2 tests failed","cut":true},"error":"The command ended with exit code 2.","runningMs":5000,"outputBytes":9000}}`
	if string(raw) != want {
		t.Errorf("the event is\n%s\nwant\n%s", raw, want)
	}
	if err := e.Validate(); err != nil {
		t.Error(err)
	}
}
