package relay_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/effort"
)

// goAway makes calls fail from now on: "send", "edit", "delete", or all with "".
func (p *platform) goAway(kind fault.Kind, only string, lasts time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kind, p.only, p.away = kind, only, time.Now().Add(lasts)
}

// works publishes activity every minute, so that the request is not silent.
func (s *stage) works(minutes int) {
	s.t.Helper()
	for range minutes {
		time.Sleep(time.Minute)
		s.publish(event.OutputActivity{})
	}
}

// whole returns the texts of all visible messages, in order.
func whole(p *platform) string {
	var out []string
	for _, m := range p.seen() {
		if len(m.Buttons) > 0 {
			return "a button is left on: " + m.Text
		}
		out = append(out, m.Text)
	}
	return strings.Join(out, " ")
}

// paragraphs returns a text that needs several messages.
func paragraphs() string {
	var out []string
	for i := range 200 {
		out = append(out, fmt.Sprintf("word%d", i))
	}
	return strings.Join(out, " ")
}

// An outage of the platform ends no request. Its messages are sent afterwards, in
// order. An expired message is planned again until 15 minutes after the end.
func TestMessagesAreSentAfterAnOutage(t *testing.T) {
	effort.SkipSlow(t)
	said := paragraphs()
	for name, c := range map[string]struct {
		away, runs time.Duration
		// before says that a first message was there already.
		before bool
		want   string
	}{
		"for minutes":                    {away: 4 * time.Minute, runs: 8 * time.Minute, want: said},
		"in the middle":                  {away: 12 * time.Minute, runs: 14 * time.Minute, before: true, want: said},
		"longer than a message has":      {away: 32 * time.Minute, runs: 40 * time.Minute, want: said},
		"in the middle, longer than so":  {away: 32 * time.Minute, runs: 40 * time.Minute, before: true, want: said},
		"until after the end":            {away: 41 * time.Minute, runs: 29 * time.Minute, want: said},
		"control: long beyond the end":   {away: 60 * time.Minute, runs: 29 * time.Minute, want: ""},
		"control: of one that was short": {away: 60 * time.Minute, want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := &platform{maxText: 400}
			play(t, p, func(s *stage) {
				first := said[:100]
				if c.before {
					s.say(first)
					time.Sleep(5 * time.Second)
				}
				p.goAway(fault.Unavailable, "send", c.away)
				for piece := range strings.SplitSeq(strings.TrimPrefix(said, s.said), " ") { // messages are planned one after another
					if s.said != "" && s.said != first {
						piece = " " + piece
					}
					s.say(piece)
					time.Sleep(time.Second)
				}
				s.works(int(c.runs/time.Minute) - 3)
				if got := s.commands(); len(got) != 0 {
					t.Errorf("the runner was told %v", got)
				}
				s.publish(event.FinalText{FinalText: s.said})
				s.publish(event.RequestLifecycle{State: event.StateDone})
				for range 8 {
					time.Sleep(5 * time.Minute)
				}
			})
			if got := whole(p); got != c.want {
				t.Errorf("seen: %q", got)
			}
		})
	}
}

// A refusing channel ends the request. Messages that were planned in the meantime
// are not sent when the channel accepts messages again.
func TestGivingUpWithdrawsPlannedMessages(t *testing.T) {
	p := &platform{maxText: 400}
	play(t, p, func(s *stage) {
		p.goAway(fault.Unavailable, "send", 3*time.Minute)
		s.say(paragraphs())
		time.Sleep(2 * time.Minute)
		p.mu.Lock()
		p.refuse = 1
		p.mu.Unlock()
		s.finished()
		if cancels := s.commands(); len(cancels) != 1 || cancels[0].Type != event.CmdRequestCancel {
			t.Errorf("the runner was told %v", cancels)
		}
		time.Sleep(10 * time.Minute)
	})
	if seen := p.seen(); len(seen) != 0 {
		t.Errorf("seen: %+v", seen)
	}
}

// Failing edits around the end of an answer are retried for a day, across restarts,
// so that no truncated answer with a useless button remains. A message whose edit
// is refused for good stays as it is.
func TestTheLastEditSurvivesAnOutage(t *testing.T) {
	effort.SkipSlow(t)
	for name, c := range map[string]struct {
		kind    fault.Kind
		only    string
		lasts   time.Duration
		restart bool
		cut     bool
	}{
		"a short one":               {kind: fault.Unavailable, only: "edit", lasts: 40 * time.Second},
		"nobody answers":            {kind: fault.Timeout, lasts: 40 * time.Second},
		"too much, without a time":  {kind: fault.RateLimited, only: "edit", lasts: 10 * time.Minute},
		"the token is in doubt":     {kind: fault.Unauthenticated, only: "edit", lasts: 5 * time.Minute},
		"a long one":                {kind: fault.Unavailable, lasts: 40 * time.Minute},
		"a long one, and a restart": {kind: fault.Timeout, only: "edit", lasts: 40 * time.Minute, restart: true},
		"control: it is refused":    {kind: fault.Invalid, only: "edit", lasts: 10 * time.Minute, cut: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := &platform{maxText: 400}
			said := paragraphs()
			play(t, p, func(s *stage) {
				s.say(said[:len(said)-200])
				time.Sleep(20 * time.Second) // all of its messages are there
				p.goAway(c.kind, c.only, c.lasts)
				for _, word := range strings.SplitAfter(said[len(s.said):], " ") {
					s.say(word)
					time.Sleep(time.Second)
				}
				s.publish(event.FinalText{FinalText: s.said})
				s.publish(event.RequestLifecycle{State: event.StateDone})
				if c.restart {
					time.Sleep(c.lasts / 2)
					s.restart()
				}
				if left := time.Until(p.away); left > 0 {
					time.Sleep(left)
				}
				s.finished()
			})
			if got := whole(p); (got != said) != c.cut {
				t.Errorf("seen: %q", got)
			}
			if bound := 60 + int(c.lasts/(15*time.Second)); p.asked > bound {
				t.Errorf("it was asked %d times, want at most %d", p.asked, bound)
			}
		})
	}
}

// The row keeps a fingerprint of each message, because platforms accept few edits of
// old messages.
func TestARestartEditsOnlyOutdatedMessages(t *testing.T) {
	p := &platform{maxText: 400}
	play(t, p, func(s *stage) {
		s.say(paragraphs())
		time.Sleep(20 * time.Second)
		before := p.seen()
		if len(before) < 3 {
			t.Fatalf("%d messages", len(before))
		}
		for range 3 {
			s.restart()
			time.Sleep(20 * time.Second)
		}
		last := len(before) - 1
		for i, m := range p.seen() {
			if m.edits != before[i].edits {
				t.Errorf("message %d was edited %d times by restarts", i, m.edits-before[i].edits)
			}
		}
		s.say(" the end") // the control: what is to change is edited
		s.end(event.StateDone, "")
		if seen := p.seen(); seen[last].edits == before[last].edits || !strings.HasSuffix(seen[last].Text, "the end") {
			t.Errorf("seen: %+v", seen)
		}
	})
}

// After an edit with an unknown outcome, the content of the message is unknown.
func TestAnEditWithALostOutcomeIsRepeated(t *testing.T) {
	p := &platform{maxText: 400}
	one, other := strings.Repeat("one ", 150), strings.Repeat("other ", 100)
	play(t, p, func(s *stage) {
		anew := func(text string) {
			s.said = ""
			s.publish(event.TextReset{})
			s.say(text)
			time.Sleep(1500 * time.Millisecond)
		}
		s.say(one)
		time.Sleep(5 * time.Second)
		p.mu.Lock()
		p.unheard = 1
		p.mu.Unlock()
		anew(other)
		if seen := p.seen(); !strings.HasPrefix(seen[0].Text, "other") {
			t.Error("control: the edit was not made")
		}
		anew(one)
		s.end(event.StateDone, "")
	})
	for _, m := range p.seen() {
		if strings.Contains(m.Text, "other") {
			t.Errorf("it still shows %.20q…", m.Text)
		}
	}
}
