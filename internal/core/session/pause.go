package session

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"lilac/internal/agent"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/text"
)

// maxEventID is the maximum length of an environment event's id, in bytes.
const maxEventID = 256

// limitError stops a run before a model call that a limit forbids, or during it.
type limitError struct{ Reached }

func (e *limitError) Error() string { return "limit reached: " + string(e.Limit) }

// stopAtLimit ends the run and asks whether to continue. The pause is durable and
// needs no goroutine.
func (r *run) stopAtLimit(l *limitError, outcome agent.Outcome) error {
	now, limits := r.svc.opt.Now(), r.svc.settings.Load().Limits
	p := Pause{Reached: l.Reached, Question: l.Question(), Since: now.UnixMilli(), Until: now.Add(limits.wait()).UnixMilli()}
	if l.ofDay() {
		p.Day = limits.day(now)
		if _, waits := limits.midnightAfter(p); waits {
			p.Question += " After midnight I continue by myself."
		}
	}
	said := p.Question
	if r.out.length() > 0 {
		said = "\n\n" + said
	}
	r.out.append(false, said)
	return r.recordEnd(LimitReached{RequestID: r.requestID, Pause: p, NoSlot: r.svc.hasHeldSessions()}, outcome)
}

// recordPause adds the question to the conversation and to the request's text.
func (c *change) recordPause(e PauseRun) error {
	p := *c.state.Active.Paused
	req, err := c.request(e.RequestID)
	if err != nil {
		return err
	}
	if err := c.chargeRemainder(&req, c.outcome.Usage); err != nil {
		return err
	}
	req.Detail = p.Question
	c.updateRequest(req)
	if p.Kind == AtLimit {
		_, err = c.tables.History.AppendHistory(c.tx, c.sessionID, HistoryMessage{
			ID: fmt.Sprintf("%s/pause/%d", e.RequestID, p.Number), RequestID: e.RequestID, CreatedAt: c.now(),
			Message: chat.Text(chat.Assistant, p.Question),
		})
		if err != nil {
			return err
		}
	}
	if err := c.tables.Journal.Record(c.tx, e.RequestID, Entry{At: c.now(), Step: req.Steps, Kind: kindPaused, Data: pausedEntry{p, c.run.workedMS()}}); err != nil {
		return err
	}
	c.tx.AfterCommit(func() { pauses{c.svc}.schedule(c.sessionID, e.RequestID, p) })
	h := event.RequestHeaders(e.RequestID, c.sessionID, req.Client)
	err = c.publish(fmt.Sprintf("%s/lifecycle/paused/%d", e.RequestID, p.Number), h,
		event.RequestLifecycle{State: req.State, Detail: p.Question, Paused: true, Pause: p.Number, Kind: string(p.Kind), Answers: p.answers(), Offset: c.run.out.length(), TS: c.now()})
	if err != nil {
		return err
	}
	return c.announceQuestion(e.RequestID, p, "")
}

// usedOfPausedLimit returns the current consumption of the budget that paused the
// request. During a pause, only other sessions can consume the budget of the
// conversation or of the day.
func (c *change) usedOfPausedLimit() (int64, error) {
	p := c.state.OpenPause()
	if p == nil {
		return 0, nil
	}
	var used Spent
	var err error
	scope, thing, _ := strings.Cut(string(p.Limit), ".")
	switch scope + "." {
	case sessionPrefix:
		var account string
		if account, err = c.svc.payer(c.tx, c.sessionID); err == nil {
			used, err = c.tables.Spending.SpentIn(c.tx, account)
		}
	case dayPrefix:
		used, err = c.tables.Spending.SpentOn(c.tx, p.Day)
	}
	return used.of(thing), err
}

// announceQuestion publishes the question of a pause. insteadOf is the message that
// did not answer it, or "" the first time.
func (c *change) announceQuestion(requestID string, p Pause, insteadOf string) error {
	id := fmt.Sprintf("session.paused:%s:%d", requestID, p.Number)
	if insteadOf != "" {
		id += ":" + insteadOf
	}
	payload := event.SessionPausedPayload{
		RequestID: requestID, Pause: p.Number, Kind: string(p.Kind), Limit: string(p.Limit), Used: p.Used, Allowed: p.Allowed, More: p.More,
		Question: p.Question, Choices: p.Choices, Until: p.Until, Again: insteadOf != "",
	}
	if p.Call != nil {
		payload.Call = &event.AskedCallPayload{Tool: p.Call.Tool, Input: p.Call.Input, Bytes: p.Call.Bytes, Hash: p.Call.Hash}
	}
	if err := c.announce(event.SessionPaused, requestID, boundedEventID(id), payload); err != nil {
		return err
	}
	return announceAbove(c, event.SessionPaused, requestID, id, func(task string) any {
		if p.Call != nil { // a message in that session answers nothing, only buttons do
			payload.Question = p.Call.ask()
		}
		payload.Question = fmt.Sprintf("The task “%s” asks: %s", text.SingleLine(task), payload.Question)
		return payload
	})
}

// recordAnswer records the answer to a pause.
func (c *change) recordAnswer(e RecordAnswer) error {
	req, err := c.request(e.RequestID)
	if err != nil {
		return err
	}
	req.Detail = ""
	c.updateRequest(req)
	err = c.tables.Journal.Record(c.tx, e.RequestID, Entry{
		At: c.now(), Step: req.Steps, Kind: kindResumed, Data: e.entry(),
	})
	if err != nil {
		return err
	}
	h := event.RequestHeaders(e.RequestID, c.sessionID, req.Client)
	err = c.publish(fmt.Sprintf("%s/lifecycle/resumed/%d", e.RequestID, e.Pause.Number), h, event.RequestLifecycle{
		State: req.State, Pause: e.Pause.Number, Kind: string(e.Pause.Kind), Answer: cmp.Or(e.Reply, string(e.Answer)), AnsweredBy: e.By, TS: c.now(),
	})
	if err != nil {
		return err
	}
	id, payload := fmt.Sprintf("session.resumed:%s:%d", e.RequestID, e.Pause.Number), event.SessionResumedPayload{RequestID: e.RequestID, Pause: e.Pause.Number, Answer: string(e.Answer), By: e.By}
	if err := c.announce(event.SessionResumed, e.RequestID, boundedEventID(id), payload); err != nil {
		return err
	}
	return announceAbove(c, event.SessionResumed, e.RequestID, id, func(string) any { return payload })
}

// entry is the journal entry of an answer.
func (e RecordAnswer) entry() resumedEntry {
	out := resumedEntry{Pause: e.Pause.Number, Answer: e.Answer, ToolCallID: e.Pause.ToolCallID, Reply: e.Reply, By: e.By}
	if call := e.Pause.Call; call != nil {
		out.ToolCallID, out.Tool, out.Hash = call.ToolCallID, call.Tool, call.Hash
	}
	return out
}

// confirmMessage reports that an answer was applied.
func (c *change) confirmMessage(e ConfirmMessage) error {
	req, err := c.request(e.RequestID)
	if err != nil {
		return err
	}
	h := event.RequestHeaders(e.RequestID, c.sessionID, req.Client)
	offset, err := c.offset(req)
	if err != nil {
		return err
	}
	return c.publish(e.RequestID+"/applied/"+e.MessageID, h, event.MessageApplied{MessageID: e.MessageID, Queue: event.Steer, Offset: offset})
}

// closeOpenStep closes the open step of a request that waited for an answer and ends.
func (c *change) closeOpenStep(requestID string) error {
	req, err := c.request(requestID)
	if err != nil {
		return err
	}
	p, err := c.tables.progress(c.tx, c.sessionID, requestID)
	if err != nil {
		if db.IsEngineError(err) {
			return err
		}
		return nil // a damaged journal has no step to close; the request ends all the same
	}
	return c.closeStep(event.RequestHeaders(requestID, c.sessionID, req.Client), p)
}

// answers are the answers that buttons offer.
func (p Pause) answers() []string {
	switch p.Kind {
	case ForApproval:
		return []string{string(Once), string(Always), string(No)}
	case ForReply:
		return p.Choices
	}
	return []string{string(Continue), string(Stop)}
}

// AnswerAt returns the answer of a button, by its index, and the reply to a question of the
// agent.
func (p Pause) AnswerAt(i int) (answer Answer, reply string) {
	answers := p.answers()
	if i < 0 || i >= len(answers) {
		return NoAnswer, ""
	}
	if p.Kind == ForReply {
		return Replied, answers[i]
	}
	return Answer(answers[i]), ""
}

// boundedEventID returns id, or its hash if it is too long for an environment event.
func boundedEventID(id string) string {
	if len(id) <= maxEventID {
		return id
	}
	digest := sha256.Sum256([]byte(id))
	return hex.EncodeToString(digest[:])
}

// pauses ends pauses that nobody answers.
type pauses struct{ *Service }

// schedule ends the pause in time. A request at a daily limit continues at midnight, if that
// is earlier.
func (s pauses) schedule(sessionID, requestID string, p Pause) {
	left := func() time.Duration {
		end := time.UnixMilli(p.Until)
		if midnight, waits := s.settings.Load().Limits.midnightAfter(p); waits {
			end = midnight
		}
		return end.Sub(s.opt.Now())
	}
	s.alarms.set(sessionID, left, func() {
		s.spawn(func() { s.expire(sessionID, requestID, p) })
	})
}

func (s pauses) expire(sessionID, requestID string, p Pause) {
	s.mu.Lock()
	ctx := s.runCtx
	s.mu.Unlock()
	// If the program was down at midnight and at the end of the wait, midnight was first.
	_, dayOver := s.settings.Load().Limits.midnightAfter(p)
	for dayOver && s.atCapacity() { // many requests may continue at midnight
		if !delay.Wait(ctx, time.Second) {
			return
		}
	}
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		err := s.change(ctx, sessionID, func(c *change) error {
			if dayOver {
				return c.decide(DayOver{RequestID: requestID, Pause: p.Number})
			}
			return c.decide(Expired{RequestID: requestID, Pause: p.Number, NoSlot: s.atCapacity()})
		})
		if err == nil || ctx.Err() != nil {
			return
		}
		s.opt.Logger.Error("cannot end a paused request", "session_id", sessionID, "request_id", requestID, "error", err)
		if !delay.Wait(ctx, wait) {
			return
		}
	}
}

func asLimitError(err error) *limitError {
	var l *limitError
	if errors.As(err, &l) {
		return l
	}
	return nil
}
