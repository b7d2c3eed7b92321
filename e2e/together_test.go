package e2e_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// The texts of the story that the tests below play.
const (
	wishText     = "post the release notes in #ops, ask @ann whether we ship, and tell me when she answers"
	notesText    = "Release 1.4: it starts faster."
	summaryText  = "Ada asked whether we ship; tell her what Ann says"
	saidText     = "The notes are posted, and I asked Ann."
	annsText     = "Yes, on Friday."
	reportText   = "Ann says: " + annsText
	asideText    = "By the way, lunch is at noon."
	asideAnswer  = "Enjoy it."
	questionText = "do we ship?"
)

// storyModel fulfills the wish with the command tools, one step at a time. If the outcome of a
// step is unknown, it checks the outcome and repeats the step only if there is none.
type storyModel struct {
	server *llmtest.Server
	mu     sync.Mutex
	// unknown lists the steps with an unknown outcome.
	unknown []string
}

func newStoryModel(t testing.TB) *storyModel {
	m := &storyModel{}
	m.server = llmtest.New(t, m.answer)
	return m
}

// The commands of the steps.
var storyCommands = map[string]string{
	"notes": `tools surface.messages.send --session-id=#ops --text="` + notesText + `" --output=json`,
	"look":  `tools surface.messages.list --session-id=#ops --output=json`,
	"ask":   `tools workflow.send_and_wait --session-id=#ops --text="@ann, ` + questionText + `" --summary="` + summaryText + `" --mention --timeout=3d --output=json`,
	"list":  `tools workflow.list --output=json`,
}

func (m *storyModel) answer(r llmtest.Request) llmtest.Script {
	switch said := lastOfPerson(r); {
	case strings.HasSuffix(said, asideText):
		return llmtest.Say(asideAnswer)
	case strings.HasSuffix(said, annsText):
		return llmtest.Say(reportText)
	}
	step, result := "", ""
	for id, text := range r.Messages[len(r.Messages)-1].Results {
		step, _, _ = strings.Cut(id, "-")
		result = text
	}
	unknown := strings.Contains(result, unknownOutcome)
	if unknown {
		m.mu.Lock()
		m.unknown = append(m.unknown, step)
		m.mu.Unlock()
	}
	next := ""
	switch step {
	case "":
		next = "notes"
	case "notes", "look":
		switch {
		case unknown:
			next = "look"
		case strings.Contains(result, `"messageId"`) && (step == "notes" || strings.Contains(result, notesText)):
			next = "ask"
		default:
			next = "notes"
		}
	case "ask", "list":
		switch {
		case unknown:
			next = "list"
		case strings.Contains(result, summaryText):
			return llmtest.Say(saidText)
		default:
			next = "ask"
		}
	}
	return llmtest.Script{Calls: []llmtest.Call{{
		ID: fmt.Sprintf("%s-%d", next, r.N), Name: "bash", Input: `{"command":` + strconv.Quote(storyCommands[next]) + `}`,
	}}}
}

func (m *storyModel) told() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.unknown)
}

// A moment is when the program is killed and when Ann replies.
type moment struct {
	// at is a point of LILAC_KILL_AT. #ops and #general stand for the channels.
	at string
	// told means that the point comes after Ann's reply.
	told bool
	// reply is when Ann replies.
	reply when
}

type when string

// Ann replies while the program runs, while it is down, or as soon as her question was sent and
// the program was killed at that moment.
const (
	whileUp      when = "while it runs"
	whileDown    when = "while it is down"
	inThatMoment when = "in that moment"
)

func (m moment) String() string {
	return strings.NewReplacer(":", "_", " ", "_", "#", "", "@", "-").Replace(fmt.Sprintf("%s, she replies %s", m.at, m.reply))
}

// The main use case: Ada makes a wish in one channel. The agent posts and asks in another channel,
// reports that, and ends. The program is killed at each step and between the steps. Ann replies,
// and Ada gets the result once, where she asked. The short form kills at some of the steps, the
// long form around every commit.
func TestAWishForAnotherChannelComesTrueOnceWhateverIsKilled(t *testing.T) {
	effort.SkipDetail(t)
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		moments := shortMoments
		if many(0, 1) > 0 {
			moments = longMoments(t, bus)
		}
		t.Logf("%d moments", len(moments))
		for i, m := range moments {
			t.Run(fmt.Sprintf("%03d_%s", i, m), func(t *testing.T) {
				t.Parallel()
				for _, wrong := range newStory(t, bus).tell(m) {
					t.Error(wrong)
				}
			})
		}
	})
}

// With one safeguard disabled, the same story must make the test fail.
func TestControlAWishWithoutProtectionComesTrueTwiceOrNever(t *testing.T) {
	effort.SkipDetail(t)
	needsCommands(t)
	t.Parallel()
	for _, c := range []struct {
		name, without string
		moment
		forget string
		want   string
	}{
		{"what may have been sent is sent again", "reconcile", moment{at: "called:POST:#ops"}, "", "2 times in #ops"},
		{"a step that is forgotten", "journal", moment{at: "record:tool_end"}, "", "was not told that nobody knows"},
		{"what is waited for is forgotten", "", moment{at: "ingested", told: true, reply: whileDown}, "DELETE FROM workflow_waits", "was not told"},
	} {
		t.Run(c.name, func(t *testing.T) {
			e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
				s := newStory(t, bus, "LILAC_WITHOUT="+c.without)
				s.control, s.forget = true, c.forget
				noticed(t, s.tell(c.moment), c.want)
			})
		})
	}
}

// For the same wish on the page, with a restart, Ada gets the result on the page.
func TestAWishOnThePageIsReportedThere(t *testing.T) {
	needsCommands(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		y := newStory(t, bus)
		y.begin(false)
		session := y.s.NewSession()
		wish := y.s.Prompt(session, wishText, event.Prompt)
		y.s.WaitEnded(wish.RequestID, answerWithin)
		y.until("the question is there", func() bool { return y.question() != "" })
		y.kill()
		y.reply()
		y.begin(false)
		ids, _ := workflowsOf(y.s)
		if len(ids) != 1 {
			t.Fatalf("the workflows are %v", ids)
		}
		y.s.WaitEnded("wf:"+ids[0]+":1", answerWithin)
		var answers []string
		for _, m := range y.s.Messages(session) {
			if text := m.Text(); m.Role == "assistant" && text != "" {
				answers = append(answers, text)
			}
		}
		if !slices.Equal(answers, []string{saidText, reportText}) {
			t.Errorf("on the page stands %q", answers)
		}
		if ours := y.d.Ours(y.ops); len(ours) != 2 {
			t.Errorf("in #ops stands %+v", ours)
		}
		for _, wrong := range y.wrong {
			t.Error(wrong)
		}
	})
}

// shortMoments is a sample of each part of the story.
var shortMoments = []moment{
	{at: "recorded:tool_start", reply: whileUp},              // nothing was sent
	{at: "called:POST:#ops", reply: whileDown},               // the notes were sent, but the program does not know that
	{at: "outboxed:tool:sent", reply: whileUp},               // the program knows that they were sent, but the command does not
	{at: "record:tool_start@2", reply: whileDown},            // between the two steps
	{at: "waited:waiting", reply: whileUp},                   // the wait is recorded, but the command does not know that
	{at: "called:POST:#ops@2", reply: inThatMoment},          // Ann gets the question and replies before the program knows about it
	{at: "record:end", reply: whileDown},                     // the end of the first answer
	{at: "waited:resolved", told: true, reply: whileUp},      // Ann has replied, but the agent is not awake yet
	{at: "call:POST:#general", told: true, reply: whileDown}, // the report
}

// longMoments lists all points of the story, every time that they are reached, and those around
// each commit.
func longMoments(t *testing.T, bus e2e.Engine) (all []moment) {
	t.Helper()
	replies := []when{whileUp, whileDown, inThatMoment}
	add := func(told bool, times int, acts ...string) {
		for _, act := range acts {
			for n := 1; n <= times; n++ {
				all = append(all, moment{at: fmt.Sprintf("%s@%d", act, n), told: told, reply: replies[len(all)%len(replies)]})
			}
		}
	}
	shown := []string{"show:started", "shown:started", "show:ended", "shown:ended", "show:finished", "shown:finished"}
	add(false, 1, slices.Concat([]string{"ingest", "ingested", "forward", "forwarded"}, around("record", "started"), around("record", "input"), around("record", "end"), shown)...)
	add(false, 3, around("record", "model")...)
	add(false, 2, slices.Concat(around("record", "tool_start"), around("record", "tool_end"), []string{"wait:waiting", "waited:waiting", "call:POST:#ops", "called:POST:#ops"})...)
	for _, owner := range []string{"tool:", "workflow:"} {
		for _, state := range []string{"planned", "sending", "sent"} {
			add(false, 1, "outbox:"+owner+state, "outboxed:"+owner+state)
		}
	}
	for i := range replies { // once the question was sent but its ID is unknown
		all = append(all, moment{at: "called:POST:#ops@2", reply: replies[i]}, moment{at: "outbox:workflow:sent", reply: replies[i]})
	}
	replies = replies[:2]
	for range replies {
		add(true, 1, slices.Concat([]string{"ingest", "ingested", "wait:resolved", "waited:resolved", "call:POST:#general", "called:POST:#general"},
			around("record", "started"), around("record", "input"), around("record", "model"), around("record", "end"), shown)...)
		replies[0], replies[1] = replies[1], replies[0]
	}
	for _, told := range []bool{false, true} {
		s := newStory(t, bus)
		for _, wrong := range s.tell(moment{at: "count", told: told, reply: whileDown}) {
			t.Fatal(wrong)
		}
		for n := 1; n <= s.commits; n++ {
			for _, stage := range []string{"before", "after"} {
				all = append(all, moment{at: fmt.Sprintf("%s:%d", stage, n), told: told, reply: replies[n%len(replies)]})
			}
		}
	}
	return all
}

// A story is one run of the story.
type story struct {
	t     *testing.T
	d     *e2e.Discord
	s     *e2e.Server
	model *storyModel
	ops   string
	ann   discordtest.User
	// control means that a problem is expected. forget is what the test does to the database
	// before Ann replies.
	control bool
	forget  string
	// patience is the timeout of each wait.
	patience time.Duration

	at              string
	killed, replied bool   // the program was killed; Ann replied
	onKill          func() // called right after the kill
	commits         int    // number of commits in the part of the story that counts them
	wrong           []string
}

func newStory(t *testing.T, bus e2e.Engine, env ...string) *story {
	t.Helper()
	y := &story{t: t, d: e2e.NewDiscord(t, discordtest.Options{}), model: newStoryModel(t), patience: answerWithin, onKill: func() {}}
	y.ops, y.ann = y.d.Channel(y.d.Guild, "operations"), y.d.User("ann")
	y.d.Join(y.d.Guild, y.ann, "")
	// A message in #ops wakes the agent, unless a workflow takes it.
	y.d.Set("channels", fmt.Sprintf("{%q: {mode: active}}", y.ops))
	y.d.Configure(fmt.Sprintf("entity: {users: {discord: {ann: %q}}, sessions: {discord: {ops: %q}}}\n", y.ann.ID, y.ops))
	y.s = e2e.New(t, slices.Concat(bus(t), modelEnv(y.model.server.URL), y.d.Env(), env)...)
	return y
}

func (y *story) add(format string, args ...any) {
	y.wrong = append(y.wrong, fmt.Sprintf(format, args...))
}

// begin starts the program. The program kills itself at the moment's point if here is true.
func (y *story) begin(here bool) {
	y.t.Helper()
	if here {
		y.s.Spawn("LILAC_KILL_AT=" + y.at)
	} else {
		y.s.Spawn()
	}
	y.until("the bot is connected", func() bool { return y.s.Ready() && y.d.Connected() > 0 })
}

// kill kills the program.
func (y *story) kill() {
	y.d.Kill(y.s)
}

// until waits for a condition, and restarts the program after it was killed.
func (y *story) until(what string, cond func() bool) bool {
	y.t.Helper()
	ok := e2e.Poll(y.patience, func() bool {
		if y.s.WaitExit(0) {
			y.killed = true
			y.d.Forgotten()
			y.onKill()
			y.s.Spawn()
		}
		return cond()
	})
	if !ok {
		y.add("not within %s: %s", y.patience, what)
	}
	return ok
}

// question returns the ID of the question to Ann, if it was sent.
func (y *story) question() (id string) {
	for _, m := range y.d.Ours(y.ops) {
		if strings.HasSuffix(m.Content, questionText) {
			id = m.ID
		}
	}
	return id
}

func (y *story) reply() {
	if to := y.question(); to != "" && !y.replied {
		y.replied = true
		y.d.Say(y.ops, y.ann, annsText, discordtest.SayOptions{ReplyTo: to})
	}
}

// tell runs the story with a kill at the moment, and returns the problems.
func (y *story) tell(m moment) []string {
	y.t.Helper()
	y.at = strings.NewReplacer("#ops", y.ops, "#general", y.d.General).Replace(m.at)
	if m.reply == inThatMoment {
		y.onKill = y.reply
	}
	y.begin(!m.told)
	wish := y.d.MentionUs(y.d.General, y.d.Ada, wishText)
	said := func(text string) func() bool {
		return func() bool { return slices.ContainsFunc(y.d.Ours(y.d.General), e2e.Finished(text)) }
	}
	if !y.until("the agent says that it asked", said(saidText)) || !y.until("the question is there", func() bool { return y.question() != "" }) {
		return y.wrong
	}
	if !m.told {
		y.count(m)
	}
	y.kill()
	if y.forget != "" {
		y.s.Exec(y.forget)
	}
	if m.reply == whileDown {
		y.reply()
	}
	y.begin(m.told)
	y.reply()
	report := "<@" + y.d.Ada.ID + "> " + reportText
	if y.control {
		y.patience = 10 * time.Second // for something that may not happen
	}
	if !y.until("Ada is told", said(report)) {
		y.add("Ada was not told")
		y.check(m, wish, report)
		return y.wrong
	}
	if m.told {
		y.count(m)
	}
	y.kill() // one more restart when everything is done
	y.begin(false)
	// The answer to a message after Ann's reply shows that her reply was handled.
	y.d.Say(y.ops, y.d.Bob, asideText, discordtest.SayOptions{})
	y.until("what follows is answered", func() bool { return slices.ContainsFunc(y.d.Ours(y.ops), e2e.Finished(asideAnswer)) })
	y.until("nothing is left over", func() bool { return leftOver(y.s) == 0 })
	y.check(m, wish, report)
	return y.wrong
}

// count records whether the program was killed, or how many commits it made.
func (y *story) count(m moment) {
	y.t.Helper()
	switch stage, _, _ := strings.Cut(m.at, ":"); {
	case stage == "count":
		y.commits = commits(y.t, y.s)
	case stage != "before" && stage != "after" && !y.until("the program is killed", func() bool { return y.killed }):
	}
}

// check returns the problems at the end of the story.
func (y *story) check(m moment, wish, report string) {
	y.t.Helper()
	for _, c := range []struct {
		channel, name, text string
		pings               []string
	}{
		{y.ops, "#ops", notesText, nil},
		{y.ops, "#ops", y.ann.Mention() + ", " + questionText, []string{y.ann.ID}},
		{y.ops, "#ops", asideAnswer, nil},
		{y.d.General, "#general", saidText, nil},
		{y.d.General, "#general", report, []string{y.d.Ada.ID}},
	} {
		times := 0
		for _, message := range y.d.Ours(c.channel) {
			if message.Content != c.text {
				continue
			}
			times++
			if c.pings != nil && !slices.Equal(message.Pings, c.pings) {
				y.add("%q notifies %v, want %v", c.text, message.Pings, c.pings)
			}
			if replies := map[string]string{saidText: wish, report: ""}; message.ReplyTo != replies[c.text] && c.channel == y.d.General {
				y.add("%q replies to %q", c.text, message.ReplyTo)
			}
		}
		if times != 1 {
			y.add("%q is %d times in %s", c.text, times, c.name)
		}
	}
	if ops, general := len(y.d.Ours(y.ops)), len(y.d.Ours(y.d.General)); ops != 3 || general != 2 {
		y.add("there are %d messages of ours in #ops and %d in #general: %+v %+v", ops, general, y.d.Ours(y.ops), y.d.Ours(y.d.General))
	}
	ids, states := workflowsOf(y.s)
	if !slices.Equal(states, []string{"resolved"}) {
		y.add("the workflows are %v", states)
		return
	}
	want := []string{e2e.RequestID(y.d.General, wish), "wf:" + ids[0] + ":1"}
	requests := requestsOf(y.s)
	if len(requests) != 3 || !slices.Equal(requests[:2], want) {
		y.add("the requests are %q, want %q and one for what Bob said", requests, want)
	}
	for _, id := range requests {
		if info := y.s.Story(id); info.State != string(event.StateDone) {
			y.add("%s ended as %s: %s", id, info.State, info.Detail)
		}
	}
	if n := countEnds(y.s); n != len(requests) {
		y.add("requests ended %d times", n)
	}
	// The command had started, but its end was not recorded.
	if interrupted := []string{"recorded:tool_start", "record:tool_end"}; slices.Contains(interrupted, strings.TrimSuffix(m.at, "@1")) && !slices.Equal(y.model.told(), []string{"notes"}) {
		y.add("the model was not told that nobody knows what became of its first command, but of %q", y.model.told())
	}
}
