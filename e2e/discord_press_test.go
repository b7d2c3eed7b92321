package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
)

// pressPoints lists the points at which the process is killed around a press of Stop.
var pressPoints = []struct {
	at string
	// again means that the press is lost: Discord reports a failure, and the user presses again.
	again bool
}{
	{at: "order", again: true},
	{at: "ordered"},
	{at: "call:ack"},
	{at: "called:ack"},
	{at: "settle"},
	{at: "settled"},
	{at: "call:tell"},
	{at: "called:tell"},
}

// A user presses Stop, and the process is killed while it handles that. The answer must be stopped
// once, and its message must say so. The user has to press again only if the press was neither
// acknowledged nor recorded.
func TestAPressOfStopOutlivesAKill(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		for i, point := range effort.Sample(pressPoints, 2) {
			for j, session := range []string{"resumed", "new"} {
				if many(0, 1) == 0 && (i+j)%2 == 0 {
					continue // half of the combinations
				}
				t.Run(strings.ReplaceAll(point.at, ":", "_")+"_"+session, func(t *testing.T) {
					t.Parallel()
					for _, wrong := range killAtPress(t, bus, point.at, session == "new", point.again) {
						t.Error(wrong)
					}
				})
			}
		}
	})
}

// If a press is not recorded before it is acknowledged, a kill loses it and the user is not told.
func TestControlAPressThatIsNotWrittenDownIsNoticed(t *testing.T) {
	effort.SkipDetail(t)
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		noticed(t, killAtPress(t, bus, "called:ack", true, false, "LILAC_WITHOUT=orders"), "the answer was not stopped")
	})
}

// killAtPress kills a server at a point after a press of Stop, restarts it with a new gateway
// session or the old one, and returns the problems at the end.
func killAtPress(t *testing.T, bus e2e.Engine, point string, newSession, again bool, env ...string) (wrong []string) {
	add := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	model := newChatModel(t)
	d := e2e.NewDiscord(t, discordtest.Options{})
	s := e2e.New(t, slices.Concat(bus(t), modelEnv(model.server.URL), d.Env(), env)...)
	s.Restart("LILAC_KILL_AT=" + point)
	e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return d.Connected() > 0 })
	asked := d.MentionUs(d.General, d.Ada, "what is there?")
	running := d.Shown(d.General, "the answer begins", func(m discordtest.Message) bool { return m.ReplyTo == asked && len(m.Buttons) == 1 })
	press := func() string { return d.Press(d.General, running.ID, d.Ada.ID, running.Buttons[0].ID) }
	pressed := press()
	if !s.WaitExit(answerWithin) {
		t.Fatalf("the process was not killed at %s", point)
	}
	d.Forgotten()
	if newSession {
		d.ExpireSessions()
	}
	s.Restart()
	e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return d.Connected() > 0 })
	if again && newSession {
		if d.Interaction(pressed).Acked {
			add("a press that is lost was acknowledged")
		}
		pressed = press()
	}

	patience := answerWithin
	if len(env) > 0 {
		patience = 5 * time.Second // a control waits for something that never happens
	}
	id := e2e.RequestID(d.General, asked)
	if !e2e.Poll(patience, func() bool { return s.Story(id).State == string(event.StateCancelled) }) {
		add("the answer was not stopped, it is %s", s.Story(id).State)
	}
	if !e2e.Poll(patience, func() bool {
		return slices.ContainsFunc(d.Ours(d.General), func(m discordtest.Message) bool {
			return m.ID == running.ID && len(m.Buttons) == 0 && strings.HasSuffix(m.Content, "⏹️ Stopped by @ada.")
		})
	}) {
		add("the message does not say who stopped it: %+v", d.Ours(d.General))
	}
	if !e2e.Poll(patience, func() bool {
		i := d.Interaction(pressed)
		return !i.Acked || len(i.Messages) == 1 && i.Messages[0].Content == "Stopped."
	}) {
		add("who pressed was told %+v", d.Interaction(pressed).Messages)
	}
	if len(wrong) == 0 && !e2e.Poll(answerWithin, func() bool { return leftOver(s) == 0 }) {
		add("%d things are left over", leftOver(s))
	}
	if n := countEnds(s); len(wrong) == 0 && n != 1 {
		add("the request ended %d times", n)
	}
	return wrong
}
