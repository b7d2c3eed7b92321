package e2e_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// The program is killed once during a conversation on Discord, around each of its steps, calls,
// and commits. Another message arrives while it is down. After the restart, both messages must be
// answered, exactly once and completely, and nothing may be left over. The long form tests all
// points five times, the short form a few of them.
func TestEveryMessageOnDiscordIsAnsweredOnce(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		points := discordPoints(t, bus)
		t.Logf("%d kill points", len(points))
		for _, point := range points {
			t.Run(strings.NewReplacer(":", "_", "/", "").Replace(point), func(t *testing.T) {
				t.Parallel()
				at, _, _ := strings.Cut(point, "#")
				for _, wrong := range crashOnDiscord(t, bus, at) {
					t.Error(wrong)
				}
			})
		}
	})
}

// sentAgain disables the safeguard without which answers are sent twice.
const sentAgain = "LILAC_WITHOUT=reconcile"

// With one safeguard disabled, the same crashes must make the test fail.
func TestControlCrashesOnDiscordWithoutProtectionAreNoticed(t *testing.T) {
	effort.SkipDetail(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		for _, c := range []struct{ name, at, without, want string }{
			{"a message that is not read again", "ingest", "LILAC_WITHOUT=position", "was not answered"},
			{"what may have been sent is sent again", "called:POST", sentAgain, "messages, want two questions and two answers"},
			{"an answer that nobody goes on showing", "outboxed:sent", "LILAC_WITHOUT=relays", "was not answered"},
			{"a run that is not taken up", "recorded:input", "LILAC_WITHOUT=recovery", "was not answered"},
		} {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				noticed(t, crashOnDiscord(t, bus, c.at, c.without), c.want)
			})
		}
	})
}

// discordActs lists the points that denote the same step in each run, in their order.
var discordActs = slices.Concat(
	[]string{"ingest", "ingested", "forward", "forwarded"}, around("record", "started"), around("record", "input"),
	[]string{"show:started", "shown:started", "outbox:planned", "outboxed:planned", "outbox:sending", "outboxed:sending", "call:POST", "called:POST", "outbox:sent", "outboxed:sent"},
	around("record", "model"), around("record", "tool_start"), around("record", "tool_end"), around("record", "end"),
	[]string{"show:ended", "shown:ended", "call:PATCH", "called:PATCH", "show:finished", "shown:finished"},
)

func around(act, kind string) []string { return []string{act + ":" + kind, act + "ed:" + kind} }

// discordPoints lists the points at which the conversation is killed.
func discordPoints(t *testing.T, bus e2e.Engine) (points []string) {
	t.Helper()
	if many(0, 1) == 0 {
		// Test some points of each phase. The two engines share them.
		for i := 0; i < len(discordActs); i += 5 {
			points = append(points, discordActs[i])
		}
		return effort.Sample(append(points, "called:PATCH"), 2)
	}
	model := newSeenModel(t)
	d := e2e.NewDiscord(t, discordtest.Options{})
	model.on.Store(d)
	s := e2e.Start(t, slices.Concat(bus(t), modelEnv(model.server.URL), d.Env(), []string{"LILAC_KILL_AT=count"})...)
	asked := d.MentionUs(d.General, d.Ada, "what is there?")
	d.Shown(d.General, "the answer is whole", answers(asked))
	e2e.Eventually(t, answerWithin, "nothing is left", func() bool { return leftOver(s) == 0 })
	for round := range 5 {
		for _, point := range discordActs {
			points = append(points, fmt.Sprintf("%s#%d", point, round))
		}
		for n := 1; n <= commits(t, s); n++ {
			points = append(points, fmt.Sprintf("before:%d#%d", n, round), fmt.Sprintf("after:%d#%d", n, round))
		}
	}
	return points
}

func answers(asked string) func(discordtest.Message) bool {
	return answerTo(asked)
}

// leftOver counts the rows that are still to be shown, sent, or processed.
func leftOver(s *e2e.Server) int {
	return s.Count(`SELECT (SELECT count(*) FROM relays WHERE live = 1) + (SELECT count(*) FROM outbox WHERE unfinished = 1) +
		(SELECT count(*) FROM requests WHERE state NOT IN ('done', 'failed', 'cancelled'))`)
}

// crashOnDiscord kills the program at a point of a conversation, lets the conversation continue,
// and returns the problems at the end.
func crashOnDiscord(t *testing.T, bus e2e.Engine, point string, env ...string) (wrong []string) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	model := newSeenModel(t)
	d := e2e.NewDiscord(t, discordtest.Options{})
	model.on.Store(d)
	s := e2e.New(t, slices.Concat(bus(t), modelEnv(model.server.URL), d.Env(), env)...)
	stage, _, _ := strings.Cut(point, ":")
	byNumber := stage == "before" || stage == "after"

	s.Spawn("LILAC_KILL_AT=" + point)
	killed := false
	e2e.Eventually(t, answerWithin, "the bot is connected", func() bool {
		if s.WaitExit(0) { // killed before the first message was handled
			killed = true
			s.Restart()
		}
		return s.Ready()
	})
	asked := d.MentionUs(d.General, d.Ada, "what is there?")
	if !killed {
		// If the conversation ends before the point is reached, kill the program then.
		e2e.Poll(answerWithin, func() bool {
			killed = s.WaitExit(0)
			return killed || byNumber && slices.ContainsFunc(d.Ours(d.General), answers(asked))
		})
		if !killed && !byNumber {
			add("the process was not killed")
		}
	}
	d.Kill(s)
	away := d.MentionUs(d.General, d.Bob, "and for me?")
	s.Restart()

	patience := answerWithin
	if len(env) > 0 && !slices.Contains(env, sentAgain) {
		patience = 5 * time.Second // a control waits for something that never happens
	}
	for _, question := range []string{asked, away} {
		if !e2e.Poll(patience, func() bool { return slices.ContainsFunc(d.Ours(d.General), answers(question)) }) {
			add("the question %s was not answered", question)
			break
		}
	}
	if len(wrong) == 0 && !e2e.Poll(answerWithin, func() bool { return leftOver(s) == 0 }) {
		add("%d things are left over", leftOver(s))
	}
	if all := d.Everything(d.General); len(all) != 4 {
		add("there are %d messages, want two questions and two answers: %+v", len(all), all)
	}
	if n := countEnds(s); n != 2 {
		add("requests ended %d times, want two", n)
	}
	return wrong
}

// seenModel is a chatModel that finishes only when users see the start of its answer, so that each
// answer is first sent and then edited.
type seenModel struct {
	server *llmtest.Server
	on     atomic.Pointer[e2e.Discord]
}

var messageID = regexp.MustCompile(`message_id=(\d+)\]`)

func newSeenModel(t testing.TB) *seenModel {
	m := &seenModel{}
	done := make(chan struct{})
	m.server = llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		if len(r.Messages[len(r.Messages)-1].Results) == 0 {
			return llmtest.Script{Text: llmtest.Words(lookingText), Calls: []llmtest.Call{{ID: fmt.Sprintf("call-%d", r.N), Name: "glob", Input: `{"pattern":"*.md"}`}}}
		}
		found := messageID.FindStringSubmatch(lastOfPerson(r))
		d := m.on.Load()
		e2e.Poll(answerWithin, func() bool {
			select {
			case <-done:
				return true
			default:
			}
			return found == nil || slices.ContainsFunc(d.Ours(d.General), func(m discordtest.Message) bool { return m.ReplyTo == found[1] })
		})
		return llmtest.Script{Text: llmtest.Words(endText)}
	})
	t.Cleanup(func() { close(done) })
	return m
}
