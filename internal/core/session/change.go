package session

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"lilac/internal/agent"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

const (
	// noReply is the whole answer of a model that wants to say nothing.
	noReply = "NO_REPLY"
	// unreadable stands for a message that is damaged: the work that it waits in
	// goes on, and whoever sent it hears of it.
	unreadable = "(A message that was sent here is damaged on the disk and cannot be read. Say so, and ask to send it again.)"
)

// change is one transaction on a session: a decision and its effects.
type change struct {
	svc       *Service
	tx        *db.Tx
	sessionID string
	state     State

	// eventID is the command that is handled, traceParent what it came with,
	// mail the message in it.
	eventID     string
	traceParent string
	mail        *Mail
	// run is the run that reports, if one does.
	run *run
	// outcome and cause describe the end that the run asks for.
	outcome *agent.Outcome
	cause   string
	// text is what the request textOf has said so far, where that is known.
	text, textOf string
	// quiet says that the end needs no words on a platform.
	quiet bool
	// said is the last event of the output of the request that ends.
	said *event.FinalText

	injected []agent.Injected
	seqs     []int64

	drafts
}

// change loads a session's state and runs fn in one transaction. fn may run
// more than once; each time with a change of its own.
func (s *Service) change(ctx context.Context, sessionID string, fn func(c *change) error) error {
	return s.changeIn(ctx, s.opt.DB.Update, sessionID, fn)
}

// changeIn is change in a transaction of a kind, of those of [db.DB].
func (s *Service) changeIn(ctx context.Context, update func(context.Context, func(*db.Tx) error) error, sessionID string, fn func(c *change) error) error {
	return update(ctx, func(tx *db.Tx) error {
		state, err := s.opt.Store.State(tx, sessionID)
		if err != nil {
			return err
		}
		c := &change{svc: s, tx: tx, sessionID: sessionID, state: state}
		if err := fn(c); err != nil {
			return err
		}
		return c.writeRequests()
	})
}

func (c *change) store() Store { return c.svc.opt.Store }

func (c *change) now() int64 { return c.tx.Now().UnixMilli() }

// decide asks the decider and carries out what it says, in order. First it ends
// what could not begin.
func (c *change) decide(in Input) error {
	for len(c.state.Queue) > 0 {
		first := c.state.Queue[0].RequestID
		_, err := c.request(first)
		if db.IsEngineError(err) {
			return err
		}
		if !db.IsDamaged(err) {
			break
		}
		wire := fault.ToWire(err)
		if err := c.carryOut(Unreadable{RequestID: first, Detail: wire.Message, Kind: wire.Kind}); err != nil {
			return err
		}
	}
	return c.carryOut(in)
}

func (c *change) carryOut(in Input) error {
	asked := c.state.Waits()
	next, effects := Decide(c.state, in, c.tx.Now())
	c.state = next
	if asked != nil && next.Waits() == nil {
		c.tx.AfterCommit(func() { c.svc.alarms.stop(c.sessionID) })
	}
	c.foresee(effects)
	for _, e := range effects {
		if err := c.act(e); err != nil {
			return fmt.Errorf("%s %s: %w", e.Kind, e.RequestID, err)
		}
	}
	if c.state.Active == nil && len(c.state.Queue) > 0 {
		c.tx.AfterCommit(func() { c.svc.hold(c.sessionID) })
	}
	return c.store().SaveState(c.tx, c.sessionID, c.state)
}

func (c *change) act(e Effect) error {
	switch e.Kind {
	case EffectCreate:
		return c.create(e)
	case EffectKeep:
		return c.keep(e)
	case EffectMove:
		return c.store().MarkMail(c.tx, c.sessionID, e.MessageID, e.RequestID, MailMoved)
	case EffectDiscard:
		return c.store().MarkMail(c.tx, c.sessionID, e.MessageID, "", MailDiscarded)
	case EffectApply:
		return c.apply(e)
	case EffectLifecycle:
		return c.lifecycle(e)
	case EffectStart:
		c.svc.register(c.tx, c.svc.newRun(c.sessionID, e, c.state))
	case EffectResume:
		return c.resume(e)
	case EffectPause:
		return c.pause(e)
	case EffectAsk:
		return c.askAgain(e)
	case EffectAnswered:
		return c.answered(e)
	case EffectWake, EffectInterrupt, EffectCancel:
		c.tx.AfterCommit(func() { c.svc.signal(e) })
	case EffectDrop:
		c.svc.opt.Logger.Debug("command dropped", "session_id", c.sessionID, "request_id", e.RequestID, "message_id", e.MessageID)
	}
	return nil
}

func (s *Service) signal(e Effect) {
	r := s.running(e.RequestID)
	if r == nil {
		return
	}
	switch e.Kind {
	case EffectWake:
		r.wake.Store(true)
	case EffectInterrupt:
		r.interrupts.Raise()
	case EffectCancel:
		r.cancel(agent.ErrCancelled)
	}
}

func (c *change) publish(id string, headers event.Headers, p event.Payload) error {
	ev, err := event.New(event.Meta{ID: id, Time: c.tx.Now(), Headers: headers}, p)
	if err != nil {
		return err
	}
	return c.tx.Publish(ev)
}

func (c *change) create(e Effect) error {
	c.add(Request{
		ID: e.RequestID, SessionID: c.sessionID, Client: e.Client, State: event.StateQueued, CreatedAt: c.now(), WokenBy: c.wokenBy(e.MessageID),
	})
	entry := Entry{At: c.now(), Kind: kindQueued}
	if c.traceParent != "" {
		entry.Data = queuedEntry{TraceParent: c.traceParent}
	}
	return c.store().Record(c.tx, e.RequestID, entry)
}

func (c *change) wokenBy(messageID string) string {
	if c.mail != nil && c.mail.MessageID == messageID {
		return c.eventID
	}
	if m, err := c.store().Mail(c.tx, c.sessionID, messageID); err == nil {
		return m.EventID
	}
	return ""
}

func (c *change) keep(e Effect) error {
	c.mail.RequestID, c.mail.Queue = e.RequestID, e.Queue
	fresh, err := c.store().PutMail(c.tx, *c.mail)
	if err == nil && !fresh {
		err = fault.New(fault.Conflict, "The message %q is in the mailbox already.", e.MessageID)
	}
	return err
}

// apply puts a message's content into the history, for good.
func (c *change) apply(e Effect) error {
	m := c.mail
	if m == nil || m.MessageID != e.MessageID {
		stored, err := c.store().Mail(c.tx, c.sessionID, e.MessageID)
		if db.IsDamaged(err) {
			c.svc.opt.Logger.Error("a message cannot be read", "session_id", c.sessionID, "request_id", e.RequestID, "message_id", e.MessageID, "error", err)
			stored, err = Mail{MessageID: e.MessageID, Messages: []chat.Message{chat.Text(chat.User, unreadable)}}, nil
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
		seq, err := c.store().AppendHistory(c.tx, c.sessionID, HistoryMessage{ID: id, RequestID: e.RequestID, CreatedAt: c.now(), Message: msg})
		if err != nil {
			return err
		}
		c.seqs = append(c.seqs, seq)
	}
	c.injected = append(c.injected, agent.Injected{MessageID: m.MessageID, Messages: m.Messages})
	if m.State != MailApplied || m.RequestID != e.RequestID {
		if err := c.store().MarkMail(c.tx, c.sessionID, m.MessageID, e.RequestID, MailApplied); err != nil {
			return err
		}
	}
	if err := c.nameSession(e.RequestID, m.Messages); err != nil {
		return err
	}
	offset, err := c.offset(req)
	if err != nil {
		return err
	}
	err = c.store().Record(c.tx, e.RequestID, Entry{
		At: c.now(), Step: req.Steps, Kind: kindInput,
		Data: inputEntry{MessageID: m.MessageID, Queue: e.Queue, Offset: offset},
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

// offset is the length of what the request has said so far.
func (c *change) offset(req Request) (int64, error) {
	if c.reports(req.ID) {
		return c.run.out.length(), nil
	}
	text, err := c.finalText(req)
	return int64(len(text)), err
}

// lifecycle writes and publishes a state of a request. One whose row is damaged
// ends all the same; the row stays as it is.
func (c *change) lifecycle(e Effect) error {
	req, err := c.request(e.RequestID)
	lost := db.IsDamaged(err) && e.State.Ended() && !c.reports(e.RequestID)
	if lost {
		c.svc.opt.Logger.Error("a request cannot be read, and ends", "session_id", c.sessionID, "request_id", e.RequestID, "error", err)
		req, err = Request{ID: e.RequestID, SessionID: c.sessionID, Client: e.Client}, nil
	}
	if err != nil {
		return err
	}
	if req.State.Ended() {
		return fault.New(fault.Internal, "the request %q has ended already", e.RequestID)
	}
	req.State, req.Detail, req.ErrorKind = e.State, e.Detail, e.ErrorKind
	h := event.RequestHeaders(e.RequestID, c.sessionID, req.Client)
	switch {
	case e.State == event.StateRunning:
		req.StartedAt = c.now()
		if err := c.store().Record(c.tx, e.RequestID, Entry{At: c.now(), Kind: kindStarted}); err != nil {
			return err
		}
	case e.State.Ended():
		if err := c.finish(e, &req, h); err != nil {
			return err
		}
	}
	if !lost {
		c.save(req)
	}
	if e.State == event.StateFailed && req.StartedAt == 0 {
		// It has no answer, but whoever asked sees why.
		if err := c.show(e.RequestID, h); err != nil {
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
	return c.show(e.RequestID, h)
}

// show lets a relay show the request where it was asked.
func (c *change) show(requestID string, h event.Headers) error {
	if c.svc.opt.Shown == nil || !c.svc.opt.Shown(h.Client()) {
		return nil
	}
	return c.publish(requestID+"/reply", h, event.RequestReply{})
}

// streaming says of a running request that its answer is on its way, once.
func (c *change) streaming(requestID string) error {
	req, err := c.request(requestID)
	if err != nil || req.State != event.StateRunning {
		return err
	}
	req.State = event.StateStreaming
	c.save(req)
	h := event.RequestHeaders(requestID, c.sessionID, req.Client)
	return c.publish(requestID+"/lifecycle/streaming", h, event.RequestLifecycle{State: req.State, TS: c.now()})
}

// reports says whether the change is one of the request's own run.
func (c *change) reports(requestID string) bool { return c.run != nil && c.run.requestID == requestID }

// finish writes what comes before an end state: what was used, the last word
// of the journal and the last event of the output.
func (c *change) finish(e Effect, req *Request, h event.Headers) error {
	req.EndedAt = c.now()
	own := c.reports(e.RequestID)
	if own && c.outcome != nil {
		if err := c.useMore(req, c.outcome.Usage); err != nil {
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
	if err := c.store().Record(c.tx, e.RequestID, Entry{At: c.now(), Step: req.Steps, Kind: kindEnd, Data: end}); err != nil {
		return err
	}
	usage := req.Usage
	final := lastWord(text, &usage, end.Quiet)
	c.said = &final
	if err := c.publish(e.RequestID+"/final", h, final); err != nil || c.svc.opt.Ended == nil {
		return err
	}
	return c.svc.opt.Ended(c.tx, *req)
}

// lastWord is the last event of an output.
func lastWord(text string, usage *chat.Usage, quiet bool) event.FinalText {
	final := event.FinalText{FinalText: text, Usage: usage}
	if quiet || silent(text) {
		final.Delivery = "skip"
	}
	return final
}

// silent reports whether a text is that of a model that wanted to say nothing,
// in each of its steps.
func silent(text string) bool {
	said := strings.Fields(text)
	return len(said) > 0 && !slices.ContainsFunc(said, func(word string) bool { return word != noReply })
}

// finalText is what the request has said: as its run knows it, else as its
// journal does, when it ends while it waits for an answer. What a journal held
// that cannot be read is not known, but its request has to end.
func (c *change) finalText(req Request) (string, error) {
	if req.StartedAt == 0 {
		return "", nil
	}
	if c.textOf == req.ID {
		return c.text, nil
	}
	p, err := c.svc.progress(c.tx, c.sessionID, req.ID)
	if err != nil && !db.IsEngineError(err) {
		c.svc.opt.Logger.Error("read journal", "request_id", req.ID, "error", err)
		return "", nil
	}
	return p.text, err
}

// useMore counts what the run used beyond its journaled steps.
func (c *change) useMore(req *Request, total chat.Usage) error {
	more := Spent{Usage: total.Beyond(req.Usage), Time: c.run.unmetered()}
	req.Usage = req.Usage.Add(more.Usage)
	return c.svc.Spend(c.tx, c.sessionID, more)
}
