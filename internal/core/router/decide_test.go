package router_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/router"
	"lilac/internal/foundation/event"
)

var rules = router.Rules{Debounce: router.Debounce{Wait: 3 * time.Second, Max: 10 * time.Second}}

const (
	running = "discord:10:1"
	fresh   = "discord:10:5"
)

// states of the session when the message arrives.
var states = map[string]router.State{
	"idle":     {},
	"starting": {Requests: []router.Request{{ID: running, Since: at(0).UnixMilli(), Outputs: []string{"out"}}}},
	"running":  {Requests: []router.Request{{ID: running, Since: at(0).UnixMilli(), Running: true, Outputs: []string{"out"}}}},
}

func at(d time.Duration) time.Time { return time.UnixMilli(1_000_000).Add(d) }

// kinds of messages.
var kinds = map[string]router.Message{
	"plain":                              {},
	"mention":                            {Mentions: true},
	"reply to the output":                {ReplyTo: "out", ReplyToUs: true},
	"reply to the output with a mention": {ReplyTo: "out", ReplyToUs: true, Mentions: true},
	"reply to what will be the output":   {ReplyTo: "new", ReplyToUs: true, ReplyToRequest: running},
	"reply to another of our messages":   {ReplyTo: "old", ReplyToUs: true},
	"reply to another and mention":       {ReplyTo: "old", ReplyToUs: true, Mentions: true},
	"reply to a person":                  {ReplyTo: "theirs"},
	"reply to a person with a mention":   {ReplyTo: "theirs", Mentions: true},
	"interrupt":                          {Mentions: true, Interrupts: true},
}

func forward(q event.Queue, request string, ids ...string) router.Effect {
	return router.Forward{Queue: q, RequestID: request, MessageIDs: ids}
}

// acknowledgments counts the acknowledgments of messages among effects, and returns the others.
func acknowledgments(effects []router.Effect) (n int, others []router.Effect) {
	for _, e := range effects {
		switch e.(type) {
		case router.Acknowledge, router.Unacknowledge:
			n++
		default:
			others = append(others, e)
		}
	}
	return n, others
}

// decided is like [router.Decide] without the acknowledgments.
func decided(s router.State, in router.Input, now time.Time) (router.State, []router.Effect) {
	after, effects := router.Decide(s, in, now)
	_, effects = acknowledgments(effects)
	return after, effects
}

// The rules of the specification, one row for each mode, state and kind.
func TestTheRulesDecideWhichMessageWakesTheAgent(t *testing.T) {
	prompt := []router.Effect{forward(event.Prompt, fresh, "5")}
	followUp := []router.Effect{forward(event.FollowUp, running, "5")}
	steer := []router.Effect{forward(event.Steer, running, "5"), router.Reanchor{RequestID: running, MessageID: "5"}}
	steerInherit := []router.Effect{forward(event.Steer, running, "5"), router.Reanchor{RequestID: running, MessageID: "5", Inherit: true}}
	interrupt := []router.Effect{forward(event.Interrupt, running, "5"), router.Reanchor{RequestID: running, MessageID: "5", Inherit: true}}
	var nothing []router.Effect

	type row struct{ idle, busy []router.Effect }
	for mode, rows := range map[router.Mode]map[string]row{
		router.Direct: {
			"plain":                              {prompt, followUp},
			"mention":                            {prompt, followUp},
			"reply to the output":                {prompt, followUp},
			"reply to the output with a mention": {prompt, steer},
			"reply to what will be the output":   {prompt, followUp},
			"reply to another of our messages":   {prompt, prompt},
			"reply to another and mention":       {prompt, prompt},
			"reply to a person":                  {prompt, followUp},
			"reply to a person with a mention":   {prompt, followUp},
			"interrupt":                          {prompt, interrupt},
		},
		router.Mention: {
			"plain":                              {nothing, nothing},
			"mention":                            {prompt, prompt},
			"reply to the output":                {prompt, followUp},
			"reply to the output with a mention": {prompt, steer},
			"reply to what will be the output":   {prompt, followUp},
			"reply to another of our messages":   {prompt, prompt},
			"reply to another and mention":       {prompt, prompt},
			"reply to a person":                  {nothing, nothing},
			"reply to a person with a mention":   {prompt, prompt},
			"interrupt":                          {prompt, interrupt},
		},
		router.Active: {
			"plain":                              {nothing, followUp}, // idle: it waits for the debounce
			"mention":                            {prompt, steerInherit},
			"reply to the output":                {prompt, followUp},
			"reply to the output with a mention": {prompt, steer},
			"reply to what will be the output":   {prompt, followUp},
			"reply to another of our messages":   {prompt, prompt},
			"reply to another and mention":       {prompt, prompt},
			"reply to a person":                  {nothing, followUp},
			"reply to a person with a mention":   {prompt, steerInherit},
			"interrupt":                          {prompt, interrupt},
		},
	} {
		if len(rows) != len(kinds) {
			t.Fatalf("%s has %d rows, there are %d kinds", mode, len(rows), len(kinds))
		}
		for kind, want := range rows {
			for state, s := range states {
				t.Run(fmt.Sprintf("%s/%s/%s", mode, state, kind), func(t *testing.T) {
					m := kinds[kind]
					m.ID, m.RequestID, m.Mode = "5", fresh, mode
					effects := want.busy
					if state == "idle" {
						effects = want.idle
					}
					_, got := router.Decide(s, router.Input{Event: m, Rules: rules}, at(0))
					acknowledged, got := acknowledgments(got)
					if diff := cmp.Diff(effects, got); diff != "" {
						t.Errorf("-want +got\n%s", diff)
					}
					// In active sessions, people also talk to each other.
					chat := mode == router.Active && (kind == "plain" || kind == "reply to a person")
					if want := len(got) > 0 && state != "idle" && !chat; (acknowledged == 1) != want {
						t.Errorf("%d acknowledgments, want one: %v", acknowledged, want)
					}
				})
			}
		}
	}
}

func TestSomeMessagesWakeNobody(t *testing.T) {
	for name, m := range map[string]router.Message{
		"our own message":                 {FromSelf: true, Mentions: true},
		"another program's":               {FromBot: true, Mentions: true},
		"a reply that a workflow takes":   {Claimed: true, ReplyToUs: true},
		"a channel message without facts": {FactsMissing: true, Mentions: true},
		"what the model has already":      {Delivered: true, Mentions: true},
	} {
		t.Run(name, func(t *testing.T) {
			for _, mode := range []router.Mode{router.Mention, router.Active} {
				m.ID, m.RequestID, m.Mode = "5", fresh, mode
				if s, got := decided(router.State{}, router.Input{Event: m, Rules: rules}, at(0)); got != nil || len(s.Buffer) > 0 {
					t.Errorf("%s: %v", mode, got)
				}
			}
		})
	}
	_, got := decided(router.State{}, router.Input{Event: router.Message{ID: "5", RequestID: fresh, Mode: router.Direct, FactsMissing: true}, Rules: rules}, at(0))
	if len(got) != 1 {
		t.Error("a private message without facts is not answered")
	}
}

// played is a session that events happen to.
type played struct {
	t     *testing.T
	state router.State
	rules router.Rules
	// history, if set, has the facts about the messages.
	history *router.History
}

// does decides about an event. It also checks that the decision leaves its input
// state as it was.
func (p *played) does(after time.Duration, e router.Event, want ...router.Effect) {
	p.t.Helper()
	given := p.state
	before, err := json.Marshal(given)
	if err != nil {
		p.t.Fatal(err)
	}
	var got []router.Effect
	p.state, got = decided(given, router.Input{Event: e, Rules: p.rules, History: p.history}, at(after))
	if diff := cmp.Diff(want, got); diff != "" {
		p.t.Errorf("after %s: -want +got\n%s", after, diff)
	}
	if now, err := json.Marshal(given); err != nil || string(now) != string(before) {
		p.t.Errorf("after %s: the state that was given became %s, it was %s (%v)", after, now, before, err)
	}
}

func message(mode router.Mode, id string) router.Message {
	return router.Message{ID: id, RequestID: "discord:10:" + id, Mode: mode}
}

func mentioning(m router.Message) router.Message {
	m.Mentions = true
	return m
}

func TestTwoMessagesTenMillisecondsApart(t *testing.T) {
	t.Run("in private the second follows up the request that is starting", func(t *testing.T) {
		p := &played{t: t, rules: rules}
		p.does(0, message(router.Direct, "1"), forward(event.Prompt, "discord:10:1", "1"))
		p.does(10*time.Millisecond, message(router.Direct, "2"), forward(event.FollowUp, "discord:10:1", "2"))
	})
	t.Run("two mentions are two requests", func(t *testing.T) {
		p := &played{t: t, rules: rules}
		p.does(0, mentioning(message(router.Mention, "1")), forward(event.Prompt, "discord:10:1", "1"))
		p.does(10*time.Millisecond, mentioning(message(router.Mention, "2")), forward(event.Prompt, "discord:10:2", "2"))
	})
}

func TestABurstWaitsForItsEnd(t *testing.T) {
	p := &played{t: t, rules: rules}
	p.does(0, message(router.Active, "1"))
	p.does(2*time.Second, message(router.Active, "2"))
	p.does(3*time.Second, router.Due{RequestID: "b1"}) // too early: the second moved it
	p.does(4*time.Second, router.Deleted{ID: "1"})
	p.does(5*time.Second, router.Due{RequestID: "b1"}, forward(event.Prompt, "b1", "2"))
	p.does(6*time.Second, message(router.Active, "3"), forward(event.FollowUp, "b1", "3"))
}

func TestAnEmptyBurstIsForgotten(t *testing.T) {
	p := &played{t: t, rules: rules}
	p.does(0, message(router.Active, "1"))
	p.does(time.Second, message(router.Active, "2"))
	p.does(time.Second, router.Deleted{ID: "1"})
	if p.state.Empty() {
		t.Error("the message that is left is not known")
	}
	p.does(2*time.Second, router.Deleted{ID: "2"})
	if s := p.state; len(s.Buffer) != 0 || s.First != 0 || s.Due != 0 {
		t.Errorf("this is still known: %+v", p.state)
	}
	p.does(2*time.Minute, message(router.Mention, "3")) // now no copy of them can come
	if !p.state.Empty() {
		t.Errorf("this is still known after minutes: %+v", p.state)
	}
}

// After the clock was set back by hours, a burst waits as long as planned, from then
// on, also if another message arrives.
func TestAClockThatIsSetBackRestartsTheDebounce(t *testing.T) {
	const back = -5 * time.Hour
	t.Run("at its time", func(t *testing.T) {
		p := &played{t: t, rules: rules}
		p.does(0, message(router.Active, "1"))
		p.does(2*time.Second, message(router.Active, "2"))
		p.does(back, router.Due{RequestID: "b1"})
		p.does(back+4*time.Second, router.Due{RequestID: "b1"})
		p.does(back+5*time.Second, router.Due{RequestID: "b1"}, forward(event.Prompt, "b1", "1", "2"))
	})
	t.Run("with another message", func(t *testing.T) {
		p := &played{t: t, rules: rules}
		p.does(0, message(router.Active, "1"))
		p.does(back, message(router.Active, "2"))
		p.does(back+3*time.Second, router.Due{RequestID: "b1"}, forward(event.Prompt, "b1", "1", "2"))
	})
	t.Run("control: by less than it has waited", func(t *testing.T) {
		p := &played{t: t, rules: rules}
		p.does(0, message(router.Active, "1"))
		p.does(time.Second, router.Due{RequestID: "b1"})
		p.does(3*time.Second, router.Due{RequestID: "b1"}, forward(event.Prompt, "b1", "1"))
	})
}

func TestABurstWaitsNoLongerThanItsMaximum(t *testing.T) {
	p := &played{t: t, rules: rules}
	var ids []string
	for i := range 5 {
		id := fmt.Sprint(i)
		ids = append(ids, id)
		p.does(time.Duration(i)*2400*time.Millisecond, message(router.Active, id))
	}
	if want := at(10 * time.Second).UnixMilli(); p.state.Due != want {
		t.Errorf("due at %d, want %d", p.state.Due, want)
	}
	p.does(10*time.Second, router.Due{RequestID: "b1"}, forward(event.Prompt, "b1", ids...))
}

// A message leaves the burst if somebody asks about it, or if a reply delivers it.
func TestDeliveredMessagesLeaveTheBurst(t *testing.T) {
	for name, c := range map[string]struct {
		told []string
		want []router.Effect
	}{
		"none of it": {nil, []router.Effect{forward(event.Prompt, "b1", "1", "2")}},
		"a part":     {[]string{"0", "1"}, []router.Effect{forward(event.Prompt, "b1", "2")}},
		"all of it":  {[]string{"1", "2"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := &played{t: t, rules: rules}
			p.does(0, message(router.Active, "1"))
			p.does(0, message(router.Active, "2"))
			p.does(time.Second, router.Delivered{RequestID: "discord:10:1", MessageIDs: c.told})
			if len(c.want) == 0 && !p.state.Empty() {
				t.Errorf("this is still known: %+v", p.state)
			}
			p.does(3*time.Second, router.Due{RequestID: "b1"}, c.want...)
		})
	}
}

// A reply that arrives before its question delivers it. Both are answered together,
// unless the reply is deleted before its request runs.
func TestAQuestionIsAnsweredWithTheReplyThatDeliveredIt(t *testing.T) {
	question, reply := mentioning(message(router.Mention, "1")), mentioning(message(router.Mention, "2"))
	question.Delivered, reply.ReplyTo = true, "1"
	brought := router.Delivered{RequestID: reply.RequestID, MessageIDs: []string{"1", "2"}}
	alone := []router.Effect{router.Undeliver{MessageIDs: []string{"1", "2"}}, forward(event.Prompt, question.RequestID, "1")}
	for name, c := range map[string]struct {
		before []router.Event
		then   router.Event
		want   []router.Effect
	}{
		"answered":            {[]router.Event{router.Lifecycle{RequestID: reply.RequestID, State: event.StateRunning}}, router.Lifecycle{RequestID: reply.RequestID, State: event.StateDone}, nil},
		"stopped":             {[]router.Event{router.Lifecycle{RequestID: reply.RequestID, State: event.StateRunning}}, router.Lifecycle{RequestID: reply.RequestID, State: event.StateCancelled}, nil},
		"withdrawn":           {nil, router.Deleted{ID: "2", RequestID: reply.RequestID}, append([]router.Effect{router.Cancel{RequestID: reply.RequestID}}, alone...)},
		"ended as it waited":  {[]router.Event{router.Lifecycle{RequestID: reply.RequestID, State: event.StateQueued}}, router.Lifecycle{RequestID: reply.RequestID, State: event.StateCancelled}, alone},
		"both are withdrawn":  {[]router.Event{router.Deleted{ID: "1", RequestID: question.RequestID}}, router.Deleted{ID: "2", RequestID: reply.RequestID}, append([]router.Effect{router.Cancel{RequestID: reply.RequestID}}, alone[:1]...)},
		"withdrawn, too late": {[]router.Event{router.Lifecycle{RequestID: reply.RequestID, State: event.StateRunning}}, router.Deleted{ID: "2", RequestID: reply.RequestID}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			p := &played{t: t, rules: rules}
			p.does(0, reply, forward(event.Prompt, reply.RequestID, "2"))
			p.does(0, brought)
			p.does(time.Second, question)
			for _, in := range c.before {
				p.does(time.Second, in)
			}
			p.does(time.Second, c.then, c.want...)
		})
	}
}

func TestAMentionTakesTheBurstWithIt(t *testing.T) {
	p := &played{t: t, rules: rules}
	p.does(0, message(router.Active, "1"))
	p.does(time.Second, mentioning(message(router.Active, "2")), forward(event.Prompt, "discord:10:2", "1", "2"))
	p.does(3*time.Second, router.Due{RequestID: "b1"})
}

func TestTheGateDecidesOnBurstsOnly(t *testing.T) {
	gated := rules
	gated.Gate = true
	t.Run("skipped", func(t *testing.T) {
		p := &played{t: t, rules: gated}
		p.does(0, message(router.Active, "1"))
		p.does(3*time.Second, router.Due{RequestID: "b1"}, router.AskGate{MessageIDs: []string{"1"}})
		p.does(4*time.Second, message(router.Active, "2"))
		p.does(7*time.Second, router.Due{RequestID: "b2"}) // one burst after the other
		p.does(7*time.Second, router.Gated{RequestID: "b1"})
		p.does(7*time.Second, router.Due{RequestID: "b2"}, router.AskGate{MessageIDs: []string{"2"}})
		p.does(8*time.Second, router.Gated{RequestID: "b2", Forward: true}, forward(event.Prompt, "b2", "2"))
		p.does(8*time.Second, router.Gated{RequestID: "b2", Forward: true})
	})
	t.Run("without what is deleted meanwhile", func(t *testing.T) {
		p := &played{t: t, rules: gated}
		p.does(0, message(router.Active, "1"))
		p.does(0, message(router.Active, "2"))
		p.does(3*time.Second, router.Due{RequestID: "b1"}, router.AskGate{MessageIDs: []string{"1", "2"}})
		p.does(4*time.Second, router.Deleted{ID: "2"})
		p.does(5*time.Second, router.Gated{RequestID: "b1", Forward: true}, forward(event.Prompt, "b1", "1"))
	})
	t.Run("about a burst of which nothing is left, before the next", func(t *testing.T) {
		p := &played{t: t, rules: gated}
		p.does(0, message(router.Active, "1"))
		p.does(3*time.Second, router.Due{RequestID: "b1"}, router.AskGate{MessageIDs: []string{"1"}})
		p.does(3*time.Second, router.Deleted{ID: "1"})
		p.does(3*time.Second, message(router.Active, "2"))
		p.does(6*time.Second, router.Due{RequestID: "b2"})
		p.does(6*time.Second, router.Gated{RequestID: "b1"})
		p.does(6*time.Second, router.Due{RequestID: "b2"}, router.AskGate{MessageIDs: []string{"2"}})
	})
	t.Run("a mention passes it", func(t *testing.T) {
		p := &played{t: t, rules: gated}
		p.does(0, mentioning(message(router.Active, "1")), forward(event.Prompt, "discord:10:1", "1"))
	})
	t.Run("what began meanwhile gets the burst", func(t *testing.T) {
		p := &played{t: t, rules: gated}
		p.does(0, message(router.Active, "1"))
		p.does(3*time.Second, router.Due{RequestID: "b1"}, router.AskGate{MessageIDs: []string{"1"}})
		p.does(4*time.Second, mentioning(message(router.Active, "2")), forward(event.Prompt, "discord:10:2", "2"))
		p.does(5*time.Second, router.Gated{RequestID: "b1", Forward: true}, forward(event.FollowUp, "discord:10:2", "1"))
	})
}

func TestTheRouterTracksRunningRequests(t *testing.T) {
	p := &played{t: t, rules: rules}
	one, two := "discord:10:1", "discord:10:2"
	p.does(0, mentioning(message(router.Mention, "1")), forward(event.Prompt, one, "1"))
	p.does(1, router.Lifecycle{RequestID: one, State: event.StateRunning})
	p.does(2, router.Output{RequestID: one, MessageID: "out1"})
	p.does(3, mentioning(message(router.Mention, "2")), forward(event.Prompt, two, "2"))
	p.does(4, router.Lifecycle{RequestID: two, State: event.StateQueued})
	reply := message(router.Mention, "3")
	reply.ReplyTo, reply.ReplyToUs = "out1", true
	p.does(5, reply, forward(event.FollowUp, one, "3"))
	p.does(6, router.Lifecycle{RequestID: one, State: event.StateDone})
	p.does(7, router.Lifecycle{RequestID: two, State: event.StateRunning})
	// The first answer is over: a reply to it is a request of its own.
	reply.ID, reply.RequestID = "4", "discord:10:4"
	p.does(8, reply, forward(event.Prompt, "discord:10:4", "4"))
	p.does(9, router.Lifecycle{RequestID: two, State: event.StateFailed})
	p.does(10, router.Lifecycle{RequestID: "discord:10:4", State: event.StateCancelled})
	if len(p.state.Requests) != 0 {
		t.Errorf("nothing runs, the router knows %v", p.state.Requests)
	}
}

func TestAQueuedQuestionCanBeEditedAndDeleted(t *testing.T) {
	p := &played{t: t, rules: rules}
	one, two := "discord:10:1", "discord:10:2"
	p.does(0, mentioning(message(router.Mention, "1")), forward(event.Prompt, one, "1"))
	p.does(1, router.Lifecycle{RequestID: one, State: event.StateRunning})
	p.does(2, mentioning(message(router.Mention, "2")), forward(event.Prompt, two, "2"))
	p.does(3, router.Lifecycle{RequestID: two, State: event.StateQueued})
	p.does(4, router.Edited{ID: "2", RequestID: two, At: 7}, router.Forward{Queue: event.Prompt, RequestID: two, MessageIDs: []string{"2"}, Edited: 7})
	p.does(5, router.Deleted{ID: "2", RequestID: two}, router.Cancel{RequestID: two})
	// What runs has been told, and what nobody asked about is nobody's question.
	p.does(6, router.Edited{ID: "1", RequestID: one, At: 8})
	p.does(6, router.Deleted{ID: "1", RequestID: one})
	p.does(6, router.Edited{ID: "3", RequestID: "discord:10:3", At: 9})
	p.does(6, router.Deleted{ID: "3", RequestID: "discord:10:3"})
}

func TestMessagesJoinRequestsOfOtherCores(t *testing.T) {
	p := &played{t: t, rules: rules}
	p.does(0, router.Lifecycle{RequestID: "wf:7:1", State: event.StateStreaming})
	p.does(1, message(router.Direct, "1"), forward(event.FollowUp, "wf:7:1", "1"))
}

func TestAStaleRequestIsForgottenAfterTheClockWasSetBack(t *testing.T) {
	p := &played{t: t, rules: rules}
	const ahead = 50 * time.Hour
	p.does(ahead, message(router.Direct, "1"), forward(event.Prompt, "discord:10:1", "1"))
	p.does(0, message(router.Direct, "2"), forward(event.FollowUp, "discord:10:1", "2"))
	p.does(2*time.Hour, message(router.Direct, "3"), forward(event.Prompt, "discord:10:3", "3"))
}

func TestAStaleRequestIsForgotten(t *testing.T) {
	p := &played{t: t, rules: rules}
	p.does(0, message(router.Direct, "1"), forward(event.Prompt, "discord:10:1", "1"))
	p.does(2*time.Hour, message(router.Direct, "2"), forward(event.Prompt, "discord:10:2", "2"))
}
