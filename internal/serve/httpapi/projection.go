package httpapi

import (
	"encoding/json"
	"slices"
	"strings"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// streamGap is the type of the event that reports missing events.
const streamGap = string(event.StreamGap)

// projection turns events of the merged topics into frames. It is pure: its
// methods append frames to a buffer and return effects for the service to carry
// out; they read no clock and do no I/O.
//
// It guarantees:
//   - stream.start precedes everything else of its request.
//   - The end of a request comes once, after the lifecycle's end state and after
//     all output.
//   - The cursor of a frame never passes an event that was not sent.
//
// For the last two it holds back the request topic (see Waiting) while the output
// of an ended request is incomplete. A request passes through these states:
//
//	(none) ── running ──► followed ──┐
//	(none) ── ended ────► muted ─────┴─ ended ──► waiting ── output complete ──► (none)
type projection struct {
	at      cursor
	runs    []*run
	waiting *run
	scratch []byte
	data    []byte
}

// run is a request whose end has not been sent. Followed runs come first in
// projection.runs, and at.Runs[i] is the cursor of runs[i]. Muted runs, whose text
// is not sent, come after them and are not part of the cursor.
type run struct {
	request string
	session string
	muted   bool
	final   *event.FinalText
	// sent is the length of the text that the client has, in bytes, or unknown.
	sent int64
	// gapSent reports that the client knows that output is missing, retried that the
	// retained output was requested, gone that none is retained.
	gapSent, retried, gone bool
	// The end state, its time, and its position in the request topic.
	end   *event.RequestLifecycle
	endTS int64
	endAt bus.Position
	// seen is the position of the last output that was read, newest the position
	// of the last output that exists, which the projection asks for when the request ends.
	seen, newest bus.Position
}

// unknown is the sent length of a client that follows a text from the middle.
const unknown = -1

// effect is something that the service does for the projection: follow, unfollow
// or findLast.
type effect interface{ isEffect() }

// follow reads the output of a request, after a position.
type follow struct {
	request string
	after   bus.Position
}

// unfollow stops reading the output of a request.
type unfollow struct{ request string }

// findLast looks up the position of the newest output of a request and passes it
// to [projection.Last].
type findLast struct{ request string }

func (follow) isEffect()   {}
func (unfollow) isEffect() {}
func (findLast) isEffect() {}

func newProjection(at cursor) *projection {
	at.Runs = slices.Clone(at.Runs)
	p := &projection{at: at}
	for _, r := range at.Runs {
		read := &run{request: r.Request, session: r.Session, seen: r.After}
		if r.After != "" {
			read.sent = unknown
		}
		p.runs = append(p.runs, read)
	}
	return p
}

// Begin sends the stream.start events that are still to be announced, and the
// cursor, so that a client that disconnects before the first event can resume.
func (p *projection) Begin(buf []byte, now int64) ([]byte, []effect) {
	var effects []effect
	for i := range p.at.Runs {
		r := &p.at.Runs[i]
		effects = append(effects, follow{r.Request, r.After})
		if r.Announce {
			r.Announce = false
			buf = p.start(buf, r.Request, r.Session, now)
		}
	}
	buf = append(buf, "id: "...)
	buf, p.scratch = appendCursor(buf, p.scratch, &p.at)
	return append(buf, '\n', '\n'), effects
}

// Waiting reports that the request topic must be held back.
func (p *projection) Waiting() bool { return p.waiting != nil }

// Skip passes an event of the environment or request topic that the client may not see.
func (p *projection) Skip(t event.Topic, at bus.Position) {
	if t == event.TopicEnv {
		p.at.Env = at
		return
	}
	p.at.Req = at
}

// Env handles an environment event, which is sent unmodified. The stream.* events
// of this topic exist for rules; clients get those of the projection.
func (p *projection) Env(buf []byte, d bus.Delivery) []byte {
	p.at.Env = d.Position
	switch d.Type {
	case event.StreamStart, event.StreamCompleted, event.StreamError:
		return buf
	}
	return p.frame(buf, string(d.Type), d.Data)
}

// Request handles an event of the request topic.
func (p *projection) Request(buf []byte, d bus.Delivery) ([]byte, []effect) {
	payload, err := event.Decode(d.Event)
	if err != nil {
		p.at.Req = d.Position
		return buf, nil // damaged, or of a newer version of Lilac
	}
	switch e := payload.(type) {
	case event.MessageApplied:
		p.at.Req = d.Position
		p.open(d.ID, event.SessionMessageApplied, d.TS, d.Headers.SessionID(), "env", d.Headers.RequestID())
		p.data = appendField(p.data, "messageId", e.MessageID)
		p.data = appendField(p.data, "queue", string(e.Queue))
		p.data = appendInt(p.data, "offset", e.Offset)
		return p.close(buf, event.SessionMessageApplied), nil
	case event.RequestLifecycle:
		return p.lifecycle(buf, d, e)
	}
	p.at.Req = d.Position
	return buf, nil
}

func (p *projection) lifecycle(buf []byte, d bus.Delivery, e event.RequestLifecycle) ([]byte, []effect) {
	id := d.Headers.RequestID()
	r := p.find(id)
	switch {
	case e.State.Ended():
		// The cursor stays before the end until the end is sent.
		var effects []effect
		if r == nil {
			r = &run{request: id, session: d.Headers.SessionID(), muted: true}
			p.runs = append(p.runs, r)
			effects = append(effects, follow{request: id})
		}
		r.end, r.endTS, r.endAt = &e, d.TS, d.Position
		p.waiting = r
		return buf, append(effects, findLast{id})
	case e.State != event.StateRunning || r != nil:
		p.at.Req = d.Position
		return buf, nil
	}
	p.at.Req = d.Position
	if len(p.at.Runs) >= maxFollowed {
		return p.Unfollowed(p.start(buf, id, d.Headers.SessionID(), d.TS), id, d.Headers.SessionID(), d.TS), nil
	}
	p.runs = slices.Insert(p.runs, len(p.at.Runs), &run{request: id, session: d.Headers.SessionID()})
	p.at.Runs = append(p.at.Runs, runCursor{Request: id, Session: d.Headers.SessionID()})
	return p.start(buf, id, d.Headers.SessionID(), d.TS), []effect{follow{request: id}}
}

// Output handles an event of a request's output.
func (p *projection) Output(buf []byte, request string, d bus.Delivery) ([]byte, []effect) {
	r := p.find(request)
	if r == nil {
		return buf, nil
	}
	r.seen, r.retried = d.Position, false
	payload, err := event.Decode(d.Event)
	if err == nil && !r.muted {
		buf = p.checkOffset(buf, r, payload, d.TS)
	}
	if final, ok := payload.(event.FinalText); ok && err == nil {
		// The cursor does not pass the final text before the end is sent, because a
		// client that resumes needs the final text again.
		r.final = &final
		if p.waiting == r {
			return p.finish(buf)
		}
		return buf, nil
	}
	if i := slices.Index(p.runs, r); i < len(p.at.Runs) && r.final == nil {
		p.at.Runs[i].After = d.Position
	}
	if err == nil && !r.muted {
		buf = p.output(buf, r, d, payload)
	}
	if p.waiting == r && r.newest == d.Position {
		return p.finish(buf)
	}
	return buf, nil
}

func (p *projection) output(buf []byte, r *run, d bus.Delivery, payload event.Payload) []byte {
	switch e := payload.(type) {
	case event.TextDelta:
		p.open(d.ID, event.StreamText, d.TS, r.session, "llm", r.request)
		p.data = appendField(p.data, "content", e.Delta)
		p.data = appendInt(p.data, "offset", e.Offset)
		return p.close(buf, event.StreamText)
	case event.TextReset:
		p.open(d.ID, event.StreamText, d.TS, r.session, "llm", r.request)
		p.data = appendField(p.data, "content", "")
		p.data = appendInt(p.data, "offset", e.Offset)
		return p.close(buf, event.StreamText)
	case event.ReasoningDelta:
		p.open(d.ID, event.StreamReasoning, d.TS, r.session, "llm", r.request)
		p.data = appendField(p.data, "content", e.Delta)
		return p.close(buf, event.StreamReasoning)
	case event.ToolCallOutput:
		p.open(d.ID, event.StreamToolCall, d.TS, r.session, "llm", r.request)
		p.toolCall(e)
		return p.close(buf, event.StreamToolCall)
	case event.BinaryOutput:
		return p.file(buf, r, d, e)
	}
	return buf
}

// checkOffset reports a gap if text before the offset of the next text is missing, for
// example because its row is damaged.
func (p *projection) checkOffset(buf []byte, r *run, payload event.Payload, now int64) []byte {
	var offset, length int64
	switch e := payload.(type) {
	case event.TextDelta:
		offset, length = e.Offset, int64(len(e.Delta))
	case event.TextReset:
		offset = e.Offset
	default:
		return buf
	}
	if r.sent != unknown && offset > r.sent {
		buf = p.outputGap(buf, r, now)
	}
	r.sent = offset + length
	return buf
}

// outputGap reports once that some of a request's output is missing.
func (p *projection) outputGap(buf []byte, r *run, now int64) []byte {
	if r.gapSent {
		return buf
	}
	r.gapSent = true
	return p.requestGap(buf, r.request, r.session, "Some output of this request is missing. The complete text follows when the request ends, and is then in GET /sessions/{id}/messages.", now)
}

// Unfollowed reports that the text of a request is not streamed.
func (p *projection) Unfollowed(buf []byte, request, session string, now int64) []byte {
	return p.requestGap(buf, request, session, "Too many requests are running to stream the text of this one here. The complete text follows when the request ends; GET /events?session_id= of its conversation streams it.", now)
}

// file describes a file that the request produced, without its bytes.
func (p *projection) file(buf []byte, r *run, d bus.Delivery, e event.BinaryOutput) []byte {
	p.open(d.ID, event.StreamFile, d.TS, r.session, "llm", r.request)
	p.data = appendField(p.data, "fileId", e.BinaryID)
	p.data = appendField(p.data, "filename", e.Filename)
	p.data = appendField(p.data, "mimeType", e.MimeType)
	p.data = appendInt(p.data, "bytes", e.Bytes)
	p.data = appendField(p.data, "url", fileURL(r.session, e.Blob))
	if e.Path != "" {
		p.data = appendField(p.data, "path", e.Path)
	}
	return p.close(buf, event.StreamFile)
}

func (p *projection) toolCall(e event.ToolCallOutput) {
	p.data = appendField(p.data, "toolCallId", e.ToolCallID)
	p.data = appendField(p.data, "name", e.Name)
	if len(e.Args) > 0 {
		p.data = appendRaw(p.data, "args", e.Args)
	}
	p.data = appendField(p.data, "status", string(e.Status))
	if e.Display != "" {
		p.data = appendField(p.data, "display", e.Display)
	}
	if e.OK != nil {
		word := "false"
		if *e.OK {
			word = "true"
		}
		p.data = appendRaw(p.data, "ok", []byte(word))
	}
	if e.Output != "" {
		p.data = appendField(p.data, "output", e.Output)
	}
	if e.Error != "" {
		p.data = appendField(p.data, "error", e.Error)
	}
	if e.Truncated {
		p.data = appendRaw(p.data, "truncated", []byte("true"))
	}
}

// Last handles the position of the newest output of an ended request; "" means
// that no output is retained.
func (p *projection) Last(buf []byte, request string, last bus.Position) ([]byte, []effect) {
	r := p.find(request)
	if r == nil || p.waiting != r {
		return buf, nil
	}
	r.newest = last
	if r.final != nil || last == "" || r.seen == last || r.gone {
		return p.finish(buf)
	}
	return buf, nil
}

// OutputGone handles the loss of a request's output. If some output is retained,
// the stream continues with it.
func (p *projection) OutputGone(buf []byte, request string, now int64) ([]byte, []effect) {
	r := p.find(request)
	if r == nil {
		return buf, nil
	}
	buf = p.outputGap(buf, r, now)
	if !r.retried {
		r.retried, r.sent = true, unknown
		return buf, []effect{unfollow{request}, follow{request: request}}
	}
	r.gone = true
	if p.waiting == r {
		return p.finish(buf)
	}
	return buf, []effect{unfollow{request}}
}

// Gap handles the expiry of events of the environment or request topic.
func (p *projection) Gap(buf []byte, topic event.Topic, now int64) []byte {
	if topic == event.TopicEnv {
		p.at.Env = ""
	} else {
		p.at.Req = ""
	}
	return p.gap(buf, string(topic), "Events after this cursor have expired. Load GET /sessions/{id}/messages again. The stream continues with the retained events.", now)
}

func (p *projection) gap(buf []byte, topic, message string, now int64) []byte {
	p.data = append(p.data[:0], `{"id":`...)
	p.data = appendString(p.data, streamGap+":"+topic)
	p.data = appendField(p.data, "type", streamGap)
	p.data = appendInt(p.data, "timestamp", now)
	p.data = append(p.data, `,"metadata":{"source":"system"},"payload":{"topic":`...)
	p.data = appendString(p.data, topic)
	p.data = appendField(p.data, "message", message)
	return p.close(buf, event.StreamGap)
}

// requestGap reports that some output of one request is not sent.
func (p *projection) requestGap(buf []byte, request, session, message string, now int64) []byte {
	p.open(streamGap+":"+request, event.StreamGap, now, session, "system", request)
	p.data = appendField(p.data, "topic", string(event.OutputTopic(request)))
	p.data = appendField(p.data, "message", message)
	return p.close(buf, event.StreamGap)
}

// finish sends the end of the waiting request.
func (p *projection) finish(buf []byte) ([]byte, []effect) {
	r := p.waiting
	i := slices.Index(p.runs, r)
	p.waiting = nil
	p.runs = slices.Delete(p.runs, i, i+1)
	if i < len(p.at.Runs) {
		p.at.Runs = slices.Delete(p.at.Runs, i, i+1)
	}
	p.at.Req = r.endAt
	content := ""
	if r.final != nil {
		content = r.final.FinalText
	}
	kind := event.StreamCompleted
	if r.end.State == event.StateFailed {
		kind = event.StreamError
	}
	p.open(string(kind)+":"+r.request, kind, r.endTS, r.session, "llm", r.request)
	p.data = appendField(p.data, "content", content)
	if r.final != nil && len(r.final.Notes) > 0 {
		if notes, err := json.Marshal(r.final.Notes); err == nil {
			p.data = appendRaw(p.data, "notes", notes)
		}
	}
	if r.final != nil && r.final.Usage != nil {
		if usage, err := json.Marshal(r.final.Usage); err == nil {
			p.data = appendRaw(p.data, "usage", usage)
		}
	} else {
		p.data = append(p.data, `,"usage":null`...)
	}
	switch r.end.State {
	case event.StateFailed:
		kind, message := r.end.ErrorKind, r.end.Detail
		if !kind.Valid() {
			kind = fault.Internal
		}
		if message == "" {
			message = "The request failed."
		}
		p.data = append(p.data, `,"error":{"kind":`...)
		p.data = appendString(p.data, string(kind))
		p.data = appendField(p.data, "message", message)
		p.data = append(p.data, '}')
	case event.StateCancelled:
		p.data = append(p.data, `,"cancelled":true`...)
		if r.end.Detail != "" {
			p.data = appendField(p.data, "reason", r.end.Detail)
		}
	}
	return p.close(buf, kind), []effect{unfollow{r.request}}
}

func (p *projection) start(buf []byte, request, session string, ts int64) []byte {
	p.open(string(event.StreamStart)+":"+request, event.StreamStart, ts, session, "llm", request)
	return p.close(buf, event.StreamStart)
}

func (p *projection) find(request string) *run {
	for _, r := range p.runs {
		if r.request == request {
			return r
		}
	}
	return nil
}

// open starts an EnvEvent, up to and including the first field of its payload.
// close completes it and appends it as a frame.
func (p *projection) open(id string, t event.Type, ts int64, session, source, request string) {
	p.data = append(p.data[:0], `{"id":`...)
	p.data = appendString(p.data, id)
	p.data = appendField(p.data, "type", string(t))
	p.data = appendInt(p.data, "timestamp", ts)
	p.data = append(p.data, `,"metadata":{"trigger_session_id":`...)
	p.data = appendString(p.data, session)
	p.data = appendField(p.data, "source", source)
	p.data = append(p.data, `},"payload":{"requestId":`...)
	p.data = appendString(p.data, request)
}

func (p *projection) close(buf []byte, t event.Type) []byte {
	p.data = append(p.data, '}', '}')
	return p.frame(buf, string(t), p.data)
}

func (p *projection) frame(buf []byte, name string, data []byte) []byte {
	buf = append(buf, "id: "...)
	buf, p.scratch = appendCursor(buf, p.scratch, &p.at)
	if !strings.ContainsAny(name, "\r\n") {
		buf = append(buf, "\nevent: "...)
		buf = append(buf, name...)
	}
	buf = append(buf, '\n')
	return appendData(buf, data)
}
