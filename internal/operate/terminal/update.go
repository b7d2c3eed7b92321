package terminal

import (
	"fmt"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/transcript"
)

const (
	// frameTime is the time between two frames of the spinner.
	frameTime = 120 * time.Millisecond
	// quiet is the silence after which the server is asked for the reason.
	quiet = 3 * time.Second
)

// Begin returns the first effects: it opens the session, or recalls earlier messages. If
// pick is set, the user chooses a conversation first.
func (m Model) Begin(session string, pick bool) (Model, []Effect) {
	var effects []Effect
	switch {
	case session != "":
		m.opening = true
		effects = append(effects, Open{session})
	case pick:
		m, effects = m.choose("session")
	}
	m.ticking = true
	return m, append(effects, Recall{}, Wait{frameTime})
}

// Update returns the model after a message, and the effects to carry out in order.
func Update(m Model, msg tea.Msg) (Model, []Effect) {
	m, effects := m.apply(msg)
	m, more := m.settle()
	return m, append(effects, more...)
}

func (m Model) apply(msg tea.Msg) (Model, []Effect) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.finishPartial()
		m.width, m.height = max(msg.Width, 20), max(msg.Height, 8)
		m.prompt.area.SetWidth(m.width - 4)
		m.prompt.area.MaxHeight = max(1, min(8, m.height/3))
	case tea.BackgroundColorMsg:
		m.styles = newStyles(msg.IsDark())
		m.prompt.restyle(m.styles)
		for i := range m.blocks {
			m.blocks[i].memo = nil
		}
	case tea.KeyPressMsg:
		return m.key(msg)
	case tea.PasteMsg:
		return m.paste(msg.Content)
	case Opened:
		return m.opened(msg)
	case Recalled:
		m.prompt.remember(msg.Texts...)
	case Streamed:
		if msg.Session == m.session {
			return m.stream(msg.Event)
		}
	case StreamEnded:
		if msg.Session == m.session && msg.Err != nil {
			m.following = false
			m.add(block{kind: kindError, text: clean(fault.ToWire(msg.Err).Message)})
		}
	case Sent:
		return m.sent(msg)
	case Done:
		m.report(msg.Note, msg.Err)
	case Chosen:
		m.report("", msg.Err)
		if msg.Err == nil {
			m.model = text.SingleLine(msg.Model)
			m.notice = "From the next answer on, " + orElse(m.model, m.modelOfServer+" (as configured)") + " answers."
		}
	case Listed:
		m.listed(msg)
	case Found:
		if m.menu.what == "file" && m.menu.filter == msg.Prefix {
			m.menu.items, m.menu.selected = nil, 0
			for _, name := range msg.Names {
				m.menu.items = append(m.menu.items, Item{Value: name, Label: text.SingleLine(name)})
			}
		}
	case Outage:
		m.checking = false
		m.outage = text.SingleLine(msg.Reason)
		m.lastHeard = m.now
	case Tick:
		return m.tick(msg.At)
	case Printed:
		m.printing = false
		if m.overlay.wanted {
			m.overlay = overlay{open: true}
		}
	}
	return m, nil
}

// settle returns the effects that follow from the state: printing what is finished, and
// the next tick.
func (m Model) settle() (Model, []Effect) {
	var effects []Effect
	if lines := m.overflow(); len(lines) > 0 {
		m.printing = true
		effects = append(effects, Print{Lines: lines})
	}
	for i, o := range m.outbox {
		if m.session != "" && !m.opening && m.inFlight == 0 && o.mine && !o.dispatched {
			m.outbox[i].dispatched, m.inFlight = true, o.ref
			effects = append(effects, Send{o.ref, m.session, o.text, o.queue})
		}
	}
	if (m.Busy() || m.opening || m.frame < m.held) && !m.ticking {
		m.ticking = true
		effects = append(effects, Wait{frameTime})
	}
	return m, effects
}

// chrome is the number of lines of the changing part without any block: an empty line, the
// status, the input with its borders, and the hint.
const chrome = 6

// overflow takes the first lines of finished blocks that do not fit on the screen any more.
// They leave the top of the changing part at the moment when they are printed above it, so
// nothing moves. The rest stays in the changing part until it overflows, too.
func (m *Model) overflow() (lines []string) {
	if m.printing || m.overlay.open || m.width == 0 || m.frame == 0 || m.frame < m.held {
		return nil
	}
	lines, m.late = m.late, nil
	excess := -max(m.height-1-chrome, 1)
	for i := m.printed; i < len(m.blocks); i++ {
		excess += len(m.spaced(m.blocks, i, false))
	}
	excess -= m.partial
	for excess > 0 && m.printed < len(m.blocks) && !m.blocks[m.printed].open {
		rest := m.spaced(m.blocks, m.printed, false)[m.partial:]
		n := min(excess, len(rest))
		lines, excess = append(lines, rest[:n]...), excess-n
		if m.partial += n; n == len(rest) {
			m.printed, m.partial = m.printed+1, 0
		}
	}
	if extra := len(m.blocks) - maxBlocks; extra > 0 && m.printed > extra {
		m.blocks, m.printed = append([]block(nil), m.blocks[extra:]...), m.printed-extra
	}
	return lines
}

// finishPartial makes the rest of a block whose beginning is printed the next lines to
// print, because another width breaks its lines elsewhere.
func (m *Model) finishPartial() {
	if m.partial > 0 {
		m.late = append(m.late, m.spaced(m.blocks, m.printed, false)[m.partial:]...)
		m.printed, m.partial = m.printed+1, 0
	}
}

func (m Model) tick(at time.Time) (Model, []Effect) {
	m.now, m.ticking = at, false
	m.frame++
	if m.lastHeard.IsZero() || !m.Busy() {
		m.lastHeard = at
	}
	if m.Busy() && !m.checking && at.Sub(m.lastHeard) >= quiet {
		m.checking = true
		return m, []Effect{Check{}}
	}
	return m, nil
}

// report shows the result of an effect.
func (m *Model) report(note string, err error) {
	if err != nil {
		m.add(block{kind: kindError, text: clean(fault.ToWire(err).Message)})
	} else if note != "" {
		m.add(block{kind: kindNote, text: text.SingleLine(note)})
	}
}

// add appends a finished or open block.
func (c *conversation) add(b block) {
	if b.since.IsZero() {
		b.since = c.now
	}
	c.blocks = append(c.blocks, b)
}

// opened shows a conversation. The messages that wait for a new conversation are sent.
func (m Model) opened(msg Opened) (Model, []Effect) {
	m.opening = false
	if msg.Err != nil {
		m.report("", msg.Err)
		for _, o := range m.outbox {
			m.giveBack(o.text)
		}
		m.outbox = nil
		return m, nil
	}
	fresh := m.session == "" && len(msg.History) == 0
	m.session, m.title, m.model = msg.Session, text.SingleLine(msg.Title), text.SingleLine(msg.Model)
	m.run, m.question, m.more, m.outage, m.following = nil, nil, nil, "", true
	if !fresh {
		m.outbox = nil
		title := orElse(m.title, "the conversation")
		m.add(block{kind: kindNote, text: "Continuing " + title})
		m.history(msg.History)
		for _, q := range msg.Questions {
			m.stillAsks(q)
		}
	}
	return m, []Effect{Follow{m.session, msg.Cursor}}
}

// history adds the stored messages of a conversation.
func (m *Model) history(entries []transcript.Entry) {
	for _, e := range entries {
		b := block{request: e.Request, text: clean(e.Text)}
		switch e.Kind {
		case "user":
			b.kind = kindUser
			m.prompt.remember(e.Text)
			b.output = strings.Join(cleanAll(e.Files), ", ")
		case "answer":
			b.kind = kindAnswer
		case "thinking":
			b.kind = kindThinking
		case "tool":
			b.kind, b.id, b.name, b.output, b.failed = kindTool, e.ToolCallID, text.SingleLine(e.ToolName), clean(e.Output), e.Failed
		default:
			b.kind = kindNote
		}
		m.add(b)
	}
}

// sent handles the response to a message.
func (m Model) sent(msg Sent) (Model, []Effect) {
	if m.inFlight == msg.Ref {
		m.inFlight = 0
	}
	for i, o := range m.outbox {
		if o.ref != msg.Ref || !o.mine {
			continue
		}
		switch {
		case msg.Err == nil:
			m.outbox[i].sent, m.outbox[i].requestID, m.outbox[i].messageID = true, msg.RequestID, msg.MessageID
			m.outbox[i].files = cleanAll(msg.Files)
			m.applyStarted()
		case o.messageID == "": // not known to be accepted
			m.outbox = append(m.outbox[:i:i], m.outbox[i+1:]...)
			m.giveBack(o.text)
			m.add(block{kind: kindError, text: "Not sent: " + clean(fault.ToWire(msg.Err).Message)})
		}
		break
	}
	return m, nil
}

// giveBack puts a message that was not sent back into the input, so that nothing is lost.
func (m *Model) giveBack(message string) {
	if now := m.prompt.value(); strings.TrimSpace(now) != "" {
		message += "\n" + now
	}
	m.prompt.set(message)
}

// submit handles the input. A line that begins with a slash is a command, and is never
// sent to the model.
func (m Model) submit(queue event.Queue) (Model, []Effect) {
	value := m.prompt.value()
	message := strings.TrimSpace(m.prompt.expand(value))
	switch {
	case message == "":
		if m.question != nil {
			return m.answer()
		}
		return m, nil
	case strings.HasPrefix(value, "/"):
		return m.command(value)
	case len(message) > maxContent:
		m.notice = fmt.Sprintf("Not sent: a message has at most %d KiB. Save the text to a file and attach it with @FILE.", maxContent>>10)
		return m, nil
	}
	m.prompt.remember(message)
	m.prompt.clear()
	m.lastRef++
	if !m.Busy() || m.session == "" {
		queue = event.Prompt
	}
	m.outbox = append(m.outbox, outgoing{ref: m.lastRef, text: message, queue: queue, mine: true})
	m.lastHeard = m.now
	switch {
	case m.session != "":
		if !m.following {
			m.following = true
			return m, []Effect{Follow{m.session, ""}}
		}
		return m, nil
	case m.opening: // it is sent when the conversation exists
		return m, nil
	}
	m.opening = true
	return m, []Effect{Create{}}
}

// answer answers the open question with the selected choice.
func (m Model) answer() (Model, []Effect) {
	q := *m.question
	if len(q.options) == 0 {
		m.notice = "Type your answer."
		return m, nil
	}
	m.settled(q.request)
	o := q.options[q.selected]
	return m, []Effect{Answer{Request: q.request, Number: q.number, Answer: o.answer, Reply: o.reply}}
}

// stop stops the running request or, if none runs, the first one that waits.
func (m Model) stop() (Model, []Effect) {
	request := ""
	switch {
	case m.run != nil:
		r := *m.run
		r.stopping = true
		m.run, request = &r, r.id
	case len(m.outbox) > 0 && m.outbox[0].requestID != "":
		request = m.outbox[0].requestID
	default:
		m.notice = "Nothing is running."
		return m, nil
	}
	return m, []Effect{Stop{m.session, request}}
}

func (m *Model) listed(msg Listed) {
	if msg.Err != nil {
		m.menu = menu{}
		m.report("", msg.Err)
		return
	}
	switch {
	case m.menu.what == msg.What:
		m.menu.items, m.menu.loading = cleanItems(msg.Items), false
	case msg.Text != "":
		m.add(block{kind: kindText, text: clean(msg.Text)})
	}
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// clean removes control characters.
func clean(s string) string { return text.Sanitize(s) }

func cleanAll(all []string) []string {
	out := make([]string, len(all))
	for i, s := range all {
		out[i] = text.SingleLine(s)
	}
	return out
}
