package session

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"lilac/internal/agent"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
)

// maxEventID is how long the id of an environment event may be.
const maxEventID = 256

// maxAlarmSleep is how long a pause waits before it looks at the clock again.
const maxAlarmSleep = 10 * time.Minute

// limitError is how a run stops before a model call that a limit forbids.
type limitError struct{ Reached }

func (e *limitError) Error() string { return "limit reached: " + string(e.Limit) }

// stopAtLimit ends the run with the question to the person who asked. What was
// stopped is durable: it costs nothing until it is answered.
func (r *run) stopAtLimit(l *limitError, outcome agent.Outcome) error {
	now, limits := r.svc.opt.Now(), r.svc.settings.Load().Limits
	p := Pause{Reached: l.Reached, Question: l.Question(), Since: now.UnixMilli(), Until: now.Add(limits.wait()).UnixMilli()}
	if l.ofDay() {
		p.Day = limits.day(now)
	}
	said := p.Question
	if r.out.length() > 0 {
		said = "\n\n" + said
	}
	r.out.append(false, said)
	return r.recordEnd(LimitReached{RequestID: r.requestID, Pause: p, NoSlot: r.svc.hasHeldSessions()}, outcome)
}

// sleep makes the question part of the conversation, and of the request's text.
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
	c.saveRequest(req)
	_, err = c.tables().History.AppendHistory(c.tx, c.sessionID, HistoryMessage{
		ID: fmt.Sprintf("%s/pause/%d", e.RequestID, p.Number), RequestID: e.RequestID, CreatedAt: c.now(),
		Message: chat.Text(chat.Assistant, p.Question),
	})
	if err != nil {
		return err
	}
	if err := c.tables().Journal.Record(c.tx, e.RequestID, Entry{At: c.now(), Step: req.Steps, Kind: kindPaused, Data: p}); err != nil {
		return err
	}
	c.tx.AfterCommit(func() { c.svc.scheduleExpiry(c.sessionID, e.RequestID, p) })
	h := event.RequestHeaders(e.RequestID, c.sessionID, req.Client)
	err = c.publish(fmt.Sprintf("%s/lifecycle/paused/%d", e.RequestID, p.Number), h,
		event.RequestLifecycle{State: req.State, Detail: p.Question, Paused: true, TS: c.now()})
	if err != nil {
		return err
	}
	return c.announceQuestion(e.RequestID, p, "")
}

// usedByNow is what is used of what the session waits for more of. While it
// waits, only others use up a conversation or a day.
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
			used, err = c.tables().Spending.SpentIn(c.tx, account)
		}
	case dayPrefix:
		used, err = c.tables().Spending.SpentOn(c.tx, p.Day)
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
	return c.announce(event.SessionPaused, requestID, boundedEventID(id), event.SessionPausedPayload{
		RequestID: requestID, Pause: p.Number, Limit: string(p.Limit), Used: p.Used, Allowed: p.Allowed, More: p.More,
		Question: p.Question, Until: p.Until, Again: insteadOf != "",
	})
}

// answered records the answer; what follows from it is decided already.
func (c *change) recordAnswer(e RecordAnswer) error {
	req, err := c.request(e.RequestID)
	if err != nil {
		return err
	}
	req.Detail = ""
	c.saveRequest(req)
	err = c.tables().Journal.Record(c.tx, e.RequestID, Entry{
		At: c.now(), Step: req.Steps, Kind: kindResumed, Data: resumedEntry{Pause: e.Pause, Answer: e.Answer},
	})
	if err != nil {
		return err
	}
	h := event.RequestHeaders(e.RequestID, c.sessionID, req.Client)
	err = c.publish(fmt.Sprintf("%s/lifecycle/resumed/%d", e.RequestID, e.Pause), h, event.RequestLifecycle{State: req.State, TS: c.now()})
	if err != nil {
		return err
	}
	return c.announce(event.SessionResumed, e.RequestID, boundedEventID(fmt.Sprintf("session.resumed:%s:%d", e.RequestID, e.Pause)),
		event.SessionResumedPayload{RequestID: e.RequestID, Pause: e.Pause, Answer: string(e.Answer)})
}

// boundedEventID keeps an id within what an environment event may have.
func boundedEventID(id string) string {
	if len(id) <= maxEventID {
		return id
	}
	digest := sha256.Sum256([]byte(id))
	return hex.EncodeToString(digest[:])
}

// alarms end the pauses that nobody answers: one timer for each session that
// waits, and nothing else of it in memory.
type alarms struct {
	mu     sync.Mutex
	timers map[string]*time.Timer
}

// set rings when nothing is left. It looks again and again: the machine may
// sleep meanwhile, or its clock be set.
func (a *alarms) set(sessionID string, left func() time.Duration, ring func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.timers[sessionID]; t != nil {
		t.Stop()
	}
	var t *time.Timer
	look := func() (over bool) {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.timers[sessionID] != t {
			return false // it was stopped, or there is another one by now
		}
		rest := left()
		if rest > 0 {
			t.Reset(min(rest, maxAlarmSleep))
		}
		return rest <= 0
	}
	t = time.AfterFunc(min(left(), maxAlarmSleep), func() {
		if look() {
			ring()
		}
	})
	a.timers[sessionID] = t
}

func (a *alarms) stop(sessionID string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t := a.timers[sessionID]; t != nil {
		t.Stop()
		delete(a.timers, sessionID)
	}
}

func (a *alarms) stopAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, t := range a.timers {
		t.Stop()
		delete(a.timers, id)
	}
}

// expireAt ends the request when its time to be answered is over.
func (s *Service) scheduleExpiry(sessionID, requestID string, p Pause) {
	left := func() time.Duration { return time.UnixMilli(p.Until).Sub(s.opt.Now()) }
	s.alarms.set(sessionID, left, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.stopping {
			s.wg.Go(func() { s.expirePause(sessionID, requestID, p) })
		}
	})
}

func (s *Service) expirePause(sessionID, requestID string, p Pause) {
	s.mu.Lock()
	ctx := s.runCtx
	s.mu.Unlock()
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		err := s.change(ctx, sessionID, func(c *change) error {
			return c.decide(Expired{RequestID: requestID, Pause: p.Number, NoSlot: s.atCapacity()})
		})
		if err == nil || ctx.Err() != nil {
			return
		}
		s.opt.Logger.Error("end paused request", "session_id", sessionID, "request_id", requestID, "error", err)
		if !sleep(ctx, wait) {
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
