package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

func TestAMentionIsAnsweredInOneMessageThatFillsUp(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		s, d := onDiscord(t, bus, model.server.URL)
		asked := d.MentionUs(d.General, d.Ada, "what is there?")
		running := d.Shown(d.General, "the answer begins, with its tool and a way to stop it", func(m discordtest.Message) bool {
			return strings.Contains(m.Content, strings.TrimSpace(lookingText)) && strings.Contains(m.Content, "glob") && len(m.Buttons) == 1
		})
		if running.ReplyTo != asked {
			t.Errorf("the answer replies to %q, want the question %q", running.ReplyTo, asked)
		}
		model.letGo()
		done := d.Shown(d.General, "the answer is whole", e2e.Finished(wholeText))
		if done.ID != running.ID || len(d.Everything(d.General)) != 2 {
			t.Errorf("it took more than the one message: %+v", d.Everything(d.General))
		}
		if said := model.heard()[0]; !strings.Contains(said, "[discord user_id="+d.Ada.ID+" user_name=ada message_id="+asked+"]") || !strings.HasSuffix(said, "\nwhat is there?") {
			t.Errorf("the model was told %q", said)
		}

		id := e2e.RequestID(d.General, asked)
		if story := s.WaitEnded(id, answerWithin); story.State != string(event.StateDone) {
			t.Errorf("the request ended as %s: %s", story.State, story.Detail)
		}
		var session struct{ Client, Title string }
		s.Request("GET", "/sessions/"+d.General, nil, &session)
		if session.Client != "discord" || session.Title != "#general" {
			t.Errorf("the page shows the conversation as %+v", session)
		}
		if out, err := command(t, s, "requests", "show", id); err != nil || !strings.Contains(out, "glob") || !strings.Contains(out, "done") {
			t.Errorf("lilac requests show says (%v)\n%s", err, out)
		}
	})
}

func TestWhatWakesTheBotOnDiscord(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		model.letGo()
		d := e2e.NewDiscord(t, discordtest.Options{})
		d.Debounce("3s", "30s") // the messages of one burst may arrive at intervals
		s := e2e.Start(t, slices.Concat(bus(t), modelEnv(model.server.URL), d.Env())...)
		e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return d.Connected() > 0 })

		d.Say(d.General, d.Bob, "this is not meant for a bot", discordtest.SayOptions{})
		d.MentionUs(d.General, d.Ada, "first")
		first := d.Shown(d.General, "a mention is answered", e2e.Finished(wholeText))
		reply := d.Say(d.General, d.Bob, "second", discordtest.SayOptions{ReplyTo: first.ID})
		d.Shown(d.General, "a reply to the bot is answered", func(m discordtest.Message) bool {
			return m.ReplyTo == reply && e2e.Finished(wholeText)(m)
		})
		private := d.DM(d.Ada)
		d.Say(private, d.Ada, "third", discordtest.SayOptions{})
		d.Shown(private, "a private message is answered", e2e.Finished(wholeText))
		// In a channel in active mode, one answer covers a burst of messages.
		for _, text := range []string{"fourth", "fifth", "sixth"} {
			d.Say(d.Lounge, d.Bob, text, discordtest.SayOptions{})
		}
		d.Shown(d.Lounge, "a burst is answered", e2e.Finished(wholeText))

		if model.wasTold("not meant for a bot") {
			t.Error("the model read what was not meant for it")
		}
		for _, text := range []string{"fourth", "fifth", "sixth"} {
			if !model.wasTold(text) {
				t.Errorf("of the burst %q was not forwarded: %q", text, model.heard())
			}
		}
		ends := 0
		e2e.Poll(answerWithin, func() bool { ends = countEnds(s); return ends >= 4 })
		if ends != 4 {
			t.Errorf("%d requests ended, want 4", ends)
		}
	})
}

func TestAReplyToTheRunningAnswerAddsToIt(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		s, d := onDiscord(t, bus, model.server.URL)
		asked := d.MentionUs(d.General, d.Ada, "what is there?")
		id := e2e.RequestID(d.General, asked)
		running := d.Shown(d.General, "the answer begins", e2e.Holds("glob"))
		added := d.Say(d.General, d.Ada, "and in the cellar?", discordtest.SayOptions{ReplyTo: running.ID})
		waitTaken(t, s, id, added)
		model.letGo()
		e2e.Eventually(t, answerWithin, "the model reads what was added", func() bool { return model.wasTold("and in the cellar?") })
		if story := s.WaitEnded(id, answerWithin); story.State != string(event.StateDone) {
			t.Errorf("ended as %s: %s", story.State, story.Detail)
		}
		done := d.Shown(d.General, "the answer is whole", func(m discordtest.Message) bool { return m.ID == running.ID && len(m.Buttons) == 0 })
		if !strings.HasPrefix(done.Content, wholeText) || len(d.Ours(d.General)) != 1 || countEnds(s) != 1 {
			t.Errorf("the answer is %q in %d messages of %d requests", done.Content, len(d.Ours(d.General)), countEnds(s))
		}
	})
}

// A message that is added to a running answer may need no reply. The model's marker for that does
// not appear in the answer.
func TestNoReplyToWhatWasAddedLeavesNoTrace(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		hold := make(chan struct{})
		var once sync.Once
		letGo := func() { once.Do(func() { close(hold) }) }
		t.Cleanup(letGo)
		model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
			if strings.Contains(lastOfPerson(r), "thanks") {
				return llmtest.Say("NO_REPLY")
			}
			if len(r.Messages[len(r.Messages)-1].Results) == 0 {
				return llmtest.Script{Text: llmtest.Words(lookingText), Calls: []llmtest.Call{{ID: fmt.Sprintf("call-%d", r.N), Name: "glob", Input: `{"pattern":"*.md"}`}}}
			}
			<-hold
			return llmtest.Say(endText)
		})
		s, d := onDiscord(t, bus, model.URL)
		asked := d.MentionUs(d.General, d.Ada, "what is there?")
		id := e2e.RequestID(d.General, asked)
		running := d.Shown(d.General, "the answer begins", e2e.Holds("glob"))
		waitTaken(t, s, id, d.Say(d.General, d.Bob, "thanks", discordtest.SayOptions{ReplyTo: running.ID}))
		letGo()
		if story := s.WaitEnded(id, answerWithin); story.State != string(event.StateDone) || story.Steps != 3 {
			t.Errorf("ended as %s after %d steps: %s", story.State, story.Steps, story.Detail)
		}
		done := d.Shown(d.General, "the answer is whole", func(m discordtest.Message) bool { return m.ID == running.ID && len(m.Buttons) == 0 })
		if done.Content != wholeText || len(d.Ours(d.General)) != 1 {
			t.Errorf("the answer is %q in %d messages", done.Content, len(d.Ours(d.General)))
		}
	})
}

func TestAReplyWithAMentionSteersAndMovesTheAnswer(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		s, d := onDiscord(t, bus, model.server.URL)
		asked := d.MentionUs(d.General, d.Ada, "what is there?")
		running := d.Shown(d.General, "the answer begins", e2e.Holds("glob"))
		id := e2e.RequestID(d.General, asked)
		steer := d.Say(d.General, d.Ada, d.Self().Mention()+" only the attic", discordtest.SayOptions{ReplyTo: running.ID})
		waitTaken(t, s, id, steer)
		model.letGo()
		if story := s.WaitEnded(id, answerWithin); story.State != string(event.StateDone) {
			t.Errorf("ended as %s: %s", story.State, story.Detail)
		}
		if !model.wasTold("only the attic") {
			t.Errorf("the model was told %q", model.heard())
		}
		moved := d.Shown(d.General, "the answer goes on under the steer", func(m discordtest.Message) bool {
			return m.ReplyTo == steer && len(m.Buttons) == 0
		})
		old := d.Shown(d.General, "the old message is frozen", func(m discordtest.Message) bool { return m.ID == running.ID && len(m.Buttons) == 0 })
		joined := strings.Join(strings.Fields(old.Content+" "+moved.Content), " ")
		text, faults := e2e.OutputText(t, s.WholeOutput(id, answerWithin))
		if want := strings.Join(strings.Fields(text), " "); joined != want || len(faults) > 0 {
			t.Errorf("the messages show %q, want %q (%q)", joined, want, faults)
		}
	})
}

func TestOnlyTheAskerAndModeratorsCanStop(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		s, d := onDiscord(t, bus, model.server.URL)
		for _, c := range []struct {
			who  discordtest.User
			stop bool
			says string
		}{{d.Bob, false, "Cancelled."}, {d.Ada, true, "Stopped by @ada."}, {d.Moderator, true, "Stopped by @mod."}} {
			asked := d.MentionUs(d.General, d.Ada, "what is there?")
			running := d.Shown(d.General, "the answer begins", func(m discordtest.Message) bool { return m.ReplyTo == asked && len(m.Buttons) == 1 })
			answer := d.Answered(d.Press(d.General, running.ID, c.who.ID, running.Buttons[0].ID))
			id := e2e.RequestID(d.General, asked)
			if !c.stop {
				if !strings.Contains(answer, "Only the person who asked") {
					t.Errorf("%s is told %q", c.who.Name, answer)
				}
				if story := s.Story(id); event.RequestState(story.State).Ended() {
					t.Errorf("%s has stopped an answer for ada", c.who.Name)
				}
				s.Cancel(d.General)
			}
			if story := s.WaitEnded(id, answerWithin); story.State != string(event.StateCancelled) {
				t.Errorf("%s: ended as %s", c.who.Name, story.State)
			}
			d.Shown(d.General, "the message says that it was stopped", func(m discordtest.Message) bool {
				return m.ID == running.ID && len(m.Buttons) == 0 && strings.HasSuffix(m.Content, "⏹️ "+c.says)
			})
		}
	})
}

func TestAnAnswerGoesOnInItsMessageAfterAKill(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		s, d := onDiscord(t, bus, model.server.URL)
		asked := d.MentionUs(d.General, d.Ada, "what is there?")
		running := d.Shown(d.General, "the answer begins", e2e.Holds("glob"))
		d.Kill(s)
		// Messages from the time when the program was down are answered too.
		away := d.MentionUs(d.General, d.Bob, "and for me?")
		model.letGo()
		s.Restart()
		done := d.Shown(d.General, "the answer is whole", func(m discordtest.Message) bool {
			return m.ReplyTo == asked && e2e.Finished(wholeText)(m)
		})
		if done.ID != running.ID {
			t.Error("it went on in another message")
		}
		d.Shown(d.General, "what was said meanwhile is answered", func(m discordtest.Message) bool {
			return m.ReplyTo == away && e2e.Finished(wholeText)(m)
		})
		if all := d.Everything(d.General); len(all) != 4 {
			t.Errorf("there are %d messages, want two questions and two answers", len(all))
		}
	})
}

func TestAnUnusableChannelEndsTheRequest(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		for name, c := range map[string]struct {
			spoil, mend func(d *e2e.Discord)
			tries       int // requests about the channel when the answer was given up
		}{
			"deleted": {spoil: func(d *e2e.Discord) { d.DeleteChannel(d.General) }},
			// The program still checks from time to time whether it can complete the shown
			// message.
			"no permission": {
				spoil: func(d *e2e.Discord) {
					d.Deny(d.General, d.Self().ID, discordtest.SendMessages|discordtest.ViewChannel)
				},
				mend: func(d *e2e.Discord) {
					d.Permit(d.General, d.Self().ID, discordtest.SendMessages|discordtest.ViewChannel)
				},
				tries: 2,
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				// The model never stops talking in public, and finishes in private.
				model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
					if strings.Contains(lastOfPerson(r), "are you there?") {
						return llmtest.Script{Text: llmtest.Words(endText)}
					}
					return llmtest.Script{Text: llmtest.Words(strings.Repeat("and more ", 1000)), Delay: 20 * time.Millisecond, Hang: true}
				})
				s, d := onDiscord(t, bus, model.URL)
				asked := d.MentionUs(d.General, d.Ada, "what is there?")
				d.Shown(d.General, "the answer begins", e2e.Holds("and more"))
				c.spoil(d)
				story := s.WaitEnded(e2e.RequestID(d.General, asked), answerWithin)
				if story.State != string(event.StateCancelled) {
					t.Errorf("ended as %s: %s", story.State, story.Detail)
				}
				e2e.Eventually(t, answerWithin, "the log says why", func() bool { return strings.Contains(s.Log(), "giving up an answer") })
				givenUp := func() {
					t.Helper()
					e2e.Eventually(t, answerWithin, "everything is given up", func() bool {
						return s.Count("SELECT count(*) FROM relays WHERE live = 1") == 0 && s.Count("SELECT count(*) FROM outbox WHERE unfinished = 1") == 0
					})
				}
				writes := func() (n int) {
					for _, r := range d.Requests() {
						if strings.Contains(r.Path, d.General+"/messages") {
							n++
						}
					}
					return n
				}
				if c.mend == nil {
					// When the channel is given up, nothing may try again.
					givenUp()
				}
				before := writes()
				d.Say(d.DM(d.Ada), d.Ada, "are you there?", discordtest.SayOptions{})
				d.Shown(d.DM(d.Ada), "other channels work", e2e.Finished(endText))
				if more := writes() - before; more > c.tries {
					t.Errorf("%d more requests were made", more)
				}
				if c.mend == nil {
					return
				}
				c.mend(d)
				d.Shown(d.General, "what stands there is closed", func(m discordtest.Message) bool {
					return m.ReplyTo == asked && len(m.Buttons) == 0 && strings.Contains(m.Content, "and more")
				})
				givenUp()
				if all := d.Everything(d.General); len(all) != 2 {
					t.Errorf("there are %d messages, want the question and what was shown of the answer", len(all))
				}
			})
		}
	})
}

func TestADeafBotIsNotReady(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		d := e2e.NewDiscord(t, discordtest.Options{WithoutMessageContent: true})
		s := e2e.New(t, slices.Concat(bus(t), modelEnv("http://127.0.0.1:1"), d.Env())...)
		s.Spawn()
		e2e.Eventually(t, answerWithin, "it says what to click", func() bool { return strings.Contains(s.Log(), "Message Content Intent") })
		e2e.Eventually(t, answerWithin, "a bot that hears nothing is not ready", func() bool { return !s.Ready() })
		e2e.Eventually(t, answerWithin, "the page works", func() bool { return s.Request("GET", "/healthz", nil, nil) == 200 })
	})
}

// Discord performs a request, but the process is killed before the response arrives. The next
// process finds the message instead of sending it again.
func TestAKillRightAfterDiscordsAnswerSendsNothingTwice(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		s, d := onDiscord(t, bus, model.server.URL)
		reached, killed := make(chan struct{}), make(chan struct{})
		var once sync.Once
		d.OnCarriedOut(func(c discordtest.Carried) {
			if c.Route == "POST /channels/{channel}/messages" {
				once.Do(func() {
					close(reached)
					<-killed
				})
			}
		})
		asked := d.MentionUs(d.General, d.Ada, "what is there?")
		select {
		case <-reached:
		case <-time.After(answerWithin):
			t.Error("nothing was sent")
		}
		d.Kill(s)
		close(killed)
		model.letGo()
		s.Restart()
		d.Shown(d.General, "the answer is whole", func(m discordtest.Message) bool {
			return m.ReplyTo == asked && e2e.Finished(wholeText)(m)
		})
		s.WaitEnded(e2e.RequestID(d.General, asked), answerWithin)
		if all := d.Everything(d.General); len(all) != 2 || countEnds(s) != 1 {
			t.Errorf("there are %d messages of %d requests, want a question and an answer", len(all), countEnds(s))
		}
	})
}
