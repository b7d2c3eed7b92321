package e2e_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
)

// heard holds the outcome of everything that the users said.
type heard struct {
	c *crowd
	// taken maps a message to the requests that contain it.
	taken map[string][]string
	// session maps a request to its conversation. shows maps a message of the bot to the request
	// whose answer it shows.
	session, shows map[string]string
	stories        map[string]e2e.RequestInfo
	histories      map[string][]e2e.Said
}

// hear reads all of this from the program.
func (c *crowd) hear() *heard {
	h := &heard{
		c: c, taken: map[string][]string{}, session: map[string]string{}, shows: map[string]string{},
		stories: map[string]e2e.RequestInfo{}, histories: map[string][]e2e.Said{},
	}
	for _, e := range c.s.Topic("evt.request") {
		h.session[e.Headers.RequestID()] = e.Headers.SessionID()
	}
	for id := range h.session {
		h.stories[id] = c.s.Story(id)
	}
	for _, e := range c.s.Topic("cmd.request") {
		p, err := event.Decode(e)
		m, is := p.(event.RequestMessage)
		if err != nil || !is {
			continue // a stop has no message
		}
		var raw struct{ Discord struct{ MessageIDs []string } }
		_ = json.Unmarshal(m.Raw, &raw) // other messages do not have this field
		for _, id := range raw.Discord.MessageIDs {
			if request := e.Headers.RequestID(); !slices.Contains(h.taken[id], request) {
				h.taken[id] = append(h.taken[id], request)
			}
		}
	}
	for _, e := range c.s.Topic("evt.surface") {
		if p, err := event.Decode(e); err == nil {
			if m, is := p.(event.SurfaceMessageCreated); is {
				h.shows[m.MsgRef.MessageID] = e.Headers.RequestID()
			}
		}
	}
	for _, channel := range c.where {
		var history struct{ Messages []e2e.Said }
		c.s.Request("GET", "/sessions/"+channel+"/messages?limit=1000", nil, &history) // the channel may not have a session
		h.histories[channel] = history.Messages
	}
	return h
}

// right checks all invariants at the end.
func (c *crowd) right() {
	c.t.Helper()
	h := c.hear()
	for id, story := range h.stories {
		if state := event.RequestState(story.State); state != event.StateDone && state != event.StateCancelled && story.Recoveries == 0 {
			c.t.Errorf("%s is %s: %s", id, state, story.Detail)
		}
	}
	for _, w := range c.said {
		h.once(w)
		h.replied(w)
		h.acted(w)
	}
	h.shown()
	for _, id := range c.pressed {
		if i := c.d.Interaction(id); i.Acked && (len(i.Messages) != 1 || i.Messages[0].Content == "") {
			c.t.Errorf("what was asked for with a button or a command was acknowledged, and then: %+v", i.Messages)
		}
	}
	if n := c.s.Count("SELECT count(*) FROM bus_dead_letters"); n > 0 {
		c.t.Errorf("%d dead letters", n)
	}
}

// count returns how often a text occurs in messages with the role in the histories.
func (h *heard) count(role, text string) (n int) {
	for _, history := range h.histories {
		for _, m := range history {
			if m.Role == role && strings.Contains(m.Text(), text) {
				n++
			}
		}
	}
	return n
}

// once checks that a message to the agent belongs to exactly one request and is in the history
// once, and that no other message started a request.
func (h *heard) once(w *spoken) {
	in, times := h.taken[w.id], 0
	mark := regexp.MustCompile(fmt.Sprintf(`\bq%d %s\.`, w.n, w.wish))
	for _, m := range h.histories[w.channel] {
		for line := range strings.Lines(m.Text()) {
			if m.Role == "user" && !strings.HasPrefix(line, "(in reply to ") && mark.MatchString(line) {
				times++
			}
		}
	}
	// If a user asks about a message from its menu, the agent reads it, whomever it was addressed
	// to.
	asked := h.c.asked[w.id]
	answered := len(in) == 1 && h.stories[in[0]].State == string(event.StateDone)
	if h.c.unheard[w.channel] {
		return
	}
	switch _, begun := h.session[e2e.RequestID(w.channel, w.id)]; {
	case w.never && (len(in) > 0 || times > 0):
		h.c.t.Errorf("q%d was deleted before it was heard, and is in %q, %d times in the history", w.n, in, times)
	case w.wakes && !w.maybe && asked == 0 && len(in) != 1, !w.edited && len(in) > 1:
		h.c.t.Errorf("q%d (%s) is in %q, %d times in the history, its own request begun %t", w.n, w.id, in, times, begun)
	case !w.wakes && begun && asked == 0:
		h.c.t.Errorf("q%d woke the agent, and waits for %d", w.n, w.waitFor)
	case w.wakes && !w.maybe && answered && times != 1, !w.edited && times > 1:
		h.c.t.Errorf("q%d is %d times in the history, and in %q", w.n, times, in)
	}
}

// replied checks that a question that got a reply woke the agent once, and that no reply is in the
// history twice.
func (h *heard) replied(w *spoken) {
	if w.waitFor == 0 || h.c.unheard[w.channel] {
		return
	}
	asked := w
	for asked.waitFor > 0 { // a reply can trigger the next question
		asked = h.c.said[asked.waitFor-1]
	}
	told := map[bool]int{}
	for channel, history := range h.histories {
		for _, m := range history {
			if m.Role == "user" && strings.Contains(m.Text(), "message_id="+w.id+"]") {
				told[channel == asked.channel]++
			}
		}
	}
	// A reply to a message that came too late brings that message into its own channel.
	if told[true] > 1 || told[false] > 1 {
		h.c.t.Errorf("the reply q%d to the question %d was told %d times, and %d times elsewhere", w.n, w.waitFor, told[true], told[false])
	}
	if n := h.count("system", fmt.Sprintf("\"wait-%d-\"", w.waitFor)); n > 1 || n == 0 && !h.stopped(asked.channel) {
		h.c.t.Errorf("the question %d, to which q%d replies, woke the agent %d times", w.waitFor, w.n, n)
	}
}

// stopped reports whether a user stopped something in a channel. If so, a request that was about
// to start there may be missing in the history.
func (h *heard) stopped(channel string) bool {
	for id, story := range h.stories {
		if h.session[id] == channel && story.State == string(event.StateCancelled) {
			return true
		}
	}
	return false
}

// acted checks that each wish was fulfilled once.
func (h *heard) acted(w *spoken) {
	said := h.count("assistant", done(w.n)) > 0
	ours := func(text string) (n int) {
		for _, m := range h.c.d.Ours(h.c.side) {
			if strings.HasPrefix(m.Content, text) {
				n++
			}
		}
		return n
	}
	n := 0
	switch w.wish {
	case "send":
		n = ours(fmt.Sprintf("sent-%d-", w.n))
	case "wait":
		if n = ours(fmt.Sprintf("question-%d-", w.n)); n == 0 && h.c.dimmed[h.c.side] {
			n = h.count("system", fmt.Sprintf("\"wait-%d-\"", w.n)) // the agent is told that the question could not be sent
		}
	case "soon":
		n = h.count("system", fmt.Sprintf("\"soon-%d-\"", w.n))
	case "react":
		if m, _ := h.c.d.Message(w.channel, w.id); slices.ContainsFunc(m.Reactions, func(r discordtest.Reaction) bool { return r.Emoji == "👀" }) || m.Deleted {
			n = 1
		}
	case "file":
		for channel := range h.histories {
			for _, m := range h.c.d.Ours(channel) {
				if len(m.Attachments) > 0 && slices.Contains(h.taken[w.id], h.shows[m.ID]) {
					n = 1
				}
			}
		}
		said = said && len(h.taken[w.id]) == 1
	case "task", "sub":
		for _, history := range h.histories {
			for _, m := range history {
				if id, is := strings.CutPrefix(m.Text(), done(w.n)+" "); is && m.Role == "assistant" {
					n += h.count("user", "\"task-"+strings.TrimSpace(id)+"-")
				}
			}
		}
	default:
		return
	}
	most := 1 + h.c.asked[w.id]
	if (w.wish == "task" || w.wish == "sub") && w.edited {
		most++ // the model reads both versions of the text, and a task has no key
	}
	if w.wish == "file" && said && h.incomplete(h.taken[w.id][0]) != "" {
		said = false // the wish may have referred to something that no longer exists
	}
	if n > most || said && n == 0 && !h.stopped(w.channel) {
		h.c.t.Errorf("q%d (%s) was done %d times, and the agent says that it was: %t", w.n, w.wish, n, said)
	}
}

// shown checks that each answer is in its channel, complete and once; that there are no other
// messages; and that no message notifies users whom it must not notify.
func (h *heard) shown() {
	texts, sent := map[string]string{}, map[string]int{}
	for channel := range h.histories {
		for _, m := range h.c.d.Ours(channel) {
			if len(m.Buttons) > 0 {
				h.c.t.Errorf("a message of %s still has a button: %q", h.shows[m.ID], m.Content)
			}
			if slices.ContainsFunc(m.Pings, func(id string) bool {
				return !slices.ContainsFunc(h.c.who, func(u discordtest.User) bool { return u.ID == id })
			}) {
				h.c.t.Errorf("a message notifies %q: %q", m.Pings, m.Content)
			}
			if id := h.shows[m.ID]; id != "" {
				texts[id] += m.Content + "\n"
				continue
			}
			sent[m.Content]++
			found := wanted.FindStringSubmatch(m.Content)
			if found == nil {
				h.c.t.Errorf("a message shows no answer: %q", m.Content)
				continue
			}
			n, _ := strconv.Atoi(found[1]) // the pattern ensures digits
			if most := 1 + h.c.asked[h.c.said[n-1].id]; sent[m.Content] > most {
				h.c.t.Errorf("a message is there %d times: %q", sent[m.Content], m.Content)
			}
		}
	}
	for id, session := range h.session {
		if _, is := h.histories[session]; !is || h.stories[id].State != string(event.StateDone) || h.incomplete(id) != "" {
			continue
		}
		text, wrong := e2e.OutputText(h.c.t, h.c.s.Output(id))
		want, got := withoutFences(strings.ReplaceAll(text, "NO_REPLY", "")), withoutFences(texts[id])
		if len(wrong) > 0 || !slices.Equal(got, want) {
			h.c.t.Errorf("%s (%q) shows\n%q\nwant\n%q", id, wrong, got, want)
		}
	}
}
