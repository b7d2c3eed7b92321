package workflow_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/workflow"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// begin is a Thursday, 12:00 in UTC.
var begin = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

var asker = workflow.Origin{RequestID: "discord:10:1", SessionID: "10", Client: "discord"}

// at is an input at a moment, counted from the begin.
type at struct {
	after time.Duration
	in    workflow.Input
}

func input(v any) json.RawMessage {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return data
}

func spec(id, kind string, in workflow.TaskInput) workflow.Spec {
	return workflow.Spec{TaskID: id, Kind: kind, Description: "what " + id + " waits for", Input: input(in)}
}

func reply(id, message, user string) workflow.Spec {
	return spec(id, "discord.wait_for_reply", workflow.TaskInput{SessionID: "10", MessageID: message, UserID: user, TimeoutMS: time.Hour.Milliseconds()})
}

func question(id string) workflow.Spec {
	return spec(id, "discord.send_and_wait", workflow.TaskInput{SessionID: "20", Text: "when?", TimeoutMS: time.Hour.Milliseconds()})
}

func delay(id string, d time.Duration) workflow.Spec {
	return spec(id, workflow.KindDelay, workflow.TaskInput{DelayMS: d.Milliseconds()})
}

func create(c workflow.Completion, tasks ...workflow.Spec) workflow.Create {
	return workflow.Create{ID: "w", From: asker, Definition: workflow.Definition{Summary: "ask Bob", Completion: c, Tasks: tasks}}
}

func add(s workflow.Spec) workflow.Add { return workflow.Add{ID: "w", From: asker, Spec: s} }

func says(channel, to, user string) workflow.Reply {
	return workflow.Reply{Platform: "discord", ChannelID: channel, To: to, Message: workflow.HumanMessage{MessageID: "r-" + user, UserID: user, Text: "Tuesday"}}
}

func program(r workflow.Reply) workflow.Reply {
	r.Program = true
	return r
}

func daily(in workflow.TaskInput) workflow.Spec {
	in.Cron = "0 9 * * *"
	return spec("s", workflow.KindSchedule, in)
}

// told are the effects, a line each.
func told(effects []workflow.Effect) (lines []string) {
	for _, e := range effects {
		switch e := e.(type) {
		case workflow.Publish:
			switch p := e.Payload.(type) {
			case event.WorkflowLifecycleChanged:
				lines = append(lines, strings.TrimSpace(p.State+" "+p.Detail))
			case event.WorkflowTaskLifecycleChanged:
				lines = append(lines, strings.TrimSpace(p.TaskID+" "+p.State+" "+p.Detail))
			}
		case workflow.SendMessage:
			lines = append(lines, "post "+e.Task.ID)
		case workflow.WithdrawMessage:
			lines = append(lines, "withdraw "+e.TaskID)
		case workflow.Wake:
			lines = append(lines, fmt.Sprintf("wake %d by %s", e.N, e.TaskID))
		case workflow.EndChain:
			lines = append(lines, fmt.Sprintf("ends the chain at %d", e.Depth))
		case workflow.Refuse:
			lines = append(lines, "refuse "+string(fault.KindOf(e.Err)))
		}
	}
	return lines
}

func TestDecide(t *testing.T) {
	const day = 24 * time.Hour
	for name, c := range map[string]struct {
		steps []at
		// want are the effects of the last step; earlier ones only lead there.
		want  []string
		state workflow.State
	}{
		"it begins, and what it has to send is sent": {
			[]at{{0, create("", reply("a", "5", ""), question("b"))}},
			[]string{"waiting", "a waiting", "b waiting", "post b"},
			workflow.Waiting,
		},
		"creating it again changes nothing": {
			[]at{{0, create("", reply("a", "5", ""))}, {1, create("", reply("a", "5", ""), question("b"))}}, nil, workflow.Waiting,
		},
		"a reply ends it and wakes the agent": {
			[]at{{0, create("", reply("a", "5", ""))}, {1, says("10", "5", "7")}},
			[]string{"a resolved reply", "resolved", "wake 1 by a"},
			workflow.Resolved,
		},
		"the reply delivered twice wakes once": {
			[]at{{0, create("", reply("a", "5", ""))}, {1, says("10", "5", "7")}, {2, says("10", "5", "7")}}, nil, workflow.Resolved,
		},
		"a second reply is too late":     {[]at{{0, create("", reply("a", "5", ""))}, {1, says("10", "5", "7")}, {2, says("10", "5", "8")}}, nil, workflow.Resolved},
		"a reply to another message":     {[]at{{0, create("", reply("a", "5", ""))}, {1, says("10", "6", "7")}}, nil, workflow.Waiting},
		"a reply in another channel":     {[]at{{0, create("", reply("a", "5", ""))}, {1, says("11", "5", "7")}}, nil, workflow.Waiting},
		"a reply of somebody else":       {[]at{{0, create("", reply("a", "5", "7"))}, {1, says("10", "5", "8")}}, nil, workflow.Waiting},
		"a reply on another platform":    {[]at{{0, create("", reply("a", "5", ""))}, {1, workflow.Reply{Platform: "other", ChannelID: "10", To: "5"}}}, nil, workflow.Waiting},
		"our own reply does not count":   {[]at{{0, create("", reply("a", "5", ""))}, {1, program(says("10", "5", "900"))}}, nil, workflow.Waiting},
		"a program does not count":       {[]at{{0, create("", reply("a", "5", "8"))}, {1, program(says("10", "5", "8"))}}, nil, workflow.Waiting},
		"the one who was named replies":  {[]at{{0, create("", reply("a", "5", "7"))}, {1, says("10", "5", "7")}}, []string{"a resolved reply", "resolved", "wake 1 by a"}, workflow.Resolved},
		"one reply for two tasks":        {[]at{{0, create("", reply("a", "5", ""), reply("b", "5", ""))}, {1, says("10", "5", "7")}}, []string{"a resolved reply", "b resolved reply", "resolved", "wake 1 by b"}, workflow.Resolved},
		"all: the first of two":          {[]at{{0, create("all", reply("a", "5", ""), reply("b", "6", ""))}, {1, says("10", "5", "7")}}, []string{"a resolved reply"}, workflow.Waiting},
		"all: the second of two":         {[]at{{0, create("all", reply("a", "5", ""), reply("b", "6", ""))}, {1, says("10", "5", "7")}, {2, says("10", "6", "7")}}, []string{"b resolved reply", "resolved", "wake 1 by b"}, workflow.Resolved},
		"any: the first ends the others": {[]at{{0, create("any", reply("a", "5", ""), reply("b", "6", ""))}, {1, says("10", "6", "7")}}, []string{"b resolved reply", "a cancelled", "resolved", "wake 1 by b"}, workflow.Resolved},
		"any: a time-out is a result": {
			[]at{{0, create("any", reply("a", "5", ""), delay("b", day))}, {time.Hour, workflow.Tick{}}},
			[]string{"a resolved timeout", "b cancelled", "resolved", "wake 1 by a"},
			workflow.Resolved,
		},
		"all: a time-out is a result": {
			[]at{{0, create("all", reply("a", "5", ""), reply("b", "6", ""))}, {1, says("10", "5", "7")}, {time.Hour, workflow.Tick{}}},
			[]string{"b resolved timeout", "resolved", "wake 1 by b"},
			workflow.Resolved,
		},
		"a reply after the time-out": {[]at{{0, create("", reply("a", "5", ""))}, {time.Hour, workflow.Tick{}}, {2 * time.Hour, says("10", "5", "7")}}, nil, workflow.Resolved},
		"the timer is early":         {[]at{{0, create("", delay("a", time.Minute))}, {time.Minute - time.Millisecond, workflow.Tick{}}}, nil, workflow.Waiting},
		"a delay ends":               {[]at{{0, create("", delay("a", time.Minute))}, {time.Minute, workflow.Tick{}}}, []string{"a resolved reached", "resolved", "wake 1 by a"}, workflow.Resolved},
		"a delay ends once":          {[]at{{0, create("", delay("a", time.Minute))}, {time.Minute, workflow.Tick{}}, {time.Hour, workflow.Tick{}}}, nil, workflow.Resolved},
		"a delay that ended while we were away ends once": {
			[]at{{0, create("", delay("a", time.Minute), delay("b", time.Hour))}, {30 * day, workflow.Tick{}}},
			[]string{"a resolved reached", "b resolved reached", "resolved", "wake 1 by b"},
			workflow.Resolved,
		},
		"a clock that was set back ends nothing early": {[]at{{0, create("", delay("a", time.Minute))}, {-day, workflow.Tick{}}}, nil, workflow.Waiting},
		"a moment is reached": {
			[]at{{0, create("", spec("a", workflow.KindMoment, workflow.TaskInput{At: begin.Add(time.Hour).UnixMilli()}))}, {time.Hour, workflow.Tick{}}},
			[]string{"a resolved reached", "resolved", "wake 1 by a"},
			workflow.Resolved,
		},
		"a moment that has passed comes at once": {
			[]at{{0, create("", spec("a", workflow.KindMoment, workflow.TaskInput{At: begin.Add(-time.Hour).UnixMilli()}))}, {0, workflow.Tick{}}},
			[]string{"a resolved reached", "resolved", "wake 1 by a"},
			workflow.Resolved,
		},
		"an event": {
			[]at{{0, create("", spec("a", workflow.KindEvent, workflow.TaskInput{Types: []string{"custom.x"}}))}, {1, workflow.Occurred{TaskIDs: []string{"a"}, Event: event.EnvEvent{ID: "e"}}}},
			[]string{"a resolved event", "resolved", "wake 1 by a"},
			workflow.Resolved,
		},
		"an event for another task": {
			[]at{{0, create("", spec("a", workflow.KindEvent, workflow.TaskInput{Types: []string{"custom.x"}}))}, {1, workflow.Occurred{TaskIDs: []string{"b"}}}}, nil, workflow.Waiting,
		},
		"the next message where nobody replies": {
			[]at{{0, create("", spec("a", "web.wait_for_reply", workflow.TaskInput{SessionID: "s1"}))}, {1, workflow.MessagePosted{SessionID: "s1"}}},
			[]string{"a resolved reply", "resolved", "wake 1 by a"},
			workflow.Resolved,
		},
		"a message elsewhere": {
			[]at{{0, create("", spec("a", "web.wait_for_reply", workflow.TaskInput{SessionID: "s1"}))}, {1, workflow.MessagePosted{SessionID: "s2"}}}, nil, workflow.Waiting,
		},

		"what was sent can be replied to": {
			[]at{{0, create("", question("a"))}, {1, workflow.Sent{TaskID: "a", MessageID: "77"}}, {2, says("20", "77", "7")}},
			[]string{"a resolved reply", "resolved", "wake 1 by a"},
			workflow.Resolved,
		},
		"it is bound once":                   {[]at{{0, create("", question("a"))}, {1, workflow.Sent{TaskID: "a", MessageID: "77"}}, {2, workflow.Sent{TaskID: "a", MessageID: "78"}}}, nil, workflow.Waiting},
		"before it is sent nothing replies":  {[]at{{0, create("", question("a"))}, {1, says("20", "", "7")}}, nil, workflow.Waiting},
		"what is not sent is a result":       {[]at{{0, create("", question("a"))}, {1, workflow.Sent{TaskID: "a", Reason: "gone"}}}, []string{"a resolved notSent", "resolved", "wake 1 by a"}, workflow.Resolved},
		"it is bound also after the end":     {[]at{{0, create("", question("a"))}, {time.Hour, workflow.Tick{}}, {2 * time.Hour, workflow.Sent{TaskID: "a", MessageID: "77"}}}, []string{"a sent 77"}, workflow.Resolved},
		"not sent after the end is no news":  {[]at{{0, create("", question("a"))}, {1, workflow.Cancel{}}, {2, workflow.Sent{TaskID: "a"}}}, nil, workflow.Cancelled},
		"a message of an unknown task":       {[]at{{0, create("", question("a"))}, {1, workflow.Sent{TaskID: "x", MessageID: "1"}}}, nil, workflow.Waiting},
		"a task that sends nothing is bound": {[]at{{0, create("", reply("a", "5", ""))}, {1, workflow.Sent{TaskID: "a", MessageID: "1"}}}, nil, workflow.Waiting},

		"another task":        {[]at{{0, create("", reply("a", "5", ""))}, {1, add(question("b"))}}, []string{"b waiting", "post b"}, workflow.Waiting},
		"the same task again": {[]at{{0, create("", reply("a", "5", ""))}, {1, add(reply("a", "6", ""))}}, nil, workflow.Waiting},
		"a task that makes no sense": {
			[]at{{0, create("", reply("a", "5", ""))}, {1, add(spec("b", "teleport", workflow.TaskInput{}))}},
			[]string{"refuse invalid", `b failed The kind of task "teleport" is unknown. Use <platform>.wait_for_reply, <platform>.send_and_wait, wait_until, delay, wait_for_event, or schedule.`},
			workflow.Waiting,
		},
		"a task after the end": {
			[]at{{0, create("", reply("a", "5", ""))}, {1, says("10", "5", "7")}, {2, add(question("b"))}},
			[]string{"refuse gone", "b failed The workflow has ended."},
			workflow.Resolved,
		},
		"a task before its workflow waits for it": {[]at{{0, add(question("a"))}}, nil, ""},
		"and is begun with it":                    {[]at{{0, add(question("a"))}, {1, create("", reply("b", "5", ""))}}, []string{"waiting", "b waiting", "a waiting", "post a"}, workflow.Waiting},
		"but not for ever":                        {[]at{{0, add(question("a"))}, {10 * time.Minute, workflow.Tick{}}}, []string{"a cancelled It was never created.", "failed It was never created."}, workflow.Failed},
		"nor is it created then":                  {[]at{{0, add(question("a"))}, {10 * time.Minute, workflow.Tick{}}, {time.Hour, create("", reply("b", "5", ""))}}, nil, workflow.Failed},
		"a workflow without a task waits for one": {[]at{{0, create("")}, {time.Minute, workflow.Tick{}}}, nil, workflow.Waiting},
		"but not for ever either":                 {[]at{{0, create("")}, {10 * time.Minute, workflow.Tick{}}}, []string{"failed It has no task to wait for."}, workflow.Failed},

		"cancel": {
			[]at{{0, create("", reply("a", "5", ""), question("b"))}, {1, workflow.Cancel{Reason: "not needed"}}},
			[]string{"a cancelled not needed", "b cancelled not needed", "withdraw b", "cancelled not needed"},
			workflow.Cancelled,
		},
		"cancel of what was sent": {
			[]at{{0, create("", question("a"))}, {1, workflow.Sent{TaskID: "a", MessageID: "77"}}, {2, workflow.Cancel{}}},
			[]string{"a cancelled Cancelled.", "cancelled Cancelled."},
			workflow.Cancelled,
		},
		"any: what was not sent yet is not sent any more": {
			[]at{{0, create("any", reply("a", "5", ""), question("b"))}, {1, says("10", "5", "7")}},
			[]string{"a resolved reply", "b cancelled", "withdraw b", "resolved", "wake 1 by a"},
			workflow.Resolved,
		},
		"cancel again":                    {[]at{{0, create("", reply("a", "5", ""))}, {1, workflow.Cancel{}}, {2, workflow.Cancel{Reason: "x"}}}, nil, workflow.Cancelled},
		"cancel after the end":            {[]at{{0, create("", reply("a", "5", ""))}, {1, says("10", "5", "7")}, {2, workflow.Cancel{}}}, nil, workflow.Resolved},
		"a reply after the cancel":        {[]at{{0, create("", reply("a", "5", ""))}, {1, workflow.Cancel{}}, {2, says("10", "5", "7")}}, nil, workflow.Cancelled},
		"cancel of what nobody knows":     {[]at{{0, workflow.Cancel{ID: "w", From: asker}}}, nil, ""},
		"it holds for what comes after":   {[]at{{0, workflow.Cancel{ID: "w", From: asker}}, {1, create("", question("a"))}}, []string{"waiting", "a cancelled Cancelled.", "cancelled Cancelled."}, workflow.Cancelled},
		"and is forgotten without it":     {[]at{{0, workflow.Cancel{ID: "w", From: asker}}, {10 * time.Minute, workflow.Tick{}}}, []string{"failed It was never created."}, workflow.Failed},
		"time passes for nothing":         {[]at{{0, workflow.Tick{}}}, nil, ""},
		"a reply for what nobody knows":   {[]at{{0, says("10", "5", "7")}}, nil, ""},
		"too many for the conversation":   {[]at{{0, workflow.Create{ID: "w", From: asker, InSession: workflow.MaxWaitingSession, Definition: workflow.Definition{Summary: "x"}}}}, []string{"refuse limit_reached", "failed 200 workflows wait for this conversation already, the maximum. Cancel some that are no longer needed."}, ""},
		"too many for all":                {[]at{{0, workflow.Create{ID: "w", From: asker, InAll: workflow.MaxWaiting, Definition: workflow.Definition{Summary: "x"}}}}, []string{"refuse limit_reached", "failed 10000 workflows wait already, the maximum. Try again when some have ended."}, ""},
		"a schedule is alone":             {[]at{{0, create("", reply("a", "5", ""))}, {1, add(daily(workflow.TaskInput{}))}}, []string{"refuse invalid", "s failed A schedule is the only task of its workflow."}, workflow.Waiting},
		"a schedule runs and goes on":     {[]at{{0, create("", daily(workflow.TaskInput{}))}, {21 * time.Hour, workflow.Tick{}}}, []string{"s run", "wake 1 by s"}, workflow.Waiting},
		"and runs again":                  {[]at{{0, create("", daily(workflow.TaskInput{}))}, {21 * time.Hour, workflow.Tick{}}, {45 * time.Hour, workflow.Tick{}}}, []string{"s run", "wake 2 by s"}, workflow.Waiting},
		"not twice for one moment":        {[]at{{0, create("", daily(workflow.TaskInput{}))}, {21 * time.Hour, workflow.Tick{}}, {21*time.Hour + time.Second, workflow.Tick{}}}, nil, workflow.Waiting},
		"what was missed is done once":    {[]at{{0, create("", daily(workflow.TaskInput{}))}, {10 * day, workflow.Tick{}}}, []string{"s run", "wake 1 by s"}, workflow.Waiting},
		"or left out":                     {[]at{{0, create("", daily(workflow.TaskInput{Missed: "skip"}))}, {10 * day, workflow.Tick{}}}, nil, workflow.Waiting},
		"a minute late is not missed":     {[]at{{0, create("", daily(workflow.TaskInput{Missed: "skip"}))}, {21*time.Hour + time.Minute, workflow.Tick{}}}, []string{"s run", "wake 1 by s"}, workflow.Waiting},
		"after what was left out it runs": {[]at{{0, create("", daily(workflow.TaskInput{Missed: "skip"}))}, {10 * day, workflow.Tick{}}, {10*day + 21*time.Hour, workflow.Tick{}}}, []string{"s run", "wake 1 by s"}, workflow.Waiting},
		"a schedule ends": {
			[]at{{0, create("", daily(workflow.TaskInput{Until: begin.Add(30 * time.Hour).UnixMilli()}))}, {21 * time.Hour, workflow.Tick{}}},
			[]string{"s run", "wake 1 by s", "s resolved finished", "resolved"},
			workflow.Resolved,
		},
		"a run that has not begun stands for the next one": {
			[]at{{0, create("", daily(workflow.TaskInput{}))}, {21 * time.Hour, workflow.Tick{}}, {45 * time.Hour, workflow.Tick{Queued: true}}}, nil, workflow.Waiting,
		},
		"when it has begun, the next one runs": {
			[]at{{0, create("", daily(workflow.TaskInput{}))}, {21 * time.Hour, workflow.Tick{}}, {45 * time.Hour, workflow.Tick{Queued: true}}, {69 * time.Hour, workflow.Tick{}}},
			[]string{"s run", "wake 2 by s"},
			workflow.Waiting,
		},
		"a schedule ends also while its last run has not begun": {
			[]at{{0, create("", daily(workflow.TaskInput{Until: begin.Add(54 * time.Hour).UnixMilli()}))}, {21 * time.Hour, workflow.Tick{}}, {45 * time.Hour, workflow.Tick{Queued: true}}},
			[]string{"s resolved finished", "resolved"},
			workflow.Resolved,
		},
		"a schedule is cancelled": {[]at{{0, create("", daily(workflow.TaskInput{}))}, {1, workflow.Cancel{}}}, []string{"s cancelled Cancelled.", "cancelled Cancelled."}, workflow.Cancelled},
	} {
		t.Run(name, func(t *testing.T) {
			var w workflow.Workflow
			var effects []workflow.Effect
			for _, s := range c.steps {
				before, err := json.Marshal(w)
				if err != nil {
					t.Fatal(err)
				}
				next, e := workflow.Decide(w, s.in, begin.Add(s.after))
				if after, _ := json.Marshal(w); string(after) != string(before) {
					t.Errorf("it changes what it was given: %s became %s", before, after)
				}
				w, effects = next, e
			}
			if diff := cmp.Diff(c.want, told(effects)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if w.State != c.state {
				t.Errorf("it is %q, not %q", w.State, c.state)
			}
			if w.State.Ended() != (w.EndedAt > 0) || w.State.Ended() && w.Due() != 0 {
				t.Errorf("it has ended: %v, at %d, and is due at %d", w.State.Ended(), w.EndedAt, w.Due())
			}
		})
	}
}

// A decision knows where nothing can be sent, and when nobody can be woken.
func TestFactsChangeWhatADecisionDoes(t *testing.T) {
	offline := workflow.Facts{Disconnected: []string{"discord"}}
	gone := workflow.Facts{SessionGone: true}
	for name, c := range map[string]struct {
		facts workflow.Facts
		steps []at
		want  []string
		state workflow.State
	}{
		"a message that cannot be sent ends its task and wakes the agent": {
			offline,
			[]at{{0, create("", question("a"))}},
			[]string{"waiting", "a waiting", "a resolved notSent", "resolved", "wake 1 by a"},
			workflow.Resolved,
		},
		"a workflow that ends so sends nothing else": {
			offline,
			[]at{{0, create(workflow.Any, question("a"), question("b"))}},
			[]string{"waiting", "a waiting", "b waiting", "a resolved notSent", "b cancelled", "resolved", "wake 1 by a"},
			workflow.Resolved,
		},
		"a workflow whose session is gone wakes nobody": {
			gone,
			[]at{{0, create("", delay("a", time.Hour))}, {time.Hour, workflow.Tick{}}},
			[]string{"a resolved reached", "resolved"},
			workflow.Resolved,
		},
		"a schedule whose session is gone is cancelled": {
			gone,
			[]at{{0, create("", daily(workflow.TaskInput{}))}, {21 * time.Hour, workflow.Tick{}}},
			[]string{"s run", "s cancelled Its conversation is gone.", "cancelled Its conversation is gone."},
			workflow.Cancelled,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var w workflow.Workflow
			var effects []workflow.Effect
			for _, s := range c.steps {
				w.Facts = c.facts
				w, effects = workflow.Decide(w, s.in, begin.Add(s.after))
			}
			if diff := cmp.Diff(c.want, told(effects)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if w.State != c.state {
				t.Errorf("it is %q, not %q", w.State, c.state)
			}
		})
	}
}

func TestWhatMakesNoSenseIsRefused(t *testing.T) {
	long := strings.Repeat("x", 3000)
	for name, c := range map[string]struct {
		spec  workflow.Spec
		field string
	}{
		"no id":                         {spec("", workflow.KindDelay, workflow.TaskInput{DelayMS: 5000}), "taskId"},
		"an id with a colon":            {spec("a:b", workflow.KindDelay, workflow.TaskInput{DelayMS: 5000}), "taskId"},
		"no description":                {workflow.Spec{TaskID: "a", Kind: workflow.KindDelay, Input: input(workflow.TaskInput{DelayMS: 5000})}, "description"},
		"no conversation":               {spec("a", "discord.wait_for_reply", workflow.TaskInput{MessageID: "1"}), "sessionId"},
		"no message":                    {spec("a", "discord.wait_for_reply", workflow.TaskInput{SessionID: "1"}), "messageId"},
		"a message on the page":         {spec("a", "web.wait_for_reply", workflow.TaskInput{SessionID: "1", MessageID: "2"}), "messageId"},
		"nothing to send":               {spec("a", "discord.send_and_wait", workflow.TaskInput{SessionID: "1", Text: " "}), "text"},
		"too much to send":              {spec("a", "discord.send_and_wait", workflow.TaskInput{SessionID: "1", Text: long}), "text"},
		"sending to the page":           {spec("a", "web.send_and_wait", workflow.TaskInput{SessionID: "1", Text: "x"}), "kind"},
		"no delay":                      {spec("a", workflow.KindDelay, workflow.TaskInput{}), "delayMs"},
		"a delay of years":              {spec("a", workflow.KindDelay, workflow.TaskInput{DelayMS: 400 * 24 * 3600 * 1000}), "delayMs"},
		"no moment":                     {spec("a", workflow.KindMoment, workflow.TaskInput{}), "at"},
		"a moment in years":             {spec("a", workflow.KindMoment, workflow.TaskInput{At: begin.AddDate(2, 0, 0).UnixMilli()}), "at"},
		"no type of events":             {spec("a", workflow.KindEvent, workflow.TaskInput{}), "types"},
		"a long condition":              {spec("a", workflow.KindEvent, workflow.TaskInput{Types: []string{"x"}, If: long}), "if"},
		"a time-out of no time":         {spec("a", workflow.KindEvent, workflow.TaskInput{Types: []string{"x"}, TimeoutMS: 1}), "timeoutMs"},
		"a time-out of years":           {spec("a", workflow.KindEvent, workflow.TaskInput{Types: []string{"x"}, TimeoutMS: 400 * 24 * 3600 * 1000}), "timeoutMs"},
		"no schedule":                   {spec("a", workflow.KindSchedule, workflow.TaskInput{}), "cron"},
		"a schedule of six fields":      {spec("a", workflow.KindSchedule, workflow.TaskInput{Cron: "* * * * * *"}), "cron"},
		"a schedule every second":       {spec("a", workflow.KindSchedule, workflow.TaskInput{Cron: "@every 1s"}), "cron"},
		"a schedule of a long text":     {spec("a", workflow.KindSchedule, workflow.TaskInput{Cron: long}), "cron"},
		"a schedule with its own zone":  {spec("a", workflow.KindSchedule, workflow.TaskInput{Cron: "TZ=UTC 0 9 * * *"}), "cron"},
		"a schedule that never comes":   {spec("a", workflow.KindSchedule, workflow.TaskInput{Cron: "0 0 30 2 *"}), "cron"},
		"a zone that nobody knows":      {spec("a", workflow.KindSchedule, workflow.TaskInput{Cron: "0 9 * * *", Timezone: "Mars/Base"}), "timezone"},
		"the zone of the machine":       {spec("a", workflow.KindSchedule, workflow.TaskInput{Cron: "0 9 * * *", Timezone: "Local"}), "timezone"},
		"a file for a zone":             {spec("a", workflow.KindSchedule, workflow.TaskInput{Cron: "0 9 * * *", Timezone: "../../etc/passwd"}), "timezone"},
		"missed runs neither way":       {spec("a", workflow.KindSchedule, workflow.TaskInput{Cron: "0 9 * * *", Missed: "all"}), "missed"},
		"an end before the first run":   {spec("a", workflow.KindSchedule, workflow.TaskInput{Cron: "0 9 * * *", Until: begin.Add(time.Hour).UnixMilli()}), "until"},
		"an input of another shape":     {workflow.Spec{TaskID: "a", Kind: workflow.KindDelay, Description: "x", Input: json.RawMessage(`[]`)}, ""},
		"an input that is far too long": {workflow.Spec{TaskID: "a", Kind: workflow.KindDelay, Description: "x", Input: input(strings.Repeat(long, 10))}, "input"},
	} {
		t.Run(name, func(t *testing.T) {
			w, effects := workflow.Decide(workflow.Workflow{}, create("", c.spec), begin)
			r, is := effects[0].(workflow.Refuse)
			if !is || w.State != "" {
				t.Fatalf("it is %q with %v", w.State, told(effects))
			}
			if wire := fault.ToWire(r.Err); wire.Kind != fault.Invalid || wire.Field != c.field {
				t.Errorf("refused with %+v", wire)
			}
		})
	}
}

// A schedule follows the clock of its zone, also on the days on which that
// clock is changed.
func TestSchedulesFollowTheClockOfTheirZone(t *testing.T) {
	for name, c := range map[string]struct {
		zone, cron string
		from       time.Time
		want       []string
	}{
		"nine in Berlin through the change": {
			"Europe/Berlin", "0 9 * * *", time.Date(2026, 3, 27, 12, 0, 0, 0, time.UTC),
			[]string{"2026-03-28 08:00", "2026-03-29 07:00", "2026-03-30 07:00"},
		},
		"working days in New York": {
			"America/New_York", "30 8 * * mon-fri", time.Date(2026, 1, 2, 14, 0, 0, 0, time.UTC),
			[]string{"2026-01-05 13:30", "2026-01-06 13:30"},
		},
		"an hour that one night does not have": {
			"Europe/Berlin", "30 2 * * *", time.Date(2026, 3, 28, 12, 0, 0, 0, time.UTC),
			[]string{"2026-03-29 01:30", "2026-03-30 00:30"},
		},
		"every ten minutes": {"", "@every 10m", begin, []string{"2026-01-01 12:10", "2026-01-01 12:20"}},
		"the word for it":   {"", "@weekly", begin, []string{"2026-01-04 00:00", "2026-01-11 00:00"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec("s", workflow.KindSchedule, workflow.TaskInput{Cron: c.cron, Timezone: c.zone})
			w, effects := workflow.Decide(workflow.Workflow{}, create("", s), c.from)
			if w.State != workflow.Waiting {
				t.Fatal(told(effects))
			}
			var got []string
			for range c.want {
				due := time.UnixMilli(w.Due()).UTC()
				got = append(got, due.Format("2006-01-02 15:04"))
				w, _ = workflow.Decide(w, workflow.Tick{}, due)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}
