package terminal

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/terminal/markdown"
	"lilac/internal/operate/transcript"
)

// waitsForAnswer is the phase of a request with an open question.
const waitsForAnswer = "Waiting for your answer"

// stream applies an event of the conversation.
func (m Model) stream(e event.EnvEvent) (Model, []Effect) {
	var p transcript.Payload
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return m, nil // an event of another form
	}
	m.lastHeard, m.outage = m.now, ""
	switch e.Type {
	case event.UserQuery:
		m.announced(p)
	case event.SessionMessageApplied:
		m.flushEvents()
		m.conversation.apply(func(o outgoing) bool { return o.messageID != "" && o.messageID == p.MessageID })
	case event.StreamStart:
		m.start(p.RequestID)
	case event.StreamReasoning:
		m.think(p)
	case event.StreamText:
		m.phase(p.RequestID, "Answering")
		m.answered(p.RequestID, p.Offset, p.Content)
	case event.StreamToolCall:
		m.tool(p)
	case event.StreamFile:
		m.add(block{kind: kindFile, request: p.RequestID, text: fmt.Sprintf("%s (%s)  %s", text.SingleLine(p.Filename), size(p.Bytes), text.SingleLine(p.Path))})
	case event.SessionPaused:
		m.asked(ask(p))
		m.phase(p.RequestID, waitsForAnswer)
	case event.SessionResumed:
		m.settled(p.RequestID)
		m.phase(p.RequestID, "Working")
	case event.StreamCompleted, event.StreamError:
		m.finish(e.Type, p)
	case "stream.gap":
		m.add(block{kind: kindNote, text: text.SingleLine(p.Message)})
	default:
		m.wokenBy(e.Type, p)
	}
	return m, nil
}

// announced handles a message that the server accepted, from here or another client.
func (c *conversation) announced(p transcript.Payload) {
	if slices.Contains(c.applied, p.MessageID) {
		return
	}
	content := strings.TrimSpace(clean(p.Content))
	for i, o := range c.outbox {
		if o.messageID == p.MessageID {
			return
		}
		if o.mine && o.messageID == "" && strings.TrimSpace(clean(o.text)) == content {
			c.outbox[i].messageID, c.outbox[i].requestID, c.outbox[i].sent, c.outbox[i].files = p.MessageID, p.RequestID, true, filenames(p.Attachments)
			c.applyStarted()
			return
		}
	}
	if p.MessageID != "" && len(c.outbox) < maxHistory {
		c.outbox = append(c.outbox, outgoing{text: content, queue: p.Queue, messageID: p.MessageID, requestID: p.RequestID, sent: true, files: filenames(p.Attachments)})
		c.applyStarted()
	}
}

// filenames returns the names of the file parts of a message.
func filenames(attachments json.RawMessage) (names []string) {
	var parts []struct {
		Filename string `json:"filename"`
	}
	_ = json.Unmarshal(attachments, &parts) // without names, the message is shown without files
	for _, p := range parts {
		names = append(names, text.SingleLine(p.Filename))
	}
	return names
}

// applyStarted makes the message of the running request part of the conversation. The
// request may start before its message is announced.
func (c *conversation) applyStarted() {
	if c.run != nil {
		c.apply(func(o outgoing) bool { return o.requestID == c.run.id && o.queue == event.Prompt })
	}
}

// apply makes the messages for which is returns true part of the conversation.
func (c *conversation) apply(is func(outgoing) bool) {
	c.outbox = slices.DeleteFunc(slices.Clone(c.outbox), func(o outgoing) bool {
		if !is(o) {
			return false
		}
		if c.run != nil {
			c.closeAnswer()
		}
		c.applied = append(c.applied[max(0, len(c.applied)-maxHistory):], o.messageID)
		c.add(block{kind: kindUser, request: o.requestID, text: clean(o.text), output: strings.Join(o.files, ", ")})
		return true
	})
}

// start begins a request, once.
func (c *conversation) start(request string) {
	if c.run != nil && c.run.id == request {
		return // repeated; the text that follows has its offsets
	}
	c.closeBlocks()
	c.run = &run{id: request, since: c.now, phase: "Thinking"}
	if c.question != nil && c.question.request == request {
		c.run.phase = waitsForAnswer
	}
	// A message whose target has ended becomes a request of its own, which ends in the
	// message's id.
	c.apply(func(o outgoing) bool {
		return o.requestID == request && o.queue == event.Prompt || o.messageID != "" && strings.HasSuffix(request, ":"+o.messageID)
	})
}

// current returns a copy of the run, which replaces the present one, if request is the
// running one.
func (c *conversation) current(request string) *run {
	if c.run == nil || c.run.id != request {
		return nil
	}
	r := *c.run
	c.run = &r
	return &r
}

// phase sets what the status line says.
func (c *conversation) phase(request, phase string) {
	if r := c.current(request); r != nil {
		r.phase = phase
	}
}

func (c *conversation) think(p transcript.Payload) {
	if c.current(p.RequestID) == nil {
		return
	}
	c.phase(p.RequestID, "Thinking")
	if last := len(c.blocks) - 1; last >= 0 && c.blocks[last].kind == kindThinking && c.blocks[last].open {
		if b := &c.blocks[last]; len(b.text) < maxOutput {
			b.text += clean(p.Content)
		}
		return
	}
	c.closeAnswer()
	c.add(block{kind: kindThinking, request: p.RequestID, text: clean(p.Content), open: true})
}

// answered sets the answer to its first offset bytes and delta. Finished blocks cannot be
// taken back: while the new text equals what they show, nothing changes, and where it
// begins to differ, a note says so.
func (c *conversation) answered(request string, offset int, delta string) {
	r := c.current(request)
	if r == nil {
		return
	}
	if offset < 0 || offset > len(r.text) {
		offset = len(r.text) // a gap: the end of the request has the complete text
	}
	c.setAnswer(r, r.text[:offset]+delta)
}

func (c *conversation) setAnswer(r *run, full string) {
	if full == r.text {
		return
	}
	r.text = full
	c.dropOpenAnswer()
	switch {
	case strings.HasPrefix(r.shown, full):
		return
	case !strings.HasPrefix(full, r.shown):
		same := 0
		for same < len(full) && same < len(r.shown) && full[same] == r.shown[same] {
			same++
		}
		c.add(block{kind: kindNote, text: "The answer was taken back to here, and continues:"})
		r.shown = full[:strings.LastIndexByte(full[:same], '\n')+1]
	}
	c.closeThinking()
	rest := full[len(r.shown):]
	if n := markdown.Complete(rest); n > 0 {
		c.add(block{kind: kindAnswer, request: r.id, text: clean(rest[:n])})
		r.shown, rest = full[:len(r.shown)+n], rest[n:]
	}
	if rest != "" {
		c.add(block{kind: kindAnswer, request: r.id, text: clean(rest), open: true})
	}
}

// dropOpenAnswer removes the part of the answer that still grows. It is the last block, or
// comes before tools and notes that arrived since.
func (c *conversation) dropOpenAnswer() {
	for i := len(c.blocks) - 1; i >= c.printed; i-- {
		if c.blocks[i].kind == kindAnswer && c.blocks[i].open {
			c.blocks = slices.Delete(c.blocks, i, i+1)
		}
	}
}

// closeAnswer finishes the part of the answer that still grows, before something else
// follows it.
func (c *conversation) closeAnswer() {
	if c.run == nil {
		return
	}
	r := c.current(c.run.id)
	for i := c.printed; i < len(c.blocks); i++ {
		if b := &c.blocks[i]; b.kind == kindAnswer && b.open {
			b.open, b.until = false, c.now
			r.shown = r.text
		}
	}
	c.closeThinking()
}

func (c *conversation) closeThinking() {
	for i := c.printed; i < len(c.blocks); i++ {
		if b := &c.blocks[i]; b.kind == kindThinking && b.open {
			b.open, b.until = false, c.now
		}
	}
}

// closeBlocks finishes all blocks, when no more events of their request come.
func (c *conversation) closeBlocks() {
	c.closeAnswer()
	for i := c.printed; i < len(c.blocks); i++ {
		if b := &c.blocks[i]; b.open {
			b.open, b.until = false, c.now
		}
	}
}

// tool shows a tool call while it runs, and its output at its end.
func (c *conversation) tool(p transcript.Payload) {
	if c.current(p.RequestID) == nil {
		return
	}
	at := slices.IndexFunc(c.blocks[c.printed:], func(b block) bool { return b.kind == kindTool && b.id == p.ToolCallID && b.request == p.RequestID })
	if at >= 0 {
		at += c.printed
	}
	if at < 0 && p.Status == event.ToolEnd && c.endedBefore(p) {
		return
	}
	if at < 0 {
		c.closeAnswer()
		c.add(block{kind: kindTool, request: p.RequestID, id: p.ToolCallID, open: true})
		at = len(c.blocks) - 1
	}
	b := &c.blocks[at]
	b.name = cmp.Or(text.SingleLine(p.Name), b.name)
	if what := transcript.Describe(p.Display, p.Name, p.Args); what != "" {
		b.text = what
	}
	if p.Status == event.ToolEnd {
		b.open, b.until, b.failed = false, c.now, p.OK != nil && !*p.OK
		var reason string
		_ = json.Unmarshal(p.Error, &reason) // without a reason, the output says enough
		b.output = text.TruncateRunes(clean(cmp.Or(p.Output, reason)), maxOutput)
		c.phase(p.RequestID, "Thinking")
		return
	}
	c.phase(p.RequestID, "Running "+b.name)
}

// endedBefore reports whether the printed blocks have the tool already.
func (c *conversation) endedBefore(p transcript.Payload) bool {
	return slices.ContainsFunc(c.blocks[:c.printed], func(b block) bool { return b.kind == kindTool && b.id == p.ToolCallID && b.request == p.RequestID })
}

// finish shows the end of a request.
func (c *conversation) finish(t event.Type, p transcript.Payload) {
	c.settled(p.RequestID)
	r := c.current(p.RequestID)
	if r == nil { // it was never followed: its end has the complete text
		c.apply(func(o outgoing) bool { return o.requestID == p.RequestID })
		if p.Content != "" {
			c.add(block{kind: kindAnswer, request: p.RequestID, text: clean(p.Content)})
		}
	} else {
		c.setAnswer(r, p.Content)
		c.closeBlocks()
		r = c.run
	}
	c.flushEvents()
	for _, note := range p.Notes {
		c.add(block{kind: kindNote, request: p.RequestID, text: text.SingleLine(note)})
	}
	switch {
	case t == event.StreamError:
		var w fault.Wire
		_ = json.Unmarshal(p.Error, &w)
		c.add(block{kind: kindError, request: p.RequestID, text: clean(cmp.Or(w.Message, "The request failed."))})
	case p.Cancelled:
		c.add(block{kind: kindNote, request: p.RequestID, text: "Stopped"})
	case r != nil:
		c.add(block{kind: kindEnd, request: p.RequestID, text: c.receipt(r, p.Usage)})
	}
	c.apply(func(o outgoing) bool { return o.requestID == p.RequestID && o.queue == event.Prompt })
	c.run = nil
}

// receipt is the line below an answer: its model, its time, and its tokens.
func (c *conversation) receipt(r *run, u *chat.Usage) string {
	parts := []string{orElse(c.model, c.modelOfServer)}
	if d := c.now.Sub(r.since); !r.since.IsZero() && d >= time.Second {
		parts = append(parts, duration(d))
	}
	if u != nil && u.InputTokens+u.OutputTokens > 0 {
		parts = append(parts, fmt.Sprintf("%s in, %s out", count(u.InputTokens), count(u.OutputTokens)))
	}
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " · ")
}
