package relay_test

import (
	"slices"
	"testing"
	"time"

	"lilac/internal/core/relay"
	"lilac/internal/foundation/event"
)

// Edits notify nobody, so the end of an answer does: the person who asked, if it took long, and people
// whose names came with an edit.
func TestTheEndOfAnAnswerNotifiesThoseWhomNoMessageDid(t *testing.T) {
	answer := relay.View{Key: "0.0", Text: "<@7> and <@8> know", Users: []string{"7", "8"}}
	pinged := func(users ...string) relay.Message {
		m := sentMessage("")
		m.Pinged = users
		return m
	}
	slow := time.Minute
	five := func() []relay.Asker { return []relay.Asker{{UserID: "5"}} }
	for name, c := range map[string]struct {
		message   relay.Message
		askers    []relay.Asker
		took      time.Duration
		pingAfter time.Duration
		state     event.RequestState
		want      []string
	}{
		"control: everybody was notified":    {pinged("7", "8"), five(), slow - time.Millisecond, slow, event.StateDone, nil},
		"a name came with an edit":           {pinged("7"), five(), 0, slow, event.StateDone, []string{"8"}},
		"all names came with an edit":        {pinged(), five(), 0, slow, event.StateDone, []string{"7", "8"}},
		"it took long":                       {pinged("7", "8"), five(), slow, slow, event.StateDone, []string{"5"}},
		"it took long, and a name came late": {pinged("7"), five(), slow, slow, event.StateDone, []string{"5", "8"}},
		"two asked":                          {pinged("7", "8"), []relay.Asker{{UserID: "5"}, {UserID: "6"}}, slow, slow, event.StateDone, []string{"5", "6"}},
		"two asked, one of them only now":    {pinged("7", "8"), []relay.Asker{{UserID: "5"}, {UserID: "6", AskedAt: 1}}, slow, slow, event.StateDone, []string{"5"}},
		"it failed after a long time":        {pinged("7", "8"), five(), slow, slow, event.StateFailed, []string{"5"}},
		"somebody stopped it":                {pinged(), five(), slow, slow, event.StateCancelled, nil},
		"nobody asked":                       {pinged("7", "8"), nil, slow, slow, event.StateDone, nil},
		"the notification is switched off":   {pinged("7", "8"), five(), time.Hour, 0, event.StateDone, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := ended(live(c.message))
			s.Row.StartedAt = start.UnixMilli() // it may have waited before
			for i := range c.askers {
				c.askers[i].AskedAt += start.Add(-c.took).UnixMilli()
			}
			s.Row.End.State = c.state
			s.Row.Messages[0].Shown = shownBy(t, s, answer)
			in := relay.Rendered{Basis: s.Row, Views: []relay.View{answer}, Ended: true, MaxText: 2000, PingAfter: c.pingAfter, Askers: c.askers}
			next, effects := decide(t, s, in, 0)
			var users []string
			for _, e := range effects {
				if p, ok := e.(relay.Plan); ok {
					users = p.View.Users
					if p.View.ReplyTo != "100" {
						t.Errorf("it replies to %q", p.View.ReplyTo)
					}
				}
			}
			if !slices.Equal(users, c.want) {
				t.Fatalf("notified: %q, want %q (%+v)", users, c.want, effects)
			}
			if c.want == nil {
				if !next.Row.Finished {
					t.Error("the relay is not finished")
				}
				return
			}
			// Once it is sent, it is neither sent again nor deleted.
			for i, m := range next.Row.Messages {
				if m.State == relay.MessagePlanned {
					next.Row.Messages[i].State, next.Row.Messages[i].ID = relay.MessageSent, "101"
				}
			}
			in.Basis = next.Row
			if next, effects = decide(t, next, in, time.Second); !next.Row.Finished || len(effects) > 0 {
				t.Errorf("afterwards: finished %v, %+v", next.Row.Finished, effects)
			}
		})
	}
}

// shownBy returns the fingerprint of a view, which an edit of the message leaves behind.
func shownBy(t *testing.T, s relay.State, v relay.View) string {
	t.Helper()
	edit := relay.Edit{Message: s.Row.Messages[0], View: v}
	next, _ := decide(t, s, relay.EditDone{Edit: edit, Ended: true}, 0)
	return next.Row.Messages[0].Shown
}

// People are told once that the platform refuses an answer, whether or not they see a part of it.
func TestARefusedAnswerIsReportedOnce(t *testing.T) {
	reported := live(sentMessage("x"))
	reported.Row.Reported = true
	for name, c := range map[string]struct {
		state  relay.State
		want   int
		partly bool
	}{
		"nothing was sent":                      {live(relay.Message{Key: "0.0", State: relay.MessageLost}), 1, false},
		"a part of it is there":                 {live(sentMessage("x")), 1, true},
		"it was reported before":                {gaveUp(live(relay.Message{Key: "0.0", State: relay.MessageLost})), 0, false},
		"it was reported before the last start": {reported, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			c.state.Row.Reason = "We may not write there."
			next, effects := decide(t, c.state, relay.Checked{}, time.Minute)
			n := 0
			for _, e := range effects {
				if _, ok := e.(relay.Refuse); ok {
					n++
				}
			}
			if n != c.want || next.Row.Partly() != c.partly {
				t.Errorf("reported %d times, partly %v: %+v", n, next.Row.Partly(), effects)
			}
		})
	}
}
