package router

import (
	"slices"
	"time"

	"lilac/internal/foundation/event"
)

// Mode is how a session listens.
type Mode string

// The modes of a session.
const (
	// Direct is a private conversation: everything is meant for us.
	Direct Mode = "dm"
	// Mention sessions listen to mentions of us and replies to us.
	Mention Mode = "mention"
	// Active sessions are a conversation that we take part in.
	Active Mode = "active"
)

const (
	// maxOutputs bounds how many messages of a running answer are known.
	maxOutputs = 200
	// maxBuffered bounds a burst; a longer one is forwarded at once.
	maxBuffered = 50
	// maxRequests bounds what a session may have waiting in the router's eyes.
	maxRequests = 100
	// maxTold bounds what is known to be told for a request that waits.
	maxTold = 200
	// staleAfter is when a request that was never seen to run is forgotten.
	staleAfter = time.Hour
)

// Debounce is how a burst in an active session is awaited: Wait after its last
// message, at most Max after its first.
type Debounce struct{ Wait, Max time.Duration }

// Rules are what a decision depends on besides the session's state.
type Rules struct {
	Debounce Debounce
	// Gate asks a small model whether a burst is worth an answer.
	Gate bool
}

// State is what the router knows of a session; the zero value knows nothing.
type State struct {
	// Requests are what runs or will run, in that order.
	Requests []Request `json:"requests,omitempty"`
	// Buffer holds the burst that waits, oldest first; Due is when it goes
	// (Unix milliseconds), First when it began.
	Buffer []string `json:"buffer,omitempty"`
	First  int64    `json:"first,omitempty"`
	Due    int64    `json:"due,omitempty"`
	// Gating is the burst that the gate is asked about.
	Gating []string `json:"gating,omitempty"`
}

// Empty says that nothing is known of the session.
func (s State) Empty() bool {
	return len(s.Requests) == 0 && len(s.Buffer) == 0 && len(s.Gating) == 0 && s.First == 0 && s.Due == 0
}

// Request is one that has not ended.
type Request struct {
	ID string `json:"id"`
	// Running is false while it has not been seen to run: it is starting.
	Running bool `json:"running,omitempty"`
	// Outputs are the messages that show its answer.
	Outputs []string `json:"outputs,omitempty"`
	Since   int64    `json:"since"`
	// Told are, while it waits, the messages that the runner got for it, and With
	// those of them that came only then and would have been requests of their own.
	Told []string   `json:"told,omitempty"`
	With []Question `json:"with,omitempty"`
}

// Question is a message with the request that it would begin.
type Question struct {
	ID        string `json:"id"`
	RequestID string `json:"requestId"`
}

// Input is something that concerns a session.
type Input interface{ input() }

// Message is one that somebody wrote. RequestID is the request that it would
// begin.
type Message struct {
	ID, RequestID string
	Mode          Mode
	// FromSelf and FromBot say that a program wrote it; Taken, that a workflow
	// waits or waited for it.
	FromSelf, FromBot, Taken bool
	// Told says that the model has it already: with a reply to it that was heard
	// first, or because somebody asked about it. It is answered with that.
	Told bool
	// Unclear says that the platform's facts are missing.
	Unclear bool
	// Mentions says that our literal id is in the text, Interrupts that it asks
	// to interrupt.
	Mentions, Interrupts bool
	// ReplyTo is the message that it replies to, ReplyToUs that it is ours, and
	// ReplyToRequest the request whose answer that shows, as far as it is known.
	ReplyTo        string
	ReplyToUs      bool
	ReplyToRequest string
}

// Deleted says that a message is gone. RequestID is the request that it began,
// if it did.
type Deleted struct{ ID, RequestID string }

// Edited says that a message has another text since At, which tells its edits
// apart. RequestID is the request that it began, if it did.
type Edited struct {
	ID, RequestID string
	At            int64
}

// Lifecycle is a request's change of state.
type Lifecycle struct {
	RequestID string
	State     event.RequestState
}

// Output says that a message shows a request's answer.
type Output struct{ RequestID, MessageID string }

// Told says which messages the model was told for a request.
type Told struct {
	RequestID  string
	MessageIDs []string
}

// Due is the time of the burst; RequestID is the request that it would begin.
type Due struct{ RequestID string }

// Gated is the gate's answer about a burst.
type Gated struct {
	RequestID string
	Forward   bool
}

func (Message) input()   {}
func (Deleted) input()   {}
func (Edited) input()    {}
func (Lifecycle) input() {}
func (Output) input()    {}
func (Told) input()      {}
func (Due) input()       {}
func (Gated) input()     {}

// Effect is one thing to do.
type Effect interface{ effect() }

// Forward sends messages to the runner, the oldest first.
type Forward struct {
	Queue     event.Queue
	RequestID string
	// MessageIDs are the messages of the burst, or the one. They are composed
	// with what the last of them replies to.
	MessageIDs []string
	// Edited is set for a message that was forwarded before, and edited then.
	Edited int64
}

// Cancel ends a request that waits.
type Cancel struct{ RequestID string }

// Untell says that the model does not get what the runner got: the request that
// it was for ended before it began.
type Untell struct{ MessageIDs []string }

// Reanchor moves the request's output under a message, when the runner says
// that the message was applied. Inherit keeps what the output replies to.
type Reanchor struct {
	RequestID, MessageID string
	Inherit              bool
}

// Ask asks the gate about the burst in Gating.
type Ask struct{ MessageIDs []string }

func (Forward) effect()  {}
func (Cancel) effect()   {}
func (Untell) effect()   {}
func (Reanchor) effect() {}
func (Ask) effect()      {}

// Decide is the router's rules. It returns the next state and what is to be
// done, and changes nothing that it was given.
func Decide(s State, in Input, r Rules, now time.Time) (State, []Effect) {
	d := decision{State: s.clone(), rules: r, now: now}
	switch in := in.(type) {
	case Message:
		d.message(in)
	case Deleted:
		d.deleted(in)
	case Edited:
		if d.waits(in.RequestID) {
			d.effects = append(d.effects, Forward{Queue: event.Prompt, RequestID: in.RequestID, MessageIDs: []string{in.ID}, Edited: in.At})
		}
	case Lifecycle:
		d.lifecycle(in)
	case Output:
		d.output(in)
	case Told:
		d.told(in)
	case Due:
		d.due(in.RequestID)
	case Gated:
		batch := d.Gating
		d.Gating = nil
		if in.Forward && len(batch) > 0 {
			d.batch(in.RequestID, batch)
		}
	}
	return d.State, d.effects
}

func (s State) clone() State {
	s.Requests = slices.Clone(s.Requests)
	s.Buffer = slices.Clone(s.Buffer)
	s.Gating = slices.Clone(s.Gating)
	return s
}

type decision struct {
	State
	rules   Rules
	now     time.Time
	effects []Effect
}

func (d *decision) message(m Message) {
	if m.FromSelf || m.FromBot || m.Taken || m.Unclear && m.Mode != Direct {
		return
	}
	d.forgetStale()
	if m.Told {
		d.joined(m)
		return
	}
	asked := m.Mentions || m.ReplyToUs
	if m.Mode == Mention && !asked {
		return
	}
	current, ok := d.current()
	if !ok {
		if m.Mode == Active && !asked {
			d.buffer(m.ID)
			return
		}
		d.prompt(m)
		return
	}
	reply := m.ReplyTo != "" && (m.ReplyToRequest == current.ID || slices.Contains(current.Outputs, m.ReplyTo))
	switch {
	case m.Interrupts:
		d.join(current.ID, event.Interrupt, m, !reply)
	case reply && m.Mentions:
		d.join(current.ID, event.Steer, m, false)
	case reply:
		d.join(current.ID, event.FollowUp, m, false)
	case m.ReplyToUs || m.Mode == Mention:
		d.prompt(m)
	case m.Mode == Active && m.Mentions:
		d.join(current.ID, event.Steer, m, true)
	default:
		d.join(current.ID, event.FollowUp, m, false)
	}
}

// deleted takes a message back: out of the burst, and with the request that it
// began.
func (d *decision) deleted(m Deleted) {
	d.unbuffer([]string{m.ID})
	for i, r := range d.Requests {
		d.Requests[i].With = slices.DeleteFunc(slices.Clone(r.With), func(q Question) bool { return q.ID == m.ID })
	}
	if d.waits(m.RequestID) {
		d.effects = append(d.effects, Cancel{m.RequestID})
		d.untell(d.index(m.RequestID))
	}
}

func (d *decision) unbuffer(ids []string) {
	gone := func(id string) bool { return slices.Contains(ids, id) }
	d.Buffer = slices.DeleteFunc(d.Buffer, gone)
	if len(d.Buffer) == 0 {
		d.First, d.Due = 0, 0
	}
	// The last one stays: what the gate says of it is not for the next burst.
	if rest := slices.DeleteFunc(slices.Clone(d.Gating), gone); len(rest) > 0 {
		d.Gating = rest
	} else if len(d.Gating) > 1 {
		d.Gating = d.Gating[:1]
	}
}

// current is the request that runs, else the first that is starting.
func (d *decision) current() (Request, bool) {
	if i := slices.IndexFunc(d.Requests, func(r Request) bool { return r.Running }); i >= 0 {
		return d.Requests[i], true
	}
	if len(d.Requests) > 0 {
		return d.Requests[0], true
	}
	return Request{}, false
}

// prompt begins a request with the message, and with the burst that waits: it
// came before and belongs to what is asked.
func (d *decision) prompt(m Message) {
	ids := append(d.Buffer, m.ID)
	d.Buffer, d.First, d.Due = nil, 0, 0
	d.begin(m.RequestID, ids)
}

func (d *decision) begin(requestID string, messageIDs []string) {
	d.effects = append(d.effects, Forward{Queue: event.Prompt, RequestID: requestID, MessageIDs: messageIDs})
	if d.index(requestID) < 0 && len(d.Requests) < maxRequests {
		d.Requests = append(d.Requests, Request{ID: requestID, Since: d.now.UnixMilli()})
	}
}

// join gives the message to a request; a steer or an interrupt also moves its
// output.
func (d *decision) join(requestID string, q event.Queue, m Message, inherit bool) {
	d.effects = append(d.effects, Forward{Queue: q, RequestID: requestID, MessageIDs: []string{m.ID}})
	if q != event.FollowUp {
		d.effects = append(d.effects, Reanchor{RequestID: requestID, MessageID: m.ID, Inherit: inherit})
	}
}

func (d *decision) buffer(id string) {
	now := d.now.UnixMilli()
	if len(d.Buffer) == 0 || d.First > now { // or the clock was set back
		d.First = now
	}
	d.Buffer = append(d.Buffer, id)
	d.Due = min(now+d.rules.Debounce.Wait.Milliseconds(), d.First+d.rules.Debounce.Max.Milliseconds())
	if len(d.Buffer) >= maxBuffered {
		d.Due = now
	}
}

// due lets the burst go, if its time has come. A burst waits while the gate
// thinks about the one before it.
func (d *decision) due(requestID string) {
	if len(d.Buffer) == 0 || len(d.Gating) > 0 {
		return
	}
	now := d.now.UnixMilli()
	if d.First > now { // the clock was set back: it begins now, and waits as long as it was to
		d.First, d.Due = now, now+max(d.Due-d.First, 0)
	}
	if now < d.Due {
		return
	}
	batch := d.Buffer
	d.Buffer, d.First, d.Due = nil, 0, 0
	if _, busy := d.current(); d.rules.Gate && !busy {
		d.Gating = batch
		d.effects = append(d.effects, Ask{MessageIDs: batch})
		return
	}
	d.batch(requestID, batch)
}

// batch forwards a burst: as a request, or to the one that began meanwhile.
func (d *decision) batch(requestID string, ids []string) {
	current, busy := d.current()
	if !busy {
		d.begin(requestID, ids)
		return
	}
	for _, id := range ids {
		d.effects = append(d.effects, Forward{Queue: event.FollowUp, RequestID: current.ID, MessageIDs: []string{id}})
	}
}

func (d *decision) lifecycle(l Lifecycle) {
	i := d.index(l.RequestID)
	switch {
	case l.State.Ended():
		if i >= 0 {
			if l.State != event.StateDone {
				d.untell(i) // it has nothing of the kind once it runs
			}
			d.Requests = slices.Delete(d.Requests, i, i+1)
		}
	case i >= 0:
		if l.State != event.StateQueued {
			d.Requests[i].Running, d.Requests[i].Told, d.Requests[i].With = true, nil, nil
		}
	case len(d.Requests) < maxRequests:
		d.Requests = append(d.Requests, Request{ID: l.RequestID, Running: l.State != event.StateQueued, Since: d.now.UnixMilli()})
	}
}

func (d *decision) output(o Output) {
	i := d.index(o.RequestID)
	if i < 0 || slices.Contains(d.Requests[i].Outputs, o.MessageID) {
		return
	}
	outputs := append(slices.Clone(d.Requests[i].Outputs), o.MessageID)
	d.Requests[i].Outputs = outputs[max(0, len(outputs)-maxOutputs):]
}

func (d *decision) index(requestID string) int {
	return slices.IndexFunc(d.Requests, func(r Request) bool { return r.ID == requestID })
}

// waits says that a request was forwarded and not seen to run.
func (d *decision) waits(requestID string) bool {
	i := d.index(requestID)
	return i >= 0 && !d.Requests[i].Running
}

// forgetStale drops what was forwarded long ago and never seen: nothing a
// person does may hang on an event that will not come.
func (d *decision) forgetStale() {
	now, before := d.now.UnixMilli(), d.now.Add(-staleAfter).UnixMilli()
	for i, r := range d.Requests {
		d.Requests[i].Since = min(r.Since, now) // the clock may have been set back
	}
	d.Requests = slices.DeleteFunc(d.Requests, func(r Request) bool { return !r.Running && r.Since < before })
}
