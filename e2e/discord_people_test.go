package e2e_test

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

func TestCommandsAndTheMenuOnDiscord(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		s, d := onDiscord(t, bus, model.server.URL)
		e2e.Eventually(t, answerWithin, "the commands are there", func() bool { return len(d.Commands()) > 0 })
		slash := func(who discordtest.User, name, want string) {
			t.Helper()
			if got := d.Answered(d.Slash(d.General, who.ID, name, nil)); !strings.Contains(got, want) {
				t.Errorf("/%s of %s says %q, want %q in it", name, who.Name, got, want)
			}
		}
		slash(d.Bob, "help", "Mention me")
		slash(d.Bob, "status", "Nothing runs here")
		slash(d.Bob, "stop", "No answer is in progress here.")
		asked := d.MentionUs(d.General, d.Ada, "what is there?")
		d.Shown(d.General, "the answer begins", e2e.Holds("glob"))
		slash(d.Bob, "status", "An answer is being made")
		slash(d.Bob, "stop", "Only the person who asked")
		slash(d.Ada, "stop", "Stopped.")
		if story := s.WaitEnded(e2e.RequestID(d.General, asked), answerWithin); story.State != string(event.StateCancelled) {
			t.Errorf("ended as %s: %s", story.State, story.Detail)
		}
		d.Shown(d.General, "the message says who stopped it", func(m discordtest.Message) bool {
			return m.ReplyTo == asked && strings.HasSuffix(m.Content, "Stopped by @ada.") && len(m.Buttons) == 0
		})

		model.letGo()
		said := d.Say(d.General, d.Bob, "the roof leaks", discordtest.SayOptions{})
		if got := d.Answered(d.Menu(d.General, said, d.Ada.ID, "Ask about this")); got != "I am looking at it." {
			t.Errorf("the menu says %q", got)
		}
		d.Shown(d.General, "the message is answered", answerTo(said))
		if !wasAsked(model.server, "the roof leaks") {
			t.Error("the model was not told of the message")
		}
		s.Terminate(startStop)
		s.Restart()
		if n := d.CommandWrites(); n != 1 {
			t.Errorf("the commands were registered %d times", n)
		}
	})
}

func TestAnInterruptCutsTheAnswerOffAndComesFirst(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		// The model never stops talking, except when asked about the attic.
		model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
			if strings.Contains(lastOfPerson(r), "the attic") {
				return llmtest.Say(endText)
			}
			return llmtest.Script{Text: llmtest.Words("There is so much. "), Hang: true}
		})
		s, d := onDiscord(t, bus, model.URL)
		asked := d.MentionUs(d.General, d.Ada, "what is there?")
		id := e2e.RequestID(d.General, asked)
		running := d.Shown(d.General, "the answer begins", e2e.Holds("so much"))
		cut := d.MentionUs(d.General, d.Ada, "!int the attic")
		if story := s.WaitEnded(id, answerWithin); story.State != string(event.StateDone) {
			t.Errorf("ended as %s: %s", story.State, story.Detail)
		}
		moved := d.Shown(d.General, "the answer goes on behind the interrupt", func(m discordtest.Message) bool {
			return m.ReplyTo == cut && e2e.Finished(endText)(m)
		})
		old := d.Shown(d.General, "the old message is frozen", func(m discordtest.Message) bool { return m.ID == running.ID && len(m.Buttons) == 0 })
		text, faults := e2e.OutputText(t, s.WholeOutput(id, answerWithin))
		if got, want := strings.Fields(old.Content+" "+moved.Content), strings.Fields(text); !slices.Equal(got, want) || len(faults) > 0 || countEnds(s) != 1 {
			t.Errorf("the messages show %q, want %q (%q), in %d requests", got, want, faults, countEnds(s))
		}
	})
}

// The gate decides about messages in an active channel. Only an unambiguous yes that arrives in
// time counts.
func TestTheGateDecidesWhatIsAnswered(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		for name, c := range map[string]struct {
			verdict llmtest.Script
			answers bool
		}{
			"forward": {llmtest.Say(`{"forward": true, "reason": "a question"}`), true},
			"skip":    {llmtest.Say(`{"forward": false, "reason": "small talk"}`), false},
			"fenced":  {llmtest.Say("Yes:\n```json\n{\"forward\": true, \"more\": 1}\n```"), true},
			"unclear": {llmtest.Say(`Yes, I think so.`), false},
			"error":   {llmtest.Script{Status: 400, ErrorType: "invalid_request_error", ErrorMessage: "no"}, false},
			"too late": {
				llmtest.Script{Text: []string{`{"forward": true, `}, Hang: true}, false,
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var judged atomic.Int32
				model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
					if r.Model == "small" {
						judged.Add(1)
						return c.verdict
					}
					return llmtest.Say(endText)
				})
				d := e2e.NewDiscord(t, discordtest.Options{})
				d.Router("gate: openai/small")
				s := e2e.Start(t, slices.Concat(bus(t), modelEnv(model.URL), d.Env())...)
				say := func() { d.Say(d.Lounge, d.Bob, "does somebody know the attic?", discordtest.SayOptions{}) }
				say()
				e2e.Eventually(t, answerWithin, "the gate has judged", func() bool {
					return judged.Load() > 0 && s.Count("SELECT count(*) FROM router_state WHERE burst = 1") == 0
				})
				if c.answers {
					late := 0 // number of gate answers that came late on a busy machine
					e2e.Eventually(t, answerWithin, "it is answered", func() bool {
						if n := strings.Count(s.Log(), "the gate returned no verdict"); n > late {
							late = n
							say()
						}
						return slices.ContainsFunc(d.Ours(d.Lounge), e2e.Finished(endText))
					})
					return
				}
				if reported := warningOf(s, "gate") != ""; reported != (name != "skip") {
					t.Errorf("reported to the operator: %v", reported)
				}
				// Messages that are addressed to the bot bypass the gate.
				asked := d.MentionUs(d.Lounge, d.Ada, "and you?")
				d.Shown(d.Lounge, "a mention is answered", func(m discordtest.Message) bool { return m.ReplyTo == asked && e2e.Finished(endText)(m) })
				if n := s.Count("SELECT count(*) FROM requests"); n != 1 || judged.Load() != 1 {
					t.Errorf("there were %d requests, and the gate was asked %d times", n, judged.Load())
				}
				e2e.Eventually(t, answerWithin, "the answer's call and the gate's are counted for the day", func() bool {
					return s.Count("SELECT steps FROM usage_daily") == 2
				})
				if name == "unclear" {
					reported := warningOf(s, "gate")
					d.Kill(s)
					s.Restart()
					if after := warningOf(s, "gate"); after != reported {
						t.Errorf("after a restart, the operator is told %q, not %q", after, reported)
					}
				}
			})
		}
	})
}

func TestSilenceLeavesNoTrace(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		hold := make(chan struct{})
		letGo := sync.OnceFunc(func() { close(hold) })
		model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
			if strings.Contains(lastOfPerson(r), "weather") {
				return llmtest.Script{Text: []string{"NO", "_RE", "PLY"}, Delay: 50 * time.Millisecond}
			}
			<-hold
			return llmtest.Say(endText)
		})
		t.Cleanup(letGo)
		s, d := onDiscord(t, bus, model.URL)
		d.Say(d.Lounge, d.Bob, "how nice the weather is", discordtest.SayOptions{})
		e2e.Eventually(t, answerWithin, "the request has ended", func() bool {
			return s.Count("SELECT count(*) FROM requests WHERE state = 'done'") == 1 && leftOver(s) == 0
		})
		if all := d.Everything(d.Lounge); len(all) != 1 {
			t.Errorf("there are more messages than the one of bob: %+v", all)
		}
		// The same applies after an answer: other users' messages in the meantime are not
		// answered.
		asked := d.MentionUs(d.Lounge, d.Ada, "what is there?")
		request := e2e.RequestID(d.Lounge, asked)
		waitTaken(t, s, request, asked)
		waitTaken(t, s, request, d.Say(d.Lounge, d.Bob, "and the weather stays", discordtest.SayOptions{}))
		letGo()
		e2e.Eventually(t, answerWithin, "the request has ended", func() bool {
			return s.Count("SELECT count(*) FROM requests WHERE state = 'done'") == 2 && leftOver(s) == 0
		})
		ours := d.Ours(d.Lounge)
		if len(ours) != 1 || !e2e.Finished(endText)(ours[0]) || strings.Contains(strings.Join(ours[0].History, " "), "NO_") {
			t.Errorf("shown is %+v", ours)
		}
	})
}

func TestAThreadIsASessionOfItsOwn(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		model.letGo()
		s, d := onDiscord(t, bus, model.server.URL)
		thread := d.Thread(d.General, "the roof")
		for channel, text := range map[string]string{d.General: "of the house", thread: "of the roof"} {
			asked := d.MentionUs(channel, d.Ada, text)
			d.Shown(channel, "it is answered where it was asked", answerTo(asked))
			if story := s.WaitEnded(e2e.RequestID(channel, asked), answerWithin); story.State != string(event.StateDone) {
				t.Errorf("ended as %s", story.State)
			}
		}
		for channel, foreign := range map[string]string{d.General: "of the roof", thread: "of the house"} {
			for _, m := range s.Messages(channel) {
				if strings.Contains(m.Text(), foreign) {
					t.Errorf("the history of %s holds %q", channel, m.Text())
				}
			}
			var session struct{ Title string }
			if code := s.Request("GET", "/sessions/"+channel, nil, &session); code != 200 || session.Title == "" {
				t.Errorf("the session %s: %d, %+v", channel, code, session)
			}
		}
	})
}

// In a chain of replies, the model reads the current text of each message.
func TestEditsAndDeletionsReachWhatTheModelReads(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		model.letGo()
		s, d := onDiscord(t, bus, model.server.URL)
		gone := d.Say(d.General, d.Bob, "the cellar is red", discordtest.SayOptions{})
		said := d.Say(d.General, d.Bob, "the attic is green", discordtest.SayOptions{ReplyTo: gone})
		cached := func(what string) bool { return s.Count("SELECT count(*) FROM surface_messages WHERE "+what) == 1 }
		e2e.Eventually(t, answerWithin, "both are known", func() bool { return cached("id = '"+gone+"'") && cached("id = '"+said+"'") })
		d.Edit(d.General, said, "the attic is blue")
		d.Delete(d.General, gone)
		e2e.Eventually(t, answerWithin, "edit and deletion are known", func() bool {
			return cached("id = '"+gone+"' AND deleted_at > 0 AND json NOT LIKE '%red%'") && cached("id = '"+said+"' AND edited_at > 0")
		})
		asked := d.Say(d.General, d.Ada, d.Self().Mention()+" is that so?", discordtest.SayOptions{ReplyTo: said})
		d.Shown(d.General, "it is answered", answerTo(asked))
		if !wasAsked(model.server, "the attic is blue") || wasAsked(model.server, "the attic is green") || wasAsked(model.server, "the cellar is red") {
			t.Error("the model was told of what is not there, or not of what is")
		}
	})
}

func TestMessagesOfOursThatWeDidNotSendAreWarnedOf(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		model.letGo()
		s, d := onDiscord(t, bus, model.server.URL)
		const warning = "another program uses the same Discord token"
		asked := d.MentionUs(d.General, d.Ada, "what is there?")
		d.Shown(d.General, "it is answered", answerTo(asked))
		if strings.Contains(s.Log(), warning) {
			t.Error("it warns of its own message")
		}
		d.Say(d.General, d.Self(), "something else", discordtest.SayOptions{})
		e2e.Eventually(t, answerWithin, "the other program is warned of", func() bool { return strings.Contains(s.Log(), warning) })
	})
}

// Changes of the configuration file apply to channels and users without a restart.
func TestWhoIsHeardChangesWithoutARestart(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		model.letGo()
		s, d := onDiscord(t, bus, model.server.URL)
		reloads := 0
		set := func(key, value string) {
			t.Helper()
			d.Set(key, value)
			reloads++
			e2e.Eventually(t, answerWithin, "the configuration was reloaded", func() bool {
				return strings.Count(s.Log(), "the configuration was reloaded") == reloads
			})
		}
		ends := func(n int) {
			t.Helper()
			e2e.Eventually(t, answerWithin, "the requests have ended", func() bool { return countEnds(s) == n && leftOver(s) == 0 })
		}
		private := d.DM(d.Ada)
		early := d.Say(d.General, d.Bob, "not for a bot", discordtest.SayOptions{})
		// Messages that the router has not handled yet are treated by the channel's new settings.
		e2e.Eventually(t, answerWithin, "what was said before is routed", func() bool {
			return s.Count("SELECT count(*) FROM inbox WHERE source = 'router-discord' AND external_id LIKE '%"+early+"%'") == 1
		})
		set("mode", "active")
		d.Say(d.General, d.Bob, "for everybody", discordtest.SayOptions{})
		d.Shown(d.General, "an active channel is answered", e2e.Finished(wholeText))
		ends(1)
		set("allowedGuildIds", `["1"]`)
		d.MentionUs(d.General, d.Ada, "do you hear me?")
		d.Say(private, d.Ada, "and here?", discordtest.SayOptions{})
		d.Shown(private, "a private message is answered", e2e.Finished(wholeText))
		ends(2)
		if len(d.Ours(d.General)) != 1 || wasAsked(model.server, "do you hear me?") || wasAsked(model.server, "not for a bot") {
			t.Error("it hears whom it should not hear")
		}
		set("allowedGuildIds", `["`+d.Guild+`"]`)
		d.MentionUs(d.General, d.Ada, "and now?")
		ends(3)
		if strings.Contains(s.Log(), `"need_restart":["`) {
			t.Error("something needs a restart")
		}
	})
}

func TestTwoWhoSpeakAtOnceAreBothAnswered(t *testing.T) {
	e2e.OnEach(t, func(t *testing.T, bus e2e.Engine) {
		model := newChatModel(t)
		model.letGo()
		s, d := onDiscord(t, bus, model.server.URL)
		first := d.MentionUs(d.General, d.Ada, "what is there?")
		time.Sleep(10 * time.Millisecond) // roughly while the first is starting; the exact time does not matter
		second := d.MentionUs(d.General, d.Bob, "and here?")
		for _, asked := range []string{first, second} {
			d.Shown(d.General, "it is answered", answerTo(asked))
		}
		e2e.Eventually(t, answerWithin, "nothing is left", func() bool { return leftOver(s) == 0 })
		if all := d.Everything(d.General); len(all) != 4 || countEnds(s) != 2 {
			t.Errorf("there are %d messages of %d requests", len(all), countEnds(s))
		}
	})
}
