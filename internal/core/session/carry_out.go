package session

import (
	"fmt"
	"slices"
	"strings"

	"lilac/internal/agent"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
)

const (
	// noReply is the complete answer of a model that wants to say nothing.
	noReply = "NO_REPLY"
	// damagedMessageText replaces a message whose row is corrupt: the request
	// continues, and the model tells the sender.
	damagedMessageText = "(A message that was sent here is damaged on the disk and cannot be read. Say so, and ask to send it again.)"
)

// carryOut carries out one effect.
func (c *change) carryOut(e Effect) error {
	switch e := e.(type) {
	case CreateRequest:
		return c.createRequest(e)
	case StoreMessage:
		return c.storeMail(e)
	case MoveMessage:
		return c.tables.Mailbox.MarkMail(c.tx, c.sessionID, e.MessageID, e.RequestID, MailMoved)
	case DiscardMessage:
		return c.tables.Mailbox.MarkMail(c.tx, c.sessionID, e.MessageID, "", MailDiscarded)
	case ApplyMessage:
		return c.applyMessage(e)
	case ChangeState:
		return c.changeState(e)
	case StartRun:
		c.started = c.svc.newRun(c.sessionID, e.RequestID, e.Client, c.state)
		c.svc.register(c.tx, c.started)
	case ResumeRun:
		r := c.svc.newRun(c.sessionID, e.RequestID, e.Client, c.state)
		r.wake.Store(true)
		c.svc.register(c.tx, r)
	case PauseRun:
		return c.recordPause(e)
	case RepeatQuestion:
		return c.announceQuestion(e.RequestID, *c.state.Active.Paused, c.mail.MessageID)
	case RecordAnswer:
		return c.recordAnswer(e)
	case ConfirmMessage:
		return c.confirmMessage(e)
	case CloseStep:
		return c.closeOpenStep(e.RequestID)
	case WakeRun:
		c.signal(e.RequestID, func(r *run) { r.wake.Store(true) })
	case InterruptRun:
		c.signal(e.RequestID, func(r *run) { r.interrupts.Raise() })
	case CancelRun:
		c.signal(e.RequestID, func(r *run) { r.cancel(agent.ErrCancelled) })
		if c.svc.turns.isWaiting(e.RequestID) {
			c.tx.AfterCommit(func() { c.svc.spawn(func() { c.svc.turns.endWaiting(c.sessionID, e.RequestID) }) })
		}
	case IgnoreCommand:
		c.svc.opt.Logger.Debug("command ignored", "session_id", c.sessionID, "request_id", e.RequestID, "message_id", e.MessageID)
	default:
		return fault.New(fault.Internal, "The runner does not know the effect %T.", e)
	}
	return nil
}

// signal passes something to a run in this process, after the commit.
func (c *change) signal(requestID string, send func(*run)) {
	c.tx.AfterCommit(func() {
		if r := c.svc.runOf(requestID); r != nil {
			send(r)
		}
	})
}

func (c *change) createRequest(e CreateRequest) error {
	c.insertRequest(Request{
		ID: e.RequestID, SessionID: c.sessionID, Client: e.Client, State: event.StateQueued, CreatedAt: c.now(), WokenBy: c.wokenBy(e.MessageID),
	})
	entry := Entry{At: c.now(), Kind: kindQueued}
	if c.traceParent != "" {
		entry.Data = queuedEntry{TraceParent: c.traceParent}
	}
	return c.tables.Journal.Record(c.tx, e.RequestID, entry)
}

func (c *change) wokenBy(messageID string) string {
	if c.mail != nil && c.mail.MessageID == messageID {
		return c.eventID
	}
	if m, err := c.tables.Mailbox.Mail(c.tx, c.sessionID, messageID); err == nil {
		return m.EventID
	}
	return ""
}

func (c *change) storeMail(e StoreMessage) error {
	c.mail.RequestID, c.mail.Queue = e.RequestID, e.Queue
	if e.Applied {
		c.mail.State = MailApplied
	}
	fresh, err := c.tables.Mailbox.PutMail(c.tx, *c.mail)
	if err == nil && !fresh {
		err = fault.New(fault.Conflict, "The message %q is already in the mailbox.", e.MessageID)
	}
	return err
}

// applyMessage appends a message to the history.
func (c *change) applyMessage(e ApplyMessage) error {
	m := c.mail
	if m == nil || m.MessageID != e.MessageID {
		stored, err := c.tables.Mailbox.Mail(c.tx, c.sessionID, e.MessageID)
		if db.IsDamaged(err) {
			c.svc.opt.Logger.Error("message is damaged", "session_id", c.sessionID, "request_id", e.RequestID, "message_id", e.MessageID, "error", err)
			stored, err = Mail{MessageID: e.MessageID, Messages: []chat.Message{chat.Text(chat.User, damagedMessageText)}}, nil
		}
		if err != nil {
			return err
		}
		m = &stored
	}
	req, err := c.request(e.RequestID)
	if err != nil {
		return err
	}
	for i, msg := range m.Messages {
		id := m.MessageID
		if i > 0 {
			id = fmt.Sprintf("%s/%d", m.MessageID, i)
		}
		seq, err := c.tables.History.AppendHistory(c.tx, c.sessionID, HistoryMessage{ID: id, RequestID: e.RequestID, CreatedAt: c.now(), Message: msg})
		if err != nil {
			return err
		}
		c.seqs = append(c.seqs, seq)
	}
	c.injected = append(c.injected, agent.Injected{MessageID: m.MessageID, Messages: m.Messages})
	granted := e.Grant
	if e.Agent != "" {
		granted = granted.And(grant.Of(c.svc.opt.NamedAgent(e.Agent).Tools))
	}
	c.granted = c.granted.And(granted)
	if m.State != MailApplied || m.RequestID != e.RequestID {
		if err := c.tables.Mailbox.MarkMail(c.tx, c.sessionID, m.MessageID, e.RequestID, MailApplied); err != nil {
			return err
		}
	}
	if err := c.setTitle(e.RequestID, m.Messages); err != nil {
		return err
	}
	offset, err := c.offset(req)
	if err != nil {
		return err
	}
	err = c.tables.Journal.Record(c.tx, e.RequestID, Entry{
		At: c.now(), Step: req.Steps, Kind: kindInput,
		Data: inputEntry{MessageID: m.MessageID, Queue: e.Queue, Offset: offset, Grant: granted, Agent: e.Agent},
	})
	if err != nil {
		return err
	}
	h := event.RequestHeaders(e.RequestID, c.sessionID, req.Client)
	if e.Queue != event.Prompt {
		if err := c.publish(e.RequestID+"/anchor/"+m.MessageID, h, event.OutputAnchor{MessageID: m.MessageID, Offset: offset}); err != nil {
			return err
		}
	}
	return c.publish(e.RequestID+"/applied/"+m.MessageID, h, event.MessageApplied{MessageID: m.MessageID, Queue: e.Queue, Offset: offset})
}

// offset returns the length of the request's text so far, in bytes.
func (c *change) offset(req Request) (int64, error) {
	if c.isOwnRun(req.ID) {
		return c.run.out.length(), nil
	}
	if d := c.cachedRequest(req.ID); d != nil && d.fresh {
		return 0, nil // it has no output yet
	}
	text, err := c.finalText(req)
	return int64(len(text)), err
}

// changeState writes and publishes a state of a request. A request with a damaged row
// ends all the same; the row stays as it is.
func (c *change) changeState(e ChangeState) error {
	req, err := c.request(e.RequestID)
	damaged := db.IsDamaged(err) && e.State.Ended() && !c.isOwnRun(e.RequestID)
	if damaged {
		c.svc.opt.Logger.Error("request is damaged and ends", "session_id", c.sessionID, "request_id", e.RequestID, "error", err)
		req, err = Request{ID: e.RequestID, SessionID: c.sessionID, Client: e.Client}, nil
	}
	if err != nil {
		return err
	}
	if req.State.Ended() {
		return fault.New(fault.Internal, "the request %q has already ended", e.RequestID)
	}
	req.State, req.Detail, req.ErrorKind = e.State, e.Detail, e.ErrorKind
	h := event.RequestHeaders(e.RequestID, c.sessionID, req.Client)
	switch {
	case e.State == event.StateRunning:
		req.StartedAt = c.now()
		var rules []string
		if c.state.isActive(e.RequestID) {
			rules = c.state.Active.Rules
		}
		place, err := c.svc.opt.Surfaces.Grant(c.tx, e.Client, c.sessionID, rules)
		if err != nil {
			return err
		}
		v, err := c.session()
		if err != nil {
			return err
		}
		workspace, err := c.svc.opt.Surfaces.Workspace(c.tx, v, rules)
		if err != nil {
			return err
		}
		if agent := c.svc.opt.agentIn(c.tx, v); agent != "" {
			place = place.And(grant.Of(c.svc.opt.NamedAgent(agent).Tools))
		}
		if err := c.tables.Journal.Record(c.tx, e.RequestID, Entry{At: c.now(), Kind: kindStarted, Data: startedEntry{Grant: place, Workspace: workspace}}); err != nil {
			return err
		}
	case e.State.Ended():
		if err := c.recordEnd(e, &req, h); err != nil {
			return err
		}
	}
	if !damaged {
		c.updateRequest(req)
	}
	if e.State == event.StateFailed && req.StartedAt == 0 {
		// The request has no answer, but its author sees the reason.
		if err := c.startRelay(e.RequestID, h); err != nil {
			return err
		}
	}
	err = c.publish(e.RequestID+"/lifecycle/"+string(e.State), h, event.RequestLifecycle{State: e.State, Detail: e.Detail, ErrorKind: e.ErrorKind, TS: c.now()})
	if err == nil {
		err = c.announceStream(e)
	}
	if err != nil || e.State != event.StateRunning {
		return err
	}
	return c.startRelay(e.RequestID, h)
}

// startRelay asks the relay to show the request on its surface.
func (c *change) startRelay(requestID string, h event.Headers) error {
	if !c.svc.opt.Surfaces.HasRelay(h.Client()) {
		return nil
	}
	return c.publish(requestID+"/reply", h, event.RequestReply{})
}

// markStreaming changes the state of a running request to streaming.
func (c *change) markStreaming(requestID string) error {
	req, err := c.request(requestID)
	if err != nil || req.State != event.StateRunning {
		return err
	}
	req.State = event.StateStreaming
	c.updateRequest(req)
	h := event.RequestHeaders(requestID, c.sessionID, req.Client)
	return c.publish(requestID+"/lifecycle/streaming", h, event.RequestLifecycle{State: req.State, TS: c.now()})
}

// isOwnRun reports whether the request's own run makes this change.
func (c *change) isOwnRun(requestID string) bool { return c.run != nil && c.run.requestID == requestID }

// recordEnd writes everything that precedes an end state: the consumption, the last
// journal entry and the last output event.
func (c *change) recordEnd(e ChangeState, req *Request, h event.Headers) error {
	req.EndedAt = c.now()
	own := c.isOwnRun(e.RequestID)
	if own && c.outcome != nil {
		if err := c.chargeRemainder(req, c.outcome.Usage); err != nil {
			return err
		}
	}
	text, err := c.finalText(*req)
	if err != nil {
		return err
	}
	end := endEntry{State: e.State, Detail: e.Detail, ErrorKind: e.ErrorKind, Cause: c.cause, Quiet: c.quiet && own}
	if own && c.run.notice != "" {
		end.Notice = text
	}
	if own {
		end.Notes = c.run.notes
	}
	if err := c.tables.Journal.Record(c.tx, e.RequestID, Entry{At: c.now(), Step: req.Steps, Kind: kindEnd, Data: end}); err != nil {
		return err
	}
	usage := req.Usage
	final := finalEvent(text, &usage, end)
	c.finalOutput = &final
	if err := c.publish(e.RequestID+"/final", h, final); err != nil {
		return err
	}
	return c.svc.opt.Policy.RequestEnded(c.tx, *req)
}

// finalEvent returns the last event of an output.
func finalEvent(text string, usage *chat.Usage, end endEntry) event.FinalText {
	final := event.FinalText{FinalText: text, Usage: usage, Notes: end.Notes}
	if end.Quiet || isNoReply(text) {
		final.Delivery = "skip"
	}
	return final
}

// isNoReply reports whether the model answered NO_REPLY in each of its steps.
func isNoReply(text string) bool {
	words := strings.Fields(text)
	return len(words) > 0 && !slices.ContainsFunc(words, func(word string) bool { return word != noReply })
}

// finalText returns the text of a request: from its run, or from its journal if it ends
// without one. If the journal is damaged, the text is empty, because the request must
// end anyway.
func (c *change) finalText(req Request) (string, error) {
	if req.StartedAt == 0 {
		return "", nil
	}
	if c.textOf == req.ID {
		return c.text, nil
	}
	if c.isOwnRun(req.ID) {
		return c.run.out.fullText(), nil
	}
	p, err := c.tables.progress(c.tx, c.sessionID, req.ID)
	if err != nil && !db.IsEngineError(err) {
		c.svc.opt.Logger.Error("cannot read the journal", "request_id", req.ID, "error", err)
		return "", nil
	}
	return p.text, err
}

// chargeRemainder charges the consumption since the last recorded step.
func (c *change) chargeRemainder(req *Request, total chat.Usage) error {
	more := Spent{Usage: total.Beyond(req.Usage), Time: c.run.unchargedTime()}
	req.Usage = req.Usage.Add(more.Usage)
	return c.svc.Spend(c.tx, c.sessionID, more)
}
