package router

import (
	"slices"
	"strings"
	"time"

	"lilac/internal/foundation/event"
)

// Decide applies the rules of the specification. It returns the next state and
// the effects, and modifies nothing that it receives.
func Decide(s State, in Input, now time.Time) (State, []Effect) {
	d := decision{State: s.clone(), in: in, now: now}
	switch e := in.Event.(type) {
	case Message:
		d.message(e)
	case SpokeInThread:
		d.guardLoop(Message{ID: e.MessageID, FromBot: e.FromBot})
	case Deleted:
		d.delete(e)
	case Edited:
		if d.starting(e.RequestID) {
			d.forward(Forward{Queue: event.Prompt, RequestID: e.RequestID, MessageIDs: []string{e.ID}, Edited: e.At})
		}
	case Lifecycle:
		d.followLifecycle(e)
	case Output:
		d.addOutput(e)
	case Delivered:
		d.markDelivered(e.RequestID, e.MessageIDs)
	case Due:
		d.releaseBurst(e)
	case Gated:
		burst := d.Gating
		d.Gating = nil
		if e.Forward && len(burst) > 0 {
			d.forwardBurst(e.RequestID, burst)
		}
	}
	return d.State, d.effects
}

// decision is a decision in progress.
type decision struct {
	State
	in      Input
	now     time.Time
	effects []Effect
	// delivered overrides the history: messages that this decision delivered or
	// took back.
	delivered map[string]bool
}

func (d *decision) emit(e Effect) { d.effects = append(d.effects, e) }

func (d *decision) message(m Message) {
	if age := d.now.UnixMilli() - d.DroppedAt; age < 0 || age > droppedFor.Milliseconds() {
		d.Dropped, d.DroppedAt = nil, 0
	}
	if m.CopyOf != "" {
		if !d.replace(m) {
			return
		}
		m.FromBot, m.FromSelf = false, false
	}
	if m.FromSelf || m.FromBot && !m.Programs || m.Claimed || m.FactsMissing && m.Mode != Direct {
		return
	}
	d.forgetStale()
	if m.Delivered {
		d.joinDelivered(m)
		return
	}
	addressed := m.Mentions || m.ReplyToUs
	if m.Closed != "" {
		if addressed {
			d.refuse(m)
		}
		return
	}
	d.Told = nil
	if m.Mode == Mention && !addressed || !d.guardLoop(m) {
		return
	}
	current, ok := d.current()
	if !ok {
		switch {
		case m.Mode == Active && !addressed:
			d.buffer(m.ID, d.in.Rules.Debounce)
		case m.Mode == Direct && m.ForwardOnly:
			d.buffer(m.ID, Debounce{commentWait, commentWait})
		default:
			d.prompt(m)
		}
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

// replace lets a copy take the place of a person's message, which the program that posted the copy deletes,
// before or after. What waits is answered for the copy, and what runs goes on: the original has passed the
// rules, so the copy need not. It reports whether the copy is decided about as the message of a person,
// because the original is gone.
func (d *decision) replace(m Message) (anew bool) {
	for _, waiting := range [][]string{d.Buffer, d.Gating} {
		if i := slices.Index(waiting, m.CopyOf); i >= 0 {
			waiting[i] = m.ID
		}
	}
	original := strings.TrimSuffix(m.RequestID, m.ID) + m.CopyOf
	starting := d.starting(original)
	if starting {
		d.delete(Deleted{m.CopyOf, original})
	}
	i := slices.Index(d.Dropped, m.CopyOf)
	if i < 0 {
		return false
	}
	d.Dropped = slices.Delete(d.Dropped, i, i+1)
	if starting {
		d.prompt(m)
	}
	return !starting
}

// refuse tells each person once that nothing can be written in the session.
func (d *decision) refuse(m Message) {
	if slices.Contains(d.Told, m.UserID) {
		return
	}
	if len(d.Told) == maxTold {
		d.Told = nil
	}
	d.Told = append(slices.Clip(d.Told), m.UserID)
	d.emit(Refuse{m.ID, m.UserID, m.Closed})
}

// guardLoop counts the messages of other programs and returns false if there are too
// many: the program may answer us, and we it, forever.
func (d *decision) guardLoop(m Message) bool {
	if !m.FromBot {
		d.Programs = nil
		return true
	}
	now := d.now.UnixMilli()
	d.Programs = slices.DeleteFunc(d.Programs, func(at int64) bool { return at > now || now-at >= programWindow.Milliseconds() })
	if len(d.Programs) >= maxPrograms {
		d.emit(Ignore{MessageID: m.ID})
		return false
	}
	d.Programs = append(d.Programs, now)
	return true
}

// delete removes a message from the burst and cancels the request that it began.
func (d *decision) delete(m Deleted) {
	starting := d.starting(m.RequestID)
	if starting || slices.Contains(d.Buffer, m.ID) || slices.Contains(d.Gating, m.ID) {
		d.Dropped = append(d.Dropped, m.ID)
		d.Dropped, d.DroppedAt = d.Dropped[max(0, len(d.Dropped)-maxDropped):], d.now.UnixMilli()
	}
	d.unbuffer([]string{m.ID})
	for i, r := range d.Requests {
		d.Requests[i].Joined = slices.DeleteFunc(slices.Clone(r.Joined), func(q Question) bool { return q.ID == m.ID })
	}
	if starting {
		d.emit(Cancel{m.RequestID})
		d.takeBack(d.index(m.RequestID))
	}
}

func (d *decision) unbuffer(ids []string) {
	gone := func(id string) bool { return slices.Contains(ids, id) }
	d.Buffer = slices.DeleteFunc(d.Buffer, gone)
	if len(d.Buffer) == 0 {
		d.First, d.Due = 0, 0
	}
	// The last one stays, so that the next burst waits for this verdict.
	if rest := slices.DeleteFunc(slices.Clone(d.Gating), gone); len(rest) > 0 {
		d.Gating = rest
	} else if len(d.Gating) > 1 {
		d.Gating = d.Gating[:1]
	}
}

// current returns the running request, or else the first that is starting.
func (d *decision) current() (Request, bool) {
	if i := slices.IndexFunc(d.Requests, func(r Request) bool { return r.Running }); i >= 0 {
		return d.Requests[i], true
	}
	if len(d.Requests) > 0 {
		return d.Requests[0], true
	}
	return Request{}, false
}

// prompt begins a request with the message and the burst before it, which is
// likely the context of the question.
func (d *decision) prompt(m Message) {
	d.unbuffer([]string{m.ID}) // an edit may add a mention to a buffered message
	ids := append(d.Buffer, m.ID)
	d.Buffer, d.First, d.Due = nil, 0, 0
	d.begin(m.RequestID, ids)
}

// begin begins a request, unless none of its messages can be forwarded.
func (d *decision) begin(requestID string, messageIDs []string) {
	f, ok := d.forwardable(Forward{Queue: event.Prompt, RequestID: requestID, MessageIDs: messageIDs})
	if !ok {
		return
	}
	waits := len(d.Requests) > 0
	if d.index(requestID) < 0 && len(d.Requests) < maxRequests {
		d.Requests = append(d.Requests, Request{ID: requestID, Since: d.now.UnixMilli()})
	}
	d.forward(f)
	if waits {
		d.acknowledge(requestID, messageIDs[len(messageIDs)-1])
	}
}

// acknowledge shows that a message waits for a request or joins it.
func (d *decision) acknowledge(requestID, messageID string) {
	i := d.index(requestID)
	if i < 0 || len(d.Requests[i].Acknowledged) >= maxAcknowledged || slices.Contains(d.Requests[i].Acknowledged, messageID) {
		return
	}
	d.Requests[i].Acknowledged = append(slices.Clone(d.Requests[i].Acknowledged), messageID)
	d.emit(Acknowledge{MessageID: messageID})
}

// unacknowledge removes the acknowledgments of a request that is over.
func (d *decision) unacknowledge(r Request) {
	if len(r.Acknowledged) > 0 {
		d.emit(Unacknowledge{MessageIDs: r.Acknowledged})
	}
}

// join adds the message to a request. A steer or an interrupt also moves the
// request's output below it.
func (d *decision) join(requestID string, q event.Queue, m Message, inherit bool) {
	forwarded := d.forward(Forward{Queue: q, RequestID: requestID, MessageIDs: []string{m.ID}})
	if forwarded && (m.Mode != Active || m.Mentions || m.ReplyToUs) { // people talk to each other in active sessions
		d.acknowledge(requestID, m.ID)
	}
	if forwarded && q != event.FollowUp {
		d.emit(Reanchor{RequestID: requestID, MessageID: m.ID, Inherit: inherit})
	}
}

func (d *decision) buffer(id string, wait Debounce) {
	now := d.now.UnixMilli()
	if len(d.Buffer) == 0 || d.First > now { // or the clock was set back
		d.First = now
	}
	d.Buffer = append(d.Buffer, id)
	d.Due = min(now+wait.Wait.Milliseconds(), d.First+wait.Max.Milliseconds())
	if len(d.Buffer) >= maxBuffered {
		d.Due = now
	}
}

// releaseBurst forwards the burst, or asks the gate about it, if its time has
// come. A burst waits while the gate judges the one before it.
func (d *decision) releaseBurst(e Due) {
	if len(d.Buffer) == 0 || len(d.Gating) > 0 {
		return
	}
	now := d.now.UnixMilli()
	if d.First > now { // the clock was set back: restart the same wait
		d.First, d.Due = now, now+max(d.Due-d.First, 0)
	}
	if now < d.Due {
		return
	}
	burst := d.Buffer
	d.Buffer, d.First, d.Due = nil, 0, 0
	if e.Closed != "" {
		d.emit(RefuseBurst{burst, e.Closed})
		return
	}
	if _, busy := d.current(); d.in.Rules.Gate && !busy && !e.Direct {
		d.Gating = burst
		d.emit(AskGate{MessageIDs: burst})
		return
	}
	d.forwardBurst(e.RequestID, burst)
}

// forwardBurst forwards a burst as a request, or to the one that began meanwhile.
func (d *decision) forwardBurst(requestID string, ids []string) {
	current, busy := d.current()
	if !busy {
		d.begin(requestID, ids)
		return
	}
	for _, id := range ids {
		d.forward(Forward{Queue: event.FollowUp, RequestID: current.ID, MessageIDs: []string{id}})
	}
}

func (d *decision) followLifecycle(l Lifecycle) {
	i := d.index(l.RequestID)
	switch {
	case l.State.Ended():
		if i >= 0 {
			if l.State != event.StateDone {
				d.takeBack(i) // once it runs, there is nothing to take back
			}
			d.unacknowledge(d.Requests[i])
			d.Requests = slices.Delete(d.Requests, i, i+1)
		}
	case i >= 0 && l.State == event.StateQueued:
		// It is the only one here, and waits for those of other conversations.
		if told := d.Requests[i].Delivered; len(told) > 0 {
			d.acknowledge(l.RequestID, told[len(told)-1])
		}
	case i >= 0:
		d.Requests[i].Running, d.Requests[i].Delivered, d.Requests[i].Joined = true, nil, nil
	case len(d.Requests) < maxRequests:
		d.Requests = append(d.Requests, Request{ID: l.RequestID, Running: l.State != event.StateQueued, Since: d.now.UnixMilli()})
	}
}

func (d *decision) addOutput(o Output) {
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

// starting reports whether a request was forwarded and not seen to run.
func (d *decision) starting(requestID string) bool {
	i := d.index(requestID)
	return i >= 0 && !d.Requests[i].Running
}

// forgetStale drops requests that were forwarded long ago and never seen to run,
// so that new messages do not wait for an event that will not come.
func (d *decision) forgetStale() {
	now, before := d.now.UnixMilli(), d.now.Add(-staleAfter).UnixMilli()
	for i, r := range d.Requests {
		d.Requests[i].Since = min(r.Since, now) // the clock may have been set back
	}
	d.Requests = slices.DeleteFunc(d.Requests, func(r Request) bool {
		stale := !r.Running && r.Since < before
		if stale {
			d.unacknowledge(r)
		}
		return stale
	})
}
