package relay_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
	"lilac/internal/testkit/effort"
)

func TestTheAnswerStreamsIntoOneMessage(t *testing.T) {
	p := &platform{}
	play(t, p, func(s *stage) {
		for range 50 {
			s.say("word ")
			time.Sleep(100 * time.Millisecond)
		}
		s.end(event.StateDone, "")
	})
	seen := p.seen()
	if len(seen) != 1 || seen[0].Text != strings.TrimSpace(strings.Repeat("word ", 50)) || seen[0].ReplyTo != "5" || len(seen[0].Buttons) != 0 {
		t.Errorf("seen: %+v", seen)
	}
	if n := seen[0].edits; n < 2 || n > 7 {
		t.Errorf("five seconds made %d edits, one in 1.2 s is the limit", n)
	}
}

// The typing indicator is shown until the first message, and never after the end.
func TestTypingIsShownUntilTheFirstMessage(t *testing.T) {
	for name, says := range map[string]string{"an answer": "here it is", "none": "NO_REPLY"} {
		t.Run(name, func(t *testing.T) {
			p := &platform{}
			var silent, speaking, over int
			play(t, p, func(s *stage) {
				time.Sleep(30 * time.Second)
				silent = p.typing()
				s.say(says)
				time.Sleep(30 * time.Second)
				speaking = p.typing() - silent
				s.end(event.StateDone, "")
				ended := p.typing()
				time.Sleep(time.Minute)
				over = p.typing() - ended
			})
			// A platform shows it for about ten seconds.
			if silent < 3 || silent > 5 {
				t.Errorf("in half a minute of silence it typed %d times", silent)
			}
			if seen := says != "NO_REPLY"; seen != (speaking == 0) || over != 0 {
				t.Errorf("it typed %d times beside its words, %d times after the end", speaking, over)
			}
		})
	}
}

func TestARestartContinuesTheSameMessage(t *testing.T) {
	p := &platform{}
	play(t, p, func(s *stage) {
		s.say("before ")
		time.Sleep(2 * time.Second)
		s.restart()
		s.say("after")
		s.end(event.StateDone, "")
	})
	if seen := p.seen(); len(seen) != 1 || seen[0].Text != "before after" {
		t.Errorf("seen: %+v", seen)
	}
}

// While the bus is unavailable for longer than the grace period of an output, no
// answer is truncated and no request is stopped as silent.
func TestAnUnavailableBusTruncatesNoAnswer(t *testing.T) {
	for name, before := range map[string]string{"from the start": "", "in the middle": "before "} {
		t.Run(name, func(t *testing.T) {
			p := &platform{}
			play(t, p, func(s *stage) {
				if before != "" {
					s.say(before)
					time.Sleep(2 * time.Second)
				}
				s.stop()
				s.failTails.Store(200) // an attempt every two seconds
				s.start()
				time.Sleep(6 * time.Minute)
				if seen := p.seen(); before != "" && (len(seen) != 1 || !strings.HasPrefix(seen[0].Text, strings.TrimSpace(before))) {
					t.Errorf("meanwhile is seen: %+v", seen)
				}
				s.say("after")
				s.end(event.StateDone, "")
				if got := s.commands(); len(got) != 0 {
					t.Errorf("the runner was told %v", got)
				}
			})
			if seen := p.seen(); len(seen) != 1 || seen[0].Text != before+"after" {
				t.Errorf("seen: %+v", seen)
			}
		})
	}
}

func TestADuplicateTriggerStartsOneRelay(t *testing.T) {
	p := &platform{}
	play(t, p, func(s *stage) {
		s.publish(event.RequestReply{})
		s.say("hello")
		s.end(event.StateDone, "")
		s.publish(event.RequestReply{})
		time.Sleep(time.Minute)
	})
	if seen := p.seen(); len(seen) != 1 {
		t.Errorf("seen: %+v", seen)
	}
}

func TestASteerMovesTheAnswerWhenItIsApplied(t *testing.T) {
	p := &platform{}
	play(t, p, func(s *stage) {
		s.say("old way")
		time.Sleep(2 * time.Second)
		s.publish(event.SurfaceReanchor{MessageID: "7", ReplyTo: &event.MessageRef{Platform: "discord", ChannelID: "10", MessageID: "7"}})
		s.say(", still")
		time.Sleep(2 * time.Second)
		if seen := p.seen(); len(seen) != 1 {
			t.Errorf("moved before it was applied: %+v", seen)
		}
		s.publish(event.OutputAnchor{MessageID: "7", Offset: int64(len(s.said))})
		s.say("new way")
		time.Sleep(2 * time.Second)
		s.restart()
		s.end(event.StateDone, "")
	})
	seen := p.seen()
	if len(seen) != 2 || seen[0].Text != "old way, still" || seen[1].Text != "new way" || seen[1].ReplyTo != "7" {
		t.Errorf("seen: %+v", seen)
	}
}

func TestACutWithoutAMessageAppliesImmediately(t *testing.T) {
	p := &platform{}
	play(t, p, func(s *stage) {
		s.say("one")
		time.Sleep(2 * time.Second)
		s.publish(event.SurfaceReanchor{InheritReplyTo: true})
		time.Sleep(time.Second)
		s.say("two")
		s.restart()
		s.end(event.StateDone, "")
	})
	if seen := p.seen(); len(seen) != 2 || seen[0].Text != "one" || seen[1].Text != "two" {
		t.Errorf("seen: %+v", seen)
	}
}

func TestNoReplyLeavesNoTrace(t *testing.T) {
	p := &platform{}
	play(t, p, func(s *stage) {
		s.say("NO_RE")
		time.Sleep(10 * time.Second)
		s.publish(event.FinalText{FinalText: "NO_REPLY", Delivery: "skip"})
		s.publish(event.RequestLifecycle{State: event.StateDone})
		s.finished()
	})
	if len(p.messages) != 0 || p.typed == 0 {
		t.Errorf("%d messages, typed %d times", len(p.messages), p.typed)
	}
}

// A request that is rejected because of a limit never runs; the reason is shown.
func TestARequestThatFailsBeforeItRunsSaysWhy(t *testing.T) {
	p := &platform{}
	play(t, p, func(s *stage) { s.end(event.StateFailed, "Too many messages wait.") })
	if seen := p.seen(); len(seen) != 1 || !strings.Contains(seen[0].Text, "Too many messages wait.") || seen[0].ReplyTo == "" {
		t.Errorf("seen: %+v", seen)
	}
}

func TestARefusingChannelEndsTheRequest(t *testing.T) {
	p := &platform{denied: true}
	play(t, p, func(s *stage) {
		s.say("hello")
		s.finished()
		if cancels := s.commands(); len(cancels) != 1 || cancels[0].Type != event.CmdRequestCancel {
			t.Errorf("the runner was told %v", cancels)
		}
	})
}

func TestADeletedChannelEndsTheRequestAndADeletedMessageDoesNot(t *testing.T) {
	for name, commands := range map[string]int{"the channel": 1, "the message": 0} {
		t.Run(name, func(t *testing.T) {
			p := &platform{}
			play(t, p, func(s *stage) {
				s.say("hello")
				time.Sleep(2 * time.Second)
				p.mu.Lock()
				p.gone, p.messages[0].deleted = commands > 0, true
				p.mu.Unlock()
				s.say(" there")
				time.Sleep(10 * time.Second)
				if got := s.commands(); len(got) != commands {
					t.Errorf("the runner was told %v", got)
				}
			})
		})
	}
}

// A rate limit delays edits, however long it lasts, even at the end of an answer.
func TestRateLimitsAreObeyed(t *testing.T) {
	for name, before := range map[string]bool{"with the first message": true, "with the last edit": false} {
		t.Run(name, func(t *testing.T) {
			p := &platform{}
			play(t, p, func(s *stage) {
				begin := func() {
					s.say("hello")
					time.Sleep(5 * time.Second)
				}
				if !before {
					begin()
				}
				p.mu.Lock()
				p.busy = time.Now().Add(8 * time.Minute)
				p.mu.Unlock()
				if before {
					begin()
				}
				s.say(" there")
				s.end(event.StateDone, "")
			})
			if seen := p.seen(); len(seen) != 1 || seen[0].Text != "hello there" || len(seen[0].Buttons) != 0 {
				t.Errorf("seen: %+v", seen)
			}
			if p.asked > 20 {
				t.Errorf("it was asked %d times while it wanted to wait", p.asked)
			}
		})
	}
}

// Planning the copy of a message that takes no more edits is retried until it is
// written. The old message is deleted once the copy exists.
func TestAMessageThatTakesNoMoreEditsIsReplaced(t *testing.T) {
	for name, c := range map[string]struct {
		fails int64
		away  string
	}{"at once": {}, "when the outbox takes it": {fails: 3}, "when the platform takes it": {away: "send"}, "when the old one can be deleted": {away: "delete"}} {
		t.Run(name, func(t *testing.T) {
			p := &platform{}
			play(t, p, func(s *stage) {
				s.publish(event.BinaryOutput{BinaryID: "a", Filename: "early.txt", DataBase64: "YQ=="})
				s.say("first words ")
				time.Sleep(5 * time.Second)
				p.mu.Lock()
				p.frozen = len(p.messages)
				p.mu.Unlock()
				s.failPlans.Store(c.fails)
				if c.away != "" {
					p.goAway(fault.Unavailable, c.away, time.Minute)
				}
				s.say("and the rest")
				time.Sleep(30 * time.Second)
				if seen := p.seen(); len(seen) == 0 {
					t.Error("the old one went first")
				}
				s.end(event.StateDone, "")
			})
			seen := p.seen()
			if len(p.messages) != 2 || len(seen) != 1 || p.frozen != 1 || seen[0].Content.Text != "first words and the rest" || len(seen[0].Files) != 1 || len(seen[0].Buttons) != 0 {
				t.Errorf("%d messages were made, %d of them took no more edits; seen: %+v", len(p.messages), p.frozen, seen)
			}
		})
	}
}

func TestASilentRequestIsStoppedWithAReason(t *testing.T) {
	p := &platform{}
	play(t, p, func(s *stage) {
		s.say("hello")
		for range 10 { // it works in silence and says so
			time.Sleep(time.Minute)
			s.publish(event.OutputActivity{})
		}
		if n := len(s.commands()); n != 0 {
			t.Errorf("%d commands while it works", n)
		}
		time.Sleep(6 * time.Minute)
		if n := len(s.commands()); n != 1 {
			t.Fatalf("%d commands after silence", n)
		}
		s.end(event.StateCancelled, "Nothing was heard.")
	})
	if seen := p.seen(); len(seen) != 1 || seen[0].Text != "hello\n\n⏹️ Nothing was heard." {
		t.Errorf("seen: %+v", seen)
	}
}

func (s *stage) commands() []bus.Delivery {
	s.t.Helper()
	out, err := s.bus.Fetch(s.t.Context(), event.TopicCmdRequest, "", 10)
	if err != nil {
		s.t.Fatal(err)
	}
	return out
}

func TestLateFilesFollowTheAnswer(t *testing.T) {
	p := &platform{}
	play(t, p, func(s *stage) {
		s.publish(event.BinaryOutput{BinaryID: "a", Filename: "early.txt", DataBase64: "YQ=="})
		s.say("look")
		time.Sleep(2 * time.Second)
		s.restart()
		s.publish(event.BinaryOutput{BinaryID: "b", Filename: "late.txt", DataBase64: "Yg=="})
		s.end(event.StateDone, "")
	})
	seen := p.seen()
	if len(seen) != 2 || len(seen[0].Files) != 1 || seen[0].Files[0].Name != "early.txt" || len(seen[1].Files) != 1 || seen[1].Files[0].Name != "late.txt" || seen[1].ReplyTo != seen[0].id {
		t.Errorf("seen: %+v", seen)
	}
}

// A message that showed only a tool's line keeps its file.
func TestAMessageWithAFileStaysWithoutItsText(t *testing.T) {
	p := &platform{}
	play(t, p, func(s *stage) {
		s.publish(event.BinaryOutput{BinaryID: "a", Filename: "early.txt", DataBase64: "YQ=="})
		s.publish(event.ToolCallOutput{ToolCallID: "1", Status: event.ToolStart, Display: "bash"})
		time.Sleep(2 * time.Second)
		s.restart()
		s.publish(event.ToolCallOutput{ToolCallID: "1", Status: event.ToolEnd})
		s.publish(event.FinalText{FinalText: "NO_REPLY", Delivery: "skip"})
		s.publish(event.RequestLifecycle{State: event.StateDone})
		s.finished()
	})
	if seen := p.seen(); len(seen) != 1 || len(seen[0].Files) != 1 || seen[0].Text != "" || len(seen[0].Buttons) != 0 {
		t.Errorf("seen: %+v", seen)
	}
}

// Random runs with steers, resets, files, restarts, and a failing platform: in the
// end, people see the output exactly once.
func TestTheAnswerIsShownOnceDespiteFaults(t *testing.T) {
	effort.SkipSlow(t)
	for seed := range uint64(12) {
		if got, want := simulate(t, seed, false); got != want {
			t.Errorf("seed %d: seen %q\nwant %q", seed, got, want)
		}
	}
}

// Control: a relay without its row shows the answer twice.
func TestControlARelayWithoutItsRowShowsTheAnswerTwice(t *testing.T) {
	for seed := range uint64(12) {
		if got, want := simulate(t, seed, true); got != want {
			return
		}
	}
	t.Error("nothing was said twice: the proof proves nothing")
}

// simulate plays a seed and returns what is seen and what was said, without
// white space.
func simulate(t *testing.T, seed uint64, forgetful bool) (seen, said string) {
	r := rand.New(rand.NewPCG(seed, 7))
	p := &platform{rand: rand.New(rand.NewPCG(seed, 8)), faulty: 0.2, maxText: 400}
	play(t, p, func(s *stage) {
		journaled := 0
		for step := range 40 {
			switch r.IntN(12) {
			case 0:
				s.restart()
				if forgetful {
					forget(s.t, s.db)
				}
			case 1:
				id := fmt.Sprint(1000 + step)
				s.publish(event.SurfaceReanchor{MessageID: id, InheritReplyTo: r.IntN(2) == 0})
				s.publish(event.OutputAnchor{MessageID: id, Offset: int64(len(s.said))})
				journaled = len(s.said)
			case 2:
				s.said = s.said[:journaled]
				s.publish(event.TextReset{Offset: int64(journaled)})
			case 3:
				s.publish(event.BinaryOutput{BinaryID: fmt.Sprint("f", step), Filename: "f", DataBase64: "YQ=="})
			case 4:
				journaled = len(s.said)
			case 5:
				time.Sleep(time.Duration(r.IntN(3000)) * time.Millisecond)
			default:
				s.say(strings.Repeat(fmt.Sprintf("w%d ", step), r.IntN(30)))
			}
			time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
		}
		s.end(event.StateDone, "")
		said = s.said
	})
	var text strings.Builder
	for _, m := range p.seen() {
		text.WriteString(m.Text)
	}
	plain := func(s string) string {
		return strings.Map(func(r rune) rune {
			if unicode.IsSpace(r) {
				return -1
			}
			return r
		}, s)
	}
	if said == "" {
		said = "*(no answer)*"
	}
	return plain(text.String()), plain(said)
}

func forget(t *testing.T, d *db.DB) {
	t.Helper()
	if err := d.Update(t.Context(), func(tx *db.Tx) error {
		row, err := store.New(d).Relays.Relay(tx, "discord", request)
		if err != nil {
			return nil // nothing to forget yet
		}
		row.Messages = nil
		if _, err := tx.Exec(`DELETE FROM outbox`); err != nil {
			return err
		}
		return store.New(d).Relays.SaveRelay(tx, row)
	}); err != nil {
		t.Fatal(err)
	}
}
