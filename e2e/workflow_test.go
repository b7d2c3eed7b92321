package e2e_test

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// askingModel runs a command that asks Bob in another channel when a user requests it, and reports
// Bob's reply when it is woken.
type askingModel struct {
	server *llmtest.Server
	mu     sync.Mutex
	// command is the command that it runs. woken counts the model calls that Bob's reply caused.
	command string
	woken   []string
	results []string
}

func newAskingModel(t testing.TB) *askingModel {
	m := &askingModel{}
	m.server = llmtest.New(t, m.answer)
	return m
}

func (m *askingModel) answer(r llmtest.Request) llmtest.Script {
	m.mu.Lock()
	defer m.mu.Unlock()
	last := r.Messages[len(r.Messages)-1]
	if len(last.Results) > 0 {
		for _, text := range last.Results {
			m.results = append(m.results, text)
		}
		return llmtest.Say("I asked Bob.")
	}
	if said := lastOfPerson(r); !strings.HasSuffix(said, "ask Bob") {
		m.woken = append(m.woken, said)
		if _, words, attributed := strings.Cut(said, "\n"); attributed {
			return llmtest.Say("Bob says: " + words)
		}
		return llmtest.Say(said)
	}
	return llmtest.Script{Calls: []llmtest.Call{{ID: "call-1", Name: "bash", Input: `{"command":` + strconv.Quote(m.command) + `}`}}}
}

func (m *askingModel) heard() (woken, results []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.woken), slices.Clone(m.results)
}

// ask lets Ada make a request in General, and returns the question to Bob in Lounge.
func (m *askingModel) ask(t *testing.T, d *e2e.Discord, more string) (question discordtest.Message) {
	t.Helper()
	m.mu.Lock()
	m.command = `tools workflow.send_and_wait --session-id=` + d.Lounge + ` --text="when is it?" --summary="Ada asked when it is; tell her what Bob says" ` + more
	m.mu.Unlock()
	d.MentionUs(d.General, d.Ada, "ask Bob")
	d.Shown(d.General, "the agent says that it asked", e2e.Finished("I asked Bob."))
	return d.Shown(d.Lounge, "the question is there", func(msg discordtest.Message) bool { return msg.Content == "when is it?" })
}

// requestsOf lists the requests, the oldest first.
func requestsOf(s *e2e.Server) (ids []string) {
	var list struct{ Requests []struct{ ID string } }
	s.Request("GET", "/requests?limit=100", nil, &list)
	for _, r := range list.Requests {
		ids = append(ids, r.ID)
	}
	slices.Reverse(ids)
	return ids
}

// workflowsOf lists the IDs and states of the workflows.
func workflowsOf(s *e2e.Server) (ids, states []string) {
	var list struct{ Workflows []struct{ ID, State string } }
	s.Request("GET", "/workflows", nil, &list)
	for _, w := range list.Workflows {
		ids, states = append(ids, w.ID), append(states, w.State)
	}
	return ids, states
}

// The agent asks a user elsewhere, and the reply comes while the program is down. The reply is
// reported once, in the conversation that asked, to the user who asked. It wakes the agent in no
// other conversation, although the channel of the reply is also one.
func TestAReplyDuringADowntimeIsReportedOnceWhereItWasAskedFor(t *testing.T) {
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newAskingModel(t)
		s, d := onDiscord(t, bus, model.server.URL)
		question := model.ask(t, d, "--mention")
		ids, states := workflowsOf(s)
		if !slices.Equal(states, []string{"waiting"}) {
			_, results := model.heard()
			t.Fatalf("workflows: %v %v; the command said %q", ids, states, results)
		}
		d.Kill(s)
		d.Say(d.Lounge, d.Bob, "Tuesday", discordtest.SayOptions{ReplyTo: question.ID})
		s.Restart()
		answer := d.Shown(d.General, "what Bob said is told", e2e.Finished("<@"+d.Ada.ID+"> Bob says: Tuesday"))
		if answer.ReplyTo != "" {
			t.Errorf("it replies to %s", answer.ReplyTo)
		}
		request := "wf:" + ids[0] + ":1"
		if story := s.WaitEnded(request, answerWithin); story.State != string(event.StateDone) {
			t.Errorf("%s ended as %s: %s", request, story.State, story.Detail)
		}
		d.Kill(s) // one more restart when everything is done
		s.Restart()
		e2e.Eventually(t, answerWithin, "the bot is connected again", func() bool { return d.Connected() > 0 })
		// A late reply belongs to the workflow too. The answer to a later message in the channel
		// shows that the reply was handled.
		d.Say(d.Lounge, d.Bob, "or Wednesday", discordtest.SayOptions{ReplyTo: question.ID})
		d.Say(d.Lounge, d.Bob, "something else", discordtest.SayOptions{})
		d.Shown(d.Lounge, "what is no reply is answered", func(m discordtest.Message) bool {
			return strings.Contains(m.Content, "something else") && len(m.Buttons) == 0
		})
		woken, _ := model.heard()
		if len(woken) != 2 || !strings.Contains(woken[0], "[discord user_id="+d.Bob.ID+" user_name=bob") || strings.Contains(woken[1], "Wednesday") {
			t.Errorf("the model was woken with %q", woken)
		}
		if all := requestsOf(s); len(all) != 3 || all[1] != request {
			t.Errorf("requests: %q", all)
		}
		if ours := d.Ours(d.General); len(ours) != 2 {
			t.Errorf("%d messages in the channel that asked: %+v", len(ours), ours)
		}
		if _, states := workflowsOf(s); !slices.Equal(states, []string{"resolved"}) {
			t.Errorf("the workflow is %v", states)
		}
	})
}

// A reply that woke the agent in the channel of the reply is in the history once, even if another
// user replies to it.
func TestAReplyThatWokeTheAgentIsNotToldAgain(t *testing.T) {
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newAskingModel(t)
		s, d := onDiscord(t, bus, model.server.URL)
		model.mu.Lock()
		model.command = `tools workflow.send_and_wait --session-id=` + d.General + ` --text="when is it?" --summary="find out when it is"`
		model.mu.Unlock()
		d.MentionUs(d.General, d.Ada, "ask Bob")
		question := d.Shown(d.General, "the question is there", func(m discordtest.Message) bool { return m.Content == "when is it?" })
		reply := d.Say(d.General, d.Bob, "Tuesday", discordtest.SayOptions{ReplyTo: question.ID})
		d.Shown(d.General, "what Bob said is told", e2e.Finished("Bob says: Tuesday"))
		asked := d.Say(d.General, d.Ada, d.Self().Mention()+" at noon?", discordtest.SayOptions{ReplyTo: reply})
		d.Shown(d.General, "the reply to it is answered", func(m discordtest.Message) bool { return m.ReplyTo == asked && len(m.Buttons) == 0 })
		s.WaitEnded(e2e.RequestID(d.General, asked), answerWithin)
		told := 0
		for _, m := range s.Messages(d.General) {
			if strings.Contains(m.Text(), "message_id="+reply+"]") {
				told++
			}
		}
		if told != 1 {
			t.Errorf("the reply is %d times in the history", told)
		}
	})
}

// Control: if the stored wait is deleted, the reply starts a request like any other message, in
// the wrong channel.
func TestAReplyOfWhichNothingIsKnownWakesTheWrongChannel(t *testing.T) {
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newAskingModel(t)
		s, d := onDiscord(t, bus, model.server.URL)
		question := model.ask(t, d, "")
		// Before the message is known, the next start would store the wait again.
		e2e.Eventually(t, answerWithin, "the wait for a reply to the question is stored", func() bool {
			return s.Count("SELECT count(*) FROM workflow_waits WHERE message_id = '"+question.ID+"'") == 1
		})
		d.Kill(s)
		s.Exec("DELETE FROM workflow_waits")
		d.Say(d.Lounge, d.Bob, "Tuesday", discordtest.SayOptions{ReplyTo: question.ID})
		s.Restart()
		d.Shown(d.Lounge, "it is answered where it was said", e2e.Holds("Tuesday"))
		if _, states := workflowsOf(s); !slices.Equal(states, []string{"waiting"}) {
			t.Errorf("the workflow is %v", states)
		}
	})
}

// A timeout wakes the agent too. The command line can list, show, and cancel a wait.
func TestWaitsEndAlsoWithoutAReply(t *testing.T) {
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newAskingModel(t)
		s, d := onDiscord(t, bus, model.server.URL)
		model.ask(t, d, "--timeout=8s")
		told := d.Shown(d.General, "the time-out is told", e2e.Holds("It did not come in time"))
		if told.ReplyTo != "" {
			t.Errorf("it replies to %s", told.ReplyTo)
		}
		model.ask(t, d, "--timeout=2d --key=again")
		var ids, states []string
		e2e.Eventually(t, answerWithin, "another one waits", func() bool {
			ids, states = workflowsOf(s)
			return slices.Equal(states, []string{"waiting", "resolved"})
		})
		for _, c := range [][2]string{
			{"workflows list", ids[0]},
			{"workflows show " + ids[0], "tell her what Bob says"},
			{"workflows cancel " + ids[0], "cancelled"},
			{"workflows show nope", "no workflow"},
		} {
			args, want := c[0], c[1]
			out, _ := command(t, s, strings.Fields(args)...)
			if !strings.Contains(out, want) {
				t.Errorf("lilac %s: %s", args, out)
			}
		}
	})
}

// Discord does not accept a question, and its workflow is canceled in the meantime. The question
// is not sent later, but the next question is. This also holds if the program had no connection to
// Discord when the workflow ended.
func TestTheQuestionOfACancelledWorkflowIsNotAsked(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	needsCommands(t)
	for name, more := range map[string][]string{"connected": nil, "without Discord": {"DISCORD_TOKEN="}} {
		t.Run(name, func(t *testing.T) {
			e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) { cancelBeforeItIsAsked(t, bus, more) })
		})
	}
}

func cancelBeforeItIsAsked(t *testing.T, bus e2e.Engine, cancelledWith []string) {
	model := newAskingModel(t)
	s, d := onDiscord(t, bus, model.server.URL)
	d.Fail(d.Lounge+"/messages", discordtest.BadGateway, 1000)
	model.mu.Lock()
	model.command = `tools workflow.send_and_wait --session-id=` + d.Lounge + ` --text="never mind" --summary=x`
	model.mu.Unlock()
	d.MentionUs(d.General, d.Ada, "ask Bob")
	d.Shown(d.General, "the agent says that it asked", e2e.Finished("I asked Bob."))
	e2e.Eventually(t, answerWithin, "it was tried", func() bool {
		return s.Count(`SELECT count(*) FROM outbox WHERE key LIKE 'workflow:%' AND CAST(json AS TEXT) LIKE '%"State":"unknown"%'`) == 1
	})
	usual := s.Env
	if len(cancelledWith) > 0 {
		d.Kill(s)
		s.Env = slices.Concat(usual, cancelledWith)
		s.Restart()
	}
	ids, _ := workflowsOf(s)
	if out, err := command(t, s, "workflows", "cancel", ids[0]); err != nil || !strings.Contains(out, "cancelled") {
		t.Fatalf("%v %s", err, out)
	}
	d.Kill(s)
	s.Env = usual
	d.ClearFaults()
	s.Restart()
	e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return d.Connected() > 0 })
	model.ask(t, d, "")
	if ours := d.Ours(d.Lounge); len(ours) != 1 {
		t.Errorf("in the lounge stands %+v", ours)
	}
}

// A reply counts even if it is older than the maximum age of messages to answer. Other messages of
// that age are ignored.
func TestAReplyOfALongDowntimeIsNotTooOld(t *testing.T) {
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newAskingModel(t)
		s, d := onDiscord(t, bus, model.server.URL, "backfill: {age: 1ms}")
		question := model.ask(t, d, "")
		d.Kill(s)
		d.Say(d.Lounge, d.Bob, "Tuesday", discordtest.SayOptions{ReplyTo: question.ID})
		d.Say(d.Lounge, d.Bob, "something old", discordtest.SayOptions{})
		d.ExpireSessions() // the gateway replays none of it
		s.Restart()
		d.Shown(d.General, "what Bob said is told", e2e.Finished("Bob says: Tuesday"))
		d.Say(d.Lounge, d.Bob, "something new", discordtest.SayOptions{})
		d.Shown(d.Lounge, "what is new is answered", e2e.Holds("something new"))
		if woken, _ := model.heard(); len(woken) != 2 || strings.Contains(woken[1], "old") {
			t.Errorf("the model was woken with %q", woken)
		}
	})
}
