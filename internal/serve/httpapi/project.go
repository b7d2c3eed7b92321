package httpapi

import (
	"encoding/json"
	"slices"
	"strings"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// streamGap says that something that was asked for is gone.
const streamGap = "stream.gap"

// projection turns events of the merged topics into frames. It is pure: its
// methods append frames to a buffer and return what they wish from the
// service; they read no clock and do no I/O.
//
// What it promises: stream.start comes before anything else of its request;
// the end comes once, after the lifecycle's end state and after all output;
// the cursor of a frame never stands behind something that was not sent.
// For the last two it holds the topic of requests back (see Waiting) while
// the output of one that ended is still on its way.
type projection struct {
	at      cursor
	runs    []*run
	waiting *run
	scratch []byte
	data    []byte
}

// run is a request that has not ended; at.Runs[i] belongs to runs[i] for the
// followed ones, which stand first. Muted ones, whose text is not sent,
// follow and are not part of the cursor.
type run struct {
	request string
	session string
	muted   bool
	final   *event.FinalText
	// has is how much of the text the reader has, in bytes, or unknown.
	has int64
	// torn says that the reader was told that output is gone, retried that
	// what may be left of it was asked for, gone that nothing is.
	torn, retried, gone bool
	// The end state, when it came, and its place in the topic of requests.
	end   *event.RequestLifecycle
	endTS int64
	endAt bus.Position
	// seen is the position of the last output that came, drained that of the
	// newest one, asked for when the request ended.
	seen, drained bus.Position
}

// unknown is how much of a text a reader has that follows it from the middle.
const unknown = -1

// wish is what the projection asks of the service.
type wish struct {
	kind    wishKind
	request string
	after   bus.Position
}

type wishKind int

const (
	// follow asks for the output of a request, behind a position.
	follow wishKind = iota + 1
	// unfollow says that no more output is needed.
	unfollow
	// askLast asks for the position of the newest output.
	askLast
)

func newProjection(at cursor) *projection {
	at.Runs = slices.Clone(at.Runs)
	p := &projection{at: at}
	for _, r := range at.Runs {
		read := &run{request: r.Request, session: r.Session, seen: r.After}
		if r.After != "" {
			read.has = unknown
		}
		p.runs = append(p.runs, read)
	}
	return p
}

// Begin sends what stands at the cursor itself: the starts that are still to
// be announced, and the cursor, so that a reader that breaks off before the
// first event can resume too.
func (p *projection) Begin(buf []byte, now int64) ([]byte, []wish) {
	var wishes []wish
	for i := range p.at.Runs {
		r := &p.at.Runs[i]
		wishes = append(wishes, wish{follow, r.Request, r.After})
		if r.Announce {
			r.Announce = false
			buf = p.start(buf, r.Request, r.Session, now)
		}
	}
	buf = append(buf, "id: "...)
	buf, p.scratch = appendCursor(buf, p.scratch, &p.at)
	return append(buf, '\n', '\n'), wishes
}

// Waiting reports that the topic of requests must be held back.
func (p *projection) Waiting() bool { return p.waiting != nil }

// Env takes an environment event, which is sent as it is. That a request began
// or ended is for rules there: readers learn it from the output.
func (p *projection) Env(buf []byte, d bus.Delivery) []byte {
	p.at.Env = d.Position
	switch d.Type {
	case event.StreamStart, event.StreamCompleted, event.StreamError:
		return buf
	}
	return p.frame(buf, string(d.Type), d.Data)
}

// Request takes an event of the topic of requests.
func (p *projection) Request(buf []byte, d bus.Delivery) ([]byte, []wish) {
	payload, err := event.Decode(d.Event)
	if err != nil {
		p.at.Req = d.Position
		return buf, nil // a newer program's event, or a damaged one: not ours to show
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

func (p *projection) lifecycle(buf []byte, d bus.Delivery, e event.RequestLifecycle) ([]byte, []wish) {
	id := d.Headers.RequestID()
	r := p.find(id)
	switch {
	case e.State.Ended():
		// The position stays before the end until the end is sent.
		var wishes []wish
		if r == nil {
			r = &run{request: id, session: d.Headers.SessionID(), muted: true}
			p.runs = append(p.runs, r)
			wishes = append(wishes, wish{kind: follow, request: id})
		}
		r.end, r.endTS, r.endAt = &e, d.TS, d.Position
		p.waiting = r
		return buf, append(wishes, wish{kind: askLast, request: id})
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
	return p.start(buf, id, d.Headers.SessionID(), d.TS), []wish{{kind: follow, request: id}}
}

// Output takes an event of a request's output.
func (p *projection) Output(buf []byte, request string, d bus.Delivery) ([]byte, []wish) {
	r := p.find(request)
	if r == nil {
		return buf, nil
	}
	r.seen, r.retried = d.Position, false
	payload, err := event.Decode(d.Event)
	if err == nil && !r.muted {
		buf = p.reach(buf, r, payload, d.TS)
	}
	if final, ok := payload.(event.FinalText); ok && err == nil {
		// Not past the final text before the end is sent: a reader that
		// resumes needs it again.
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
	if p.waiting == r && r.drained == d.Position {
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

// reach takes that text follows at an offset, and says first when some before it
// is missing: a broker that lost everything has only the last minute again.
func (p *projection) reach(buf []byte, r *run, payload event.Payload, now int64) []byte {
	var offset, length int64
	switch e := payload.(type) {
	case event.TextDelta:
		offset, length = e.Offset, int64(len(e.Delta))
	case event.TextReset:
		offset = e.Offset
	default:
		return buf
	}
	if r.has != unknown && offset > r.has {
		buf = p.missing(buf, r, now)
	}
	r.has = offset + length
	return buf
}

// missing says, once, that some of a request's output is gone.
func (p *projection) missing(buf []byte, r *run, now int64) []byte {
	if r.torn {
		return buf
	}
	r.torn = true
	return p.requestGap(buf, r.request, r.session, "Some of the output of this request is gone. Its whole text comes with its end, and is then in GET /sessions/{id}/messages.", now)
}

// Unfollowed says that a request's words are not sent.
func (p *projection) Unfollowed(buf []byte, request, session string, now int64) []byte {
	return p.requestGap(buf, request, session, "So many requests run that the words of this one are not sent here. Its whole text comes with its end; GET /events?session_id= of its conversation has the words.", now)
}

// file tells of a file that was given, never its bytes.
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

// Last takes the position of the newest output of a request that ended; ""
// says that there is none, or none any more.
func (p *projection) Last(buf []byte, request string, last bus.Position) ([]byte, []wish) {
	r := p.find(request)
	if r == nil || p.waiting != r {
		return buf, nil
	}
	r.drained = last
	if r.final != nil || last == "" || r.seen == last || r.gone {
		return p.finish(buf)
	}
	return buf, nil
}

// OutputGone takes that output of a request was removed. Some of it may be left;
// then that is what follows.
func (p *projection) OutputGone(buf []byte, request string, now int64) ([]byte, []wish) {
	r := p.find(request)
	if r == nil {
		return buf, nil
	}
	buf = p.missing(buf, r, now)
	unfollowed := wish{kind: unfollow, request: request}
	if !r.retried {
		r.retried, r.has = true, unknown
		return buf, []wish{unfollowed, {kind: follow, request: request}}
	}
	r.gone = true
	if p.waiting == r {
		return p.finish(buf)
	}
	return buf, []wish{unfollowed}
}

// Gap takes that events of a topic were removed by age.
func (p *projection) Gap(buf []byte, topic event.Topic, now int64) []byte {
	if topic == event.TopicEnv {
		p.at.Env = ""
	} else {
		p.at.Req = ""
	}
	return p.gap(buf, string(topic), "Events after this cursor were removed by age. Load GET /sessions/{id}/messages again; the stream goes on with what is retained.", now)
}

func (p *projection) gap(buf []byte, topic, message string, now int64) []byte {
	p.data = append(p.data[:0], `{"id":`...)
	p.data = appendString(p.data, streamGap+":"+topic)
	p.data = appendField(p.data, "type", streamGap)
	p.data = appendInt(p.data, "timestamp", now)
	p.data = append(p.data, `,"metadata":{"source":"system"},"payload":{"topic":`...)
	p.data = appendString(p.data, topic)
	p.data = appendField(p.data, "message", message)
	return p.close(buf, streamGap)
}

// requestGap says that something of one request is not sent.
func (p *projection) requestGap(buf []byte, request, session, message string, now int64) []byte {
	p.open(streamGap+":"+request, streamGap, now, session, "system", request)
	p.data = appendField(p.data, "topic", string(event.OutputTopic(request)))
	p.data = appendField(p.data, "message", message)
	return p.close(buf, streamGap)
}

// finish sends the end of the request that is waited for.
func (p *projection) finish(buf []byte) ([]byte, []wish) {
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
	return p.close(buf, kind), []wish{{kind: unfollow, request: r.request}}
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

// open begins an EnvEvent up to and with the first field of its payload; close
// ends it and makes it a frame.
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
