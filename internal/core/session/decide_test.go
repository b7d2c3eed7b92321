package session_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/session"
	"lilac/internal/foundation/event"
)

// Columns: the name, the earlier inputs, the input, and its effects. An effect is written as "kind
// request message queue|state"; see spell.
func TestDecide(t *testing.T) {
	msg := func(id, request string, q event.Queue) session.Message {
		return session.Message{MessageID: id, RequestID: request, Queue: q, Client: "web"}
	}
	running := []session.Input{msg("m1", "web:s:r1", event.Prompt)}
	with := func(before []session.Input, more ...session.Input) []session.Input {
		return append(append([]session.Input{}, before...), more...)
	}
	steered := with(running, msg("m2", "web:s:r1", event.Steer))
	queued := with(running, msg("m2", "web:s:r2", event.Prompt))
	closing := with(running, session.Cancel{RequestID: "web:s:r1", Reason: "Stop."})
	over := with(running, session.WouldEnd{RequestID: "web:s:r1"})
	anyActive := func(m session.Message) session.Message { m.AnyActive = true; return m }
	orElse := func(m session.Message, id string) session.Message { m.ElseRequestID = id; return m }
	held := func(m session.Message) session.Message { m.NoSlot = true; return m }
	waits := []session.Input{held(msg("m1", "web:s:r1", event.Prompt))}

	of := func(rule string, m session.Message) session.Message {
		m.Rule, m.AnyActive, m.ElseRequestID = rule, true, m.RequestID
		return m
	}
	handles := with(running, of("r", msg("e1", "web:s:e1", event.FollowUp)), session.WouldEnd{RequestID: "web:s:r1"})
	charged := session.Recovered{Culprit: true, Turn: session.OnTrial}
	waiting := with(running, session.Recovered{Turn: session.Waiting})
	paused := with(running, session.LimitReached{RequestID: "web:s:r1"})
	pausedToday := with(running, session.LimitReached{RequestID: "web:s:r1", Pause: session.Pause{Day: "2026-01-02"}})
	says := func(m session.Message, a session.Answer) session.Message { m.Answer = a; return m }
	by := func(m session.Message, author string) session.Message { m.Author = author; return m }
	pausedOfAnn := []session.Input{by(msg("m1", "web:s:r1", event.Prompt), "ann"), session.LimitReached{RequestID: "web:s:r1"}}
	answers := func(m session.Message, pause int) session.Message {
		m.Answer, m.AnswersPause = session.Continue, pause
		return m
	}

	crowd := with(running)
	for n := range session.MaxWaiting {
		crowd = with(crowd, msg(fmt.Sprint("s", n), "web:s:r1", event.Steer), msg(fmt.Sprint("q", n), fmt.Sprint("web:s:q", n), event.Prompt))
	}

	for _, c := range []struct {
		name   string
		before []session.Input
		in     session.Input
		want   []string
	}{
		{
			"prompt to an idle session starts", nil, msg("m1", "web:s:r1", event.Prompt),
			[]string{"create web:s:r1 m1", "store web:s:r1 m1 prompt", "start web:s:r1", "state web:s:r1 running", "apply web:s:r1 m1 prompt"},
		},
		{
			"prompt behind a running request waits", running, msg("m2", "web:s:r2", event.Prompt),
			[]string{"create web:s:r2 m2", "store web:s:r2 m2 prompt", "state web:s:r2 queued"},
		},
		{
			"prompt that names the running request is a followUp", running, msg("m2", "web:s:r1", event.Prompt),
			[]string{"store web:s:r1 m2 followUp", "wake web:s:r1"},
		},
		{
			"prompt that names a queued request joins it", queued, msg("m3", "web:s:r2", event.Prompt),
			[]string{"store web:s:r2 m3 prompt"},
		},
		{
			"prompt with anyActive still waits its turn", running, anyActive(msg("m2", "web:s:r2", event.Prompt)),
			[]string{"create web:s:r2 m2", "store web:s:r2 m2 prompt", "state web:s:r2 queued"},
		},
		{
			"prompt without room for a run waits", nil, held(msg("m1", "web:s:r1", event.Prompt)),
			[]string{"create web:s:r1 m1", "store web:s:r1 m1 prompt", "state web:s:r1 queued"},
		},
		{
			"room starts what waited",
			[]session.Input{held(msg("m1", "web:s:r1", event.Prompt))},
			session.SlotFree{},
			[]string{"start web:s:r1", "state web:s:r1 running", "apply web:s:r1 m1 prompt"},
		},

		{
			"steer while tools run waits for the step", running, msg("m2", "web:s:r1", event.Steer),
			[]string{"store web:s:r1 m2 steer", "wake web:s:r1"},
		},
		{
			"steer is taken before the next model call", steered,
			session.StepBoundary{RequestID: "web:s:r1"},
			[]string{"apply web:s:r1 m2 steer"},
		},
		{
			"steers that the run did not read come before prompts that wait",
			with(steered, msg("p1", "web:s:p1", event.Prompt), msg("m3", "web:s:r1", event.Steer),
				session.Cancel{RequestID: "web:s:r1"}, session.Ended{RequestID: "web:s:r1", State: event.StateCancelled}),
			session.WouldEnd{RequestID: "web:s:m2"},
			[]string{"state web:s:m2 done", "start web:s:m3", "state web:s:m3 running", "apply web:s:m3 m3 prompt"},
		},
		{"steer is taken once", with(steered, session.StepBoundary{RequestID: "web:s:r1"}), session.StepBoundary{RequestID: "web:s:r1"}, nil},
		{
			"steer as the run ends keeps it going", steered,
			session.WouldEnd{RequestID: "web:s:r1"},
			[]string{"apply web:s:r1 m2 steer"},
		},
		{
			"steer with anyActive joins whatever runs", running, anyActive(msg("m2", "web:s:else", event.Steer)),
			[]string{"store web:s:r1 m2 steer", "wake web:s:r1"},
		},
		{
			"steer for a queued request joins it", queued, msg("m3", "web:s:r2", event.Steer),
			[]string{"store web:s:r2 m3 prompt"},
		},
		{
			"steer for an unknown request becomes it", running, msg("m2", "web:s:r9", event.Steer),
			[]string{"create web:s:r9 m2", "store web:s:r9 m2 prompt", "state web:s:r9 queued"},
		},
		{
			"steer for a run that was cancelled becomes a prompt", closing, msg("m2", "web:s:r1", event.Steer),
			[]string{"create web:s:m2 m2", "store web:s:m2 m2 prompt", "state web:s:m2 queued"},
		},

		{
			"followUp to an idle session is a prompt", nil, anyActive(msg("m1", "web:s:r1", event.FollowUp)),
			[]string{"create web:s:r1 m1", "store web:s:r1 m1 prompt", "start web:s:r1", "state web:s:r1 running", "apply web:s:r1 m1 prompt"},
		},
		{"followUp is not taken between steps", with(running, msg("m2", "web:s:r1", event.FollowUp)), session.StepBoundary{RequestID: "web:s:r1"}, nil},
		{
			"followUp is taken when the run would have ended", with(running, msg("m2", "web:s:r1", event.FollowUp)),
			session.WouldEnd{RequestID: "web:s:r1"},
			[]string{"apply web:s:r1 m2 followUp"},
		},

		{
			"interrupt stops the model now", running, msg("m2", "web:s:r1", event.Interrupt),
			[]string{"store web:s:r1 m2 interrupt", "wake web:s:r1", "interrupt web:s:r1"},
		},
		{
			"two interrupts are applied in order", with(running, msg("m2", "web:s:r1", event.Interrupt), msg("m3", "web:s:r1", event.Interrupt)),
			session.StepBoundary{RequestID: "web:s:r1"},
			[]string{"apply web:s:r1 m2 interrupt", "apply web:s:r1 m3 interrupt"},
		},

		{
			"message for a request that is over becomes a prompt under its own id", over, msg("m2", "web:s:r1", event.Steer),
			[]string{"create web:s:m2 m2", "store web:s:m2 m2 prompt", "start web:s:m2", "state web:s:m2 running", "apply web:s:m2 m2 prompt"},
		},
		{
			"message for a request that is over becomes its elseRequestId", over, orElse(msg("m2", "web:s:r1", event.FollowUp), "web:s:r7"),
			[]string{"create web:s:r7 m2", "store web:s:r7 m2 prompt", "start web:s:r7", "state web:s:r7 running", "apply web:s:r7 m2 prompt"},
		},
		{
			"prompt for a request that is over does not open it again", over, msg("m2", "web:s:r1", event.Prompt),
			[]string{"create web:s:m2 m2", "store web:s:m2 m2 prompt", "start web:s:m2", "state web:s:m2 running", "apply web:s:m2 m2 prompt"},
		},
		{
			"message for a request that the store knows to be over", nil,
			session.Message{MessageID: "m2", RequestID: "web:s:old", Queue: event.Steer, Unusable: []string{"web:s:old"}},
			[]string{"create web:s:m2 m2", "store web:s:m2 m2 prompt", "start web:s:m2", "state web:s:m2 running", "apply web:s:m2 m2 prompt"},
		},
		{"duplicate message is dropped", running, msg("m1", "web:s:r1", event.Prompt), []string{"ignore web:s:r1 m1"}},
		{"duplicate that only the store remembers is dropped", running, session.Message{MessageID: "m0", RequestID: "web:s:r0", Queue: event.Prompt, Duplicate: true}, []string{"ignore web:s:r0 m0"}},

		{
			"the end of a run is done, and the next starts", queued,
			session.WouldEnd{RequestID: "web:s:r1"},
			[]string{"state web:s:r1 done", "start web:s:r2", "state web:s:r2 running", "apply web:s:r2 m2 prompt"},
		},
		{
			"a failed run gives its steer to a new request", steered,
			session.Ended{RequestID: "web:s:r1", State: event.StateFailed, Detail: "No."},
			[]string{"state web:s:r1 failed", "create web:s:m2 m2", "move web:s:m2 m2", "state web:s:m2 queued", "start web:s:m2", "state web:s:m2 running", "apply web:s:m2 m2 prompt"},
		},
		{"the end of a run that is over already is ignored", over, session.Ended{RequestID: "web:s:r1", State: event.StateFailed}, nil},

		{"cancel stops the run", running, session.Cancel{RequestID: "web:s:r1"}, []string{"cancel web:s:r1"}},
		{
			"cancel keeps a waiting steer as a prompt", steered,
			session.Cancel{RequestID: "web:s:r1"},
			[]string{"cancel web:s:r1", "create web:s:m2 m2", "move web:s:m2 m2", "state web:s:m2 queued"},
		},
		{
			"cancel with the queue drops a waiting steer", steered,
			session.Cancel{RequestID: "web:s:r1", CancelQueued: true},
			[]string{"cancel web:s:r1", "discard m2"},
		},
		{"cancel leaves queued work alone", queued, session.Cancel{RequestID: "web:s:r1"}, []string{"cancel web:s:r1"}},
		{
			"cancel with the queue cancels queued work", queued,
			session.Cancel{RequestID: "web:s:r1", CancelQueued: true},
			[]string{"cancel web:s:r1", "discard m2", "state web:s:r2 cancelled"},
		},
		{
			"queued work that cannot be read fails", queued,
			session.RowDamaged{RequestID: "web:s:r2"},
			[]string{"discard m2", "state web:s:r2 failed"},
		},
		{
			"damaged queued work fails before the input is decided", with(queued, msg("m3", "web:s:r3", event.Prompt)),
			session.DamagedQueue{Rows: []session.RowDamaged{{RequestID: "web:s:r2"}}, Next: session.WouldEnd{RequestID: "web:s:r1"}},
			[]string{"discard m2", "state web:s:r2 failed", "state web:s:r1 done", "start web:s:r3", "state web:s:r3 running", "apply web:s:r3 m3 prompt"},
		},
		{"work that runs is not waiting", running, session.RowDamaged{RequestID: "web:s:r1"}, nil},
		{"cancel of queued work", queued, session.Cancel{RequestID: "web:s:r2"}, []string{"discard m2", "state web:s:r2 cancelled"}},
		{"cancel of what runs, whatever its id", running, session.Cancel{RequestID: "web:s:stop", AnyActive: true}, []string{"cancel web:s:r1"}},
		{"cancel of what runs leaves queued work alone", queued, session.Cancel{RequestID: "web:s:stop", AnyActive: true}, []string{"cancel web:s:r1"}},
		{"cancel of what would run next", waits, session.Cancel{RequestID: "web:s:stop", AnyActive: true}, []string{"discard m1", "state web:s:r1 cancelled"}},
		{"cancel of what runs is ignored when nothing does", over, session.Cancel{RequestID: "web:s:stop", AnyActive: true}, []string{"ignore web:s:stop"}},
		{"cancel of a request that is over is ignored", over, session.Cancel{RequestID: "web:s:r1"}, []string{"ignore web:s:r1"}},
		{"a cancelled run ends as cancelled", closing, session.Ended{RequestID: "web:s:r1", State: event.StateCancelled}, []string{"state web:s:r1 cancelled"}},
		{"a cancelled run that had just finished ends as cancelled", closing, session.WouldEnd{RequestID: "web:s:r1"}, []string{"state web:s:r1 cancelled"}},

		{"restart with nothing", nil, session.Recovered{}, nil},
		{"restart while a request runs takes it up", running, session.Recovered{}, []string{"resume web:s:r1"}},
		{"restart while a steer waits keeps it waiting", steered, session.Recovered{}, []string{"resume web:s:r1"}},
		{
			"restart with work queued",
			[]session.Input{held(msg("m1", "web:s:r1", event.Prompt))},
			session.Recovered{},
			[]string{"start web:s:r1", "state web:s:r1 running", "apply web:s:r1 m1 prompt"},
		},
		{
			"a run that reached a limit asks and waits", steered,
			session.LimitReached{RequestID: "web:s:r1"},
			[]string{"pause web:s:r1"},
		},
		{
			"a cancelled run that reached a limit ends", closing,
			session.LimitReached{RequestID: "web:s:r1"},
			[]string{"state web:s:r1 cancelled"},
		},
		{"a run that is over cannot reach a limit", over, session.LimitReached{RequestID: "web:s:r1"}, nil},
		{
			"the answer continue takes the run up again", paused, says(msg("m2", "web:s:r1", event.Steer), session.Continue),
			[]string{"store web:s:r1 m2 steer", "answer web:s:r1", "apply web:s:r1 m2 steer", "resume web:s:r1"},
		},
		{
			"the answer may come as a prompt with a name of its own", paused, says(msg("m2", "web:s:r2", event.Prompt), session.Continue),
			[]string{"store web:s:r1 m2 steer", "answer web:s:r1", "apply web:s:r1 m2 steer", "resume web:s:r1"},
		},
		{
			"the answer stop ends the request, and what waits starts", with(paused, msg("m2", "web:s:r2", event.Prompt)),
			says(msg("m3", "web:s:r1", event.Steer), session.Stop),
			[]string{
				"store web:s:r1 m3 steer", "answer web:s:r1", "apply web:s:r1 m3 steer", "state web:s:r1 cancelled",
				"start web:s:r2", "state web:s:r2 running", "apply web:s:r2 m2 prompt",
			},
		},
		{
			"the answer of the person who asked counts", pausedOfAnn, by(says(msg("m2", "web:s:r1", event.Steer), session.Continue), "ann"),
			[]string{"store web:s:r1 m2 steer", "answer web:s:r1", "apply web:s:r1 m2 steer", "resume web:s:r1"},
		},
		{
			"the answer of another person does not", pausedOfAnn, by(says(msg("m2", "web:s:r1", event.Steer), session.Continue), "bob"),
			[]string{"ask web:s:r1", "store web:s:r1 m2 steer", "wake web:s:r1"},
		},
		{
			"the operator may answer for everybody", pausedOfAnn, answers(msg("m2", "web:s:r1", event.Steer), 1),
			[]string{"store web:s:r1 m2 steer", "answer web:s:r1", "apply web:s:r1 m2 steer", "resume web:s:r1"},
		},
		{
			"an answer to a question that is over is dropped", with(paused, says(msg("m2", "web:s:r1", event.Steer), session.Continue)),
			answers(msg("m3", "web:s:r1", event.Steer), 1),
			[]string{"ignore web:s:r1 m3"},
		},
		{
			"an answer to another question is dropped", paused, answers(msg("m3", "web:s:r1", event.Steer), 2),
			[]string{"ignore web:s:r1 m3"},
		},
		{
			"a prompt that is no answer waits, and the question is shown again", paused, msg("m2", "web:s:r2", event.Prompt),
			[]string{"ask web:s:r1", "create web:s:r2 m2", "store web:s:r2 m2 prompt", "state web:s:r2 queued"},
		},
		{
			"a steer that is no answer waits for the run", paused, msg("m2", "web:s:r1", event.Steer),
			[]string{"ask web:s:r1", "store web:s:r1 m2 steer", "wake web:s:r1"},
		},
		{"nothing is taken in a pause", with(paused, msg("m2", "web:s:r1", event.Steer)), session.StepBoundary{RequestID: "web:s:r1"}, nil},
		{"a pause outlives a restart", paused, session.Recovered{Culprit: true}, nil},
		{
			"a cancel in the pause ends the request", paused,
			session.Cancel{RequestID: "web:s:r1"},
			[]string{"state web:s:r1 cancelled"},
		},
		{
			"a pause that nobody answers fails the request", paused,
			session.Expired{RequestID: "web:s:r1", Pause: 1},
			[]string{"state web:s:r1 failed"},
		},
		{
			"a pause at a daily limit ends with the day", pausedToday,
			session.DayOver{RequestID: "web:s:r1", Pause: 1},
			[]string{"answer web:s:r1", "resume web:s:r1"},
		},
		{"a pause at another limit does not end with the day", paused, session.DayOver{RequestID: "web:s:r1", Pause: 1}, nil},
		{"the day of an earlier pause is nothing", pausedToday, session.DayOver{RequestID: "web:s:r1", Pause: 2}, nil},
		{"an alarm of an earlier pause is nothing", paused, session.Expired{RequestID: "web:s:r1", Pause: 2}, nil},

		{
			"a message is refused when too many wait", crowd, msg("m", "web:s:r", event.Prompt),
			[]string{"create web:s:r m", "store web:s:r m prompt", "discard m", "state web:s:r failed"},
		},
		{
			"a steer is refused when too many wait, under an id of its own", crowd, msg("m", "web:s:r1", event.Steer),
			[]string{"create web:s:m m", "store web:s:m m prompt", "discard m", "state web:s:m failed"},
		},
		{
			"a message for a queued request is refused when too many wait, and the request stays", crowd, msg("m", "web:s:q0", event.Prompt),
			[]string{"create web:s:m m", "store web:s:m m prompt", "discard m", "state web:s:m failed"},
		},
		{
			"control: one message less and it waits", crowd[:len(crowd)-1], msg("m", "web:s:r", event.Prompt),
			[]string{"create web:s:r m", "store web:s:r m prompt", "state web:s:r queued"},
		},

		{
			"an event joins the running request", running, of("r", msg("e1", "web:s:e1", event.FollowUp)),
			[]string{"store web:s:r1 e1 followUp", "wake web:s:r1"},
		},
		{
			"an event does not join if a prompt waits", queued, of("r", msg("e1", "web:s:e1", event.FollowUp)),
			[]string{"create web:s:e1 e1", "store web:s:e1 e1 prompt", "state web:s:e1 queued"},
		},
		{
			"nor as a steer", queued, of("r", msg("e1", "web:s:e1", event.Steer)),
			[]string{"create web:s:e1 e1", "store web:s:e1 e1 prompt", "state web:s:e1 queued"},
		},
		{
			"events of a rule that wait share a request", with(queued, of("r", msg("e1", "web:s:e1", event.FollowUp))),
			of("r", msg("e2", "web:s:e2", event.FollowUp)),
			[]string{"store web:s:e1 e2 prompt"},
		},
		{
			"events of another rule have their own", with(queued, of("r", msg("e1", "web:s:e1", event.FollowUp))),
			of("q", msg("e2", "web:s:e2", event.FollowUp)),
			[]string{"create web:s:e2 e2", "store web:s:e2 e2 prompt", "state web:s:e2 queued"},
		},
		{
			"an event waits while another of its rule is handled", handles, of("r", msg("e2", "web:s:e2", event.FollowUp)),
			[]string{"create web:s:e2 e2", "store web:s:e2 e2 prompt", "state web:s:e2 queued"},
		},
		{
			"control: an event of another rule joins", handles, of("q", msg("e2", "web:s:e2", event.FollowUp)),
			[]string{"store web:s:r1 e2 followUp", "wake web:s:r1"},
		},
		{
			"a request ends without its events if a prompt waits",
			with(running, of("r", msg("e1", "web:s:e1", event.FollowUp)), msg("m2", "web:s:r2", event.Prompt)),
			session.WouldEnd{RequestID: "web:s:r1"},
			[]string{
				"state web:s:r1 done", "create web:s:e1 e1", "move web:s:e1 e1", "state web:s:e1 queued",
				"start web:s:r2", "state web:s:r2 running", "apply web:s:r2 m2 prompt",
			},
		},

		{"restart while a run was closing ends it", closing, session.Recovered{}, []string{"state web:s:r1 cancelled"}},
		{
			"the fourth stop that is charged to a request fails it", with(queued, charged, charged, charged),
			session.Recovered{Culprit: true},
			[]string{"state web:s:r1 failed", "start web:s:r2", "state web:s:r2 running", "apply web:s:r2 m2 prompt"},
		},
		{"control: the third is resumed", with(queued, charged, charged), charged, []string{"resume web:s:r1"}},
		{
			"stops that another request caused fail nothing", with(queued, session.Recovered{}, session.Recovered{}, session.Recovered{}, session.Recovered{}),
			session.Recovered{},
			[]string{"resume web:s:r1"},
		},
		{
			"a finished model call clears the charges", with(queued, charged, charged, charged, session.Progressed{RequestID: "web:s:r1"}),
			charged,
			[]string{"resume web:s:r1"},
		},
		{
			"a clean stop clears the charges", with(queued, charged, charged, charged, session.Drained{RequestID: "web:s:r1"}, session.Recovered{}),
			charged,
			[]string{"resume web:s:r1"},
		},
		{
			"a stop without the request clears its charges",
			with(queued, charged, charged, session.Recovered{Culprit: true, Turn: session.Waiting}, session.Recovered{}),
			charged,
			[]string{"resume web:s:r1"},
		},
		{"a request that waits for its turn has no run", running, session.Recovered{Turn: session.Waiting}, nil},
		{"its turn comes", waiting, session.TurnCame{RequestID: "web:s:r1"}, []string{"resume web:s:r1"}},
		{"its turn comes once", with(waiting, session.TurnCame{RequestID: "web:s:r1"}), session.TurnCame{RequestID: "web:s:r1"}, nil},
		{
			"a request that waits for its turn applies nothing", with(waiting, msg("m2", "web:s:r1", event.Steer)),
			session.WouldEnd{RequestID: "web:s:r1"},
			nil,
		},
		{
			"a request that was cancelled while it waited ends in its turn", with(waiting, session.Cancel{RequestID: "web:s:r1"}),
			session.TurnCame{RequestID: "web:s:r1"},
			[]string{"state web:s:r1 cancelled"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s session.State
			for _, in := range c.before {
				s, _ = session.Decide(s, in, time.Time{})
			}
			before := fmt.Sprintf("%+v %+v", s, s.Active)
			_, effects := session.Decide(s, c.in, time.Time{})
			var got []string
			for _, e := range effects {
				got = append(got, spell(e))
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("effects (-want +got):\n%s", d)
			}
			if after := fmt.Sprintf("%+v %+v", s, s.Active); after != before {
				t.Errorf("Decide modified its argument:\n%s\n%s", before, after)
			}
		})
	}
}

func TestContinueAddsToTheConsumptionAtThatTime(t *testing.T) {
	for name, c := range map[string]struct {
		limit      session.Limit
		used, want int64
	}{
		"nobody used more":      {"day.steps", 4, 4},
		"others used more":      {"day.steps", 8, 8},
		"what is used is known": {"request.steps", 0, 4},
	} {
		pause := session.Pause{Reached: session.Reached{Limit: c.limit, Used: 4, Allowed: 4, More: 4}}
		var s session.State
		for _, in := range []session.Input{
			session.Message{MessageID: "m1", RequestID: "web:s:r1", Queue: event.Prompt},
			session.LimitReached{RequestID: "web:s:r1", Pause: pause},
			session.Message{MessageID: "m2", RequestID: "web:s:r1", Queue: event.Steer, Answer: session.Continue, Used: c.used},
		} {
			s, _ = session.Decide(s, in, time.Time{})
		}
		if got := s.Raised[c.limit]; got != c.want {
			t.Errorf("%s: raised by %d, want %d", name, got, c.want)
		}
	}
}

// spell formats an effect in the notation of the table.
func spell(e session.Effect) string {
	switch e := e.(type) {
	case session.CreateRequest:
		return "create " + e.RequestID + " " + e.MessageID
	case session.StoreMessage:
		return fmt.Sprintf("store %s %s %s", e.RequestID, e.MessageID, e.Queue)
	case session.MoveMessage:
		return "move " + e.RequestID + " " + e.MessageID
	case session.DiscardMessage:
		return "discard " + e.MessageID
	case session.ApplyMessage:
		return fmt.Sprintf("apply %s %s %s", e.RequestID, e.MessageID, e.Queue)
	case session.ChangeState:
		return fmt.Sprintf("state %s %s", e.RequestID, e.State)
	case session.StartRun:
		return "start " + e.RequestID
	case session.ResumeRun:
		return "resume " + e.RequestID
	case session.PauseRun:
		return "pause " + e.RequestID
	case session.RepeatQuestion:
		return "ask " + e.RequestID
	case session.RecordAnswer:
		return "answer " + e.RequestID
	case session.WakeRun:
		return "wake " + e.RequestID
	case session.InterruptRun:
		return "interrupt " + e.RequestID
	case session.CancelRun:
		return "cancel " + e.RequestID
	case session.IgnoreCommand:
		return strings.TrimSpace("ignore " + e.RequestID + " " + e.MessageID)
	}
	return fmt.Sprintf("unknown effect %T", e)
}
