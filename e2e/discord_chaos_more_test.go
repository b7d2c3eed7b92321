package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
)

// odd holds the state of actions other than talking: moderation, and requests by menu or button.
type odd struct {
	asked   map[string]int  // by message ID: how often a message was asked about from its menu; includes the quoted message
	removed map[string]bool // the bot's messages that a moderator has deleted
	dimmed  map[string]bool // channels in which the bot lacked permissions for a while
	unheard map[string]bool // channels that the bot could not read for a while
	dark    string          // the channel for which that is true now
	taken   discordtest.Permission
	doomed  []string // threads to be deleted
	strange string   // a channel of a server that is not allowed
	thread  string
	pauses  int // how often a question at a limit was answered
}

// more performs one of the rare actions.
func (c *crowd) more(channel string, by discordtest.User) {
	switch what := c.rnd.IntN(30); {
	case what < 5:
		if m, ok := c.one(c.d.Messages(channel)); ok {
			for id := m.ID; id != ""; {
				c.asked[id]++
				m, _ := c.d.Message(channel, id)
				id = m.ReplyTo
			}
			c.pressed = append(c.pressed, c.d.Menu(channel, m.ID, by.ID, "Ask about this"))
			c.note("%s: %s asks about %s", channel, by.Name, m.ID)
		}
	case what < 9:
		if m, ok := c.one(c.d.Ours(channel)); ok && !question.MatchString(m.Content) && !strings.HasPrefix(m.Content, "sent-") {
			c.removed[m.ID] = true
			c.d.Delete(channel, m.ID)
			c.note("%s: our message %s is deleted", channel, m.ID)
		}
	case what < 13:
		c.permissions()
	case what < 16:
		c.d.Archive(c.thread)
		c.note("the thread is archived")
	case what < 19:
		c.doom()
	case what < 21:
		c.d.Leave(c.d.Guild, c.d.Bob)
		time.Sleep(time.Duration(c.rnd.IntN(200)) * time.Millisecond)
		c.d.Join(c.d.Guild, c.d.Bob, "")
		c.note("bob was away")
	case what < 23:
		c.d.MentionUs(c.strange, c.d.Ada, "q0 plain.")
	case what < 25:
		c.d.HoldAcks(true)
		c.note("heartbeats are not answered")
	case what < 26:
		c.d.HoldAcks(false)
	default:
		c.answer([]string{"go on", "go on", "stop"}[c.rnd.IntN(3)], by)
	}
}

// permissions removes a permission of the bot in a channel, or restores it.
func (c *crowd) permissions() {
	if c.dark != "" {
		c.d.Permit(c.dark, c.d.Self().ID, c.taken)
		c.note("%s: permission %d is back", c.dark, c.taken)
		c.dark = ""
		return
	}
	c.dark = []string{c.d.General, c.d.Lounge, c.side}[c.rnd.IntN(3)]
	c.taken = []discordtest.Permission{
		discordtest.SendMessages, discordtest.SendMessages, discordtest.AttachFiles, discordtest.ReadMessageHistory, discordtest.ViewChannel,
	}[c.rnd.IntN(5)]
	touched := []string{c.dark}
	if c.dark == c.d.General {
		touched = append(touched, c.thread) // a thread has the permissions of its channel
	}
	for _, channel := range touched {
		c.dimmed[channel] = true
		c.unheard[channel] = c.unheard[channel] || c.taken == discordtest.ReadMessageHistory || c.taken == discordtest.ViewChannel
	}
	c.d.Deny(c.dark, c.d.Self().ID, c.taken)
	c.note("%s: permission %d is taken", c.dark, c.taken)
}

// doom deletes a thread in which the bot is working, or creates one.
func (c *crowd) doom() {
	if len(c.doomed) > 0 && c.rnd.IntN(2) == 0 {
		c.d.DeleteChannel(c.doomed[0])
		c.note("the thread %s is deleted", c.doomed[0])
		c.doomed = c.doomed[1:]
		return
	}
	thread := c.d.Thread(c.d.General, "doomed")
	c.d.MentionUs(thread, c.d.Ada, []string{"q0 slow.", "q0 long.", "q0 tool.", "q0 file."}[c.rnd.IntN(4)])
	c.doomed = append(c.doomed, thread)
	c.note("a thread %s begins", thread)
}

// paused lists the channels in which a request is paused at a limit.
func (c *crowd) paused() (channels []string) {
	for _, channel := range slices.Concat(c.where, c.doomed) {
		var session struct{ Paused *struct{ Number int } }
		if c.s.Request("GET", "/sessions/"+channel, nil, &session); session.Paused != nil && !slices.Contains(channels, channel) {
			channels = append(channels, channel)
		}
	}
	return channels
}

// answer answers a request that is paused at a limit. Only the user who made the request may.
func (c *crowd) answer(word string, by discordtest.User) {
	if !c.up || !c.s.Ready() {
		return
	}
	for _, channel := range c.paused() {
		if alone, direct := c.dms[channel]; direct {
			by = alone
		}
		c.pauses++
		c.d.MentionUs(channel, by, word)
		c.note("%s: %s answers %q", channel, by.Name, word)
	}
}

// settle restores all permissions and answers all pending questions.
func (c *crowd) settle() {
	c.d.HoldAcks(false)
	if c.dark != "" {
		c.permissions()
	}
	for _, thread := range c.doomed {
		c.d.DeleteChannel(thread)
	}
	c.doomed = nil
}

// alive checks that new messages are answered in every channel.
func (c *crowd) alive() {
	c.t.Helper()
	var asked, in []string
	for i, channel := range c.where {
		if slices.Contains(c.where[:i], channel) {
			continue
		}
		by, direct := c.dms[channel]
		if !direct {
			by = c.d.Ada
		}
		asked, in = append(asked, c.d.MentionUs(channel, by, "q0 plain.")), append(in, channel)
	}
	for i, id := range asked {
		ok := e2e.Poll(answerWithin, func() bool {
			return slices.ContainsFunc(c.d.Ours(in[i]), func(m discordtest.Message) bool {
				return m.ReplyTo == id && len(m.Buttons) == 0 && strings.Contains(m.Content, "An answer to q0")
			})
		})
		if !ok {
			c.t.Errorf("%s: %s is not answered when all is well again: %+v", in[i], id, c.s.Story(e2e.RequestID(in[i], id)))
		}
	}
	if ours := c.d.Ours(c.strange); len(ours) > 0 {
		c.t.Errorf("in a server that is not allowed we said %+v", ours)
	}
}

// incomplete returns why the answer of a request may be shown only in part.
func (h *heard) incomplete(request string) string {
	channel := h.session[request]
	if h.c.dimmed[channel] {
		return "we might not write"
	}
	for id := range h.c.removed {
		if h.shows[id] == request {
			return fmt.Sprintf("%s was deleted", id)
		}
	}
	return ""
}
