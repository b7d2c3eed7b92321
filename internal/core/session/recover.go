package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"lilac/internal/agent"
	"lilac/internal/engine/db"
	"lilac/internal/engine/longtext"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/model/fallback"
)

// progress is the state of a request according to its journal.
type progress struct {
	step       int
	trace      string
	text       string
	pending    *agent.PendingStep
	ended      bool
	notes      []string
	recoveries int
	// grant is what the request may use.
	grant grant.Grant
	// agent is the configured agent that the request's first message asks for, or "".
	agent string
	// workspace is the session in whose own workspace the request works, or "".
	workspace string
	// verdicts are the answers about calls of the last step, by tool call id.
	verdicts map[string]resumedEntry
	// attempts counts how often the request was resumed: after a crash, a restart or
	// a pause.
	attempts int
	// lastAt is the time of the run's last entry, worked the working time until then. It
	// comes from the entry; the times of entries include a suspend of the machine.
	lastAt int64
	worked time.Duration
}

// outcomeUnknown is the result of a tool call that was running when its request stopped.
const outcomeUnknown = "The request stopped while this ran. Its outcome is unknown: check before repeating."

// stepID is the id of message i of a step in the history.
func stepID(requestID string, step, i int) string {
	return fmt.Sprintf("%s/s%d.%d", requestID, step, i)
}

// readProgress replays a journal. done reports whether the history has a step.
func readProgress(entries []StoryEntry, done func(step int) (bool, error)) (p progress, err error) {
	for _, e := range entries {
		if err := p.apply(e); err != nil {
			return p, fmt.Errorf("journal entry %d (%s): %w", e.Seq, e.Kind, err)
		}
	}
	if p.pending == nil {
		return p, nil
	}
	kept, err := done(p.step)
	if err != nil || !kept {
		p.ended = false
		return p, err
	}
	p.ended = p.ended && len(p.pending.Message.ToolCalls()) == 0 && !p.pending.Interrupted
	p.pending = nil
	return p, nil
}

func (p *progress) apply(e StoryEntry) error {
	restricted, err := grantIn(e)
	if err != nil {
		return err
	}
	p.grant = p.grant.And(restricted)
	if e.Kind == kindResumed || e.Kind == kindRecovered || e.Kind == kindQueued || e.Kind == kindStarted {
		p.lastAt = e.At // nothing ran before it
	}
	switch e.Kind {
	case kindQueued:
		var q queuedEntry
		if len(e.Data) > 0 && json.Unmarshal(e.Data, &q) == nil { // a damaged trace must not fail the request
			p.trace = q.TraceParent
		}
	case kindPaused:
		var pause Pause
		if err := json.Unmarshal(e.Data, &pause); err != nil {
			return err
		}
		if pause.Kind == AtLimit {
			p.text = agent.JoinText(p.text, pause.Question)
		}
		p.attempts++
	case kindResumed:
		var r resumedEntry
		if err := json.Unmarshal(e.Data, &r); err != nil {
			return err
		}
		if r.ToolCallID != "" && p.verdicts != nil {
			p.verdicts[r.ToolCallID] = r
		}
	case kindStarted:
		p.workspace, err = workspaceIn(e)
		return err
	case kindInput:
		p.ended = false
		if first := e.Step == 0 && p.step == 0 && p.agent == ""; first && len(e.Data) > 0 {
			var in inputEntry
			if err := json.Unmarshal(e.Data, &in); err != nil {
				return err
			}
			p.agent = in.Agent
		}
	case kindModelSwitched:
		var s fallback.Switch
		if err := json.Unmarshal(e.Data, &s); err != nil {
			return err
		}
		p.notes = addSwitchNote(p.notes, s)
	case kindModel:
		var m modelEntry
		if err := json.Unmarshal(e.Data, &m); err != nil {
			return err
		}
		p.step, p.text = e.Step, agent.JoinText(p.text, m.Message.Text())
		p.pending = &agent.PendingStep{Message: m.Message, Results: map[string]chat.Part{}, Started: map[string]bool{}, Interrupted: m.Interrupted}
		p.verdicts = map[string]resumedEntry{}
		p.ended = true
	case kindToolStart, kindToolEnd:
		var t toolEntry
		if err := json.Unmarshal(e.Data, &t); err != nil {
			return err
		}
		if p.pending == nil {
			return fmt.Errorf("a tool call without a step")
		}
		if t.Result != nil {
			p.pending.Results[t.ToolCallID] = *t.Result
			delete(p.pending.Started, t.ToolCallID)
		} else {
			p.pending.Started[t.ToolCallID] = true
		}
	case kindRecovered:
		p.recoveries++
		p.attempts++
	case kindModelFailed, kindCompacted, kindEnd:
	default:
		// An entry of a command or task, which continue while the run is paused.
		return nil
	}
	p.worked += time.Duration(max(0, e.At-p.lastAt)) * time.Millisecond
	var w workedEntry
	if json.Unmarshal(e.Data, &w) == nil && w.WorkedMS > 0 { // entries of older versions have none
		p.worked = time.Duration(w.WorkedMS) * time.Millisecond
	}
	p.lastAt = e.At
	return nil
}

// closingMessages returns the messages of the open step for a history that does not
// continue: every tool call has exactly one result.
func (p progress) closingMessages() []chat.Message {
	if p.pending == nil {
		return nil
	}
	out := []chat.Message{p.pending.Message}
	var results []chat.Part
	for _, c := range p.pending.Message.ToolCalls() {
		r, known := p.pending.Results[c.ToolCallID]
		switch {
		case known:
		case p.pending.Started[c.ToolCallID]:
			r = chat.ToolResult(c.ToolCallID, c.ToolName, outcomeUnknown, true)
		default:
			r = chat.ToolResult(c.ToolCallID, c.ToolName, "The request stopped before this ran.", true)
		}
		results = append(results, r)
	}
	if len(results) > 0 {
		out = append(out, chat.Message{Role: chat.Tool, Parts: results})
	}
	return out
}

func (t Tables) progress(q db.Queryer, sessionID, requestID string) (progress, error) {
	entries, err := t.Journal.Journal(q, requestID)
	if err != nil {
		return progress{}, err
	}
	return t.progressIn(q, sessionID, requestID, entries)
}

// progressIn is like progress, for a journal that the caller has read.
func (t Tables) progressIn(q db.Queryer, sessionID, requestID string, entries []StoryEntry) (progress, error) {
	return readProgress(entries, func(step int) (bool, error) {
		return t.History.HasHistory(q, sessionID, stepID(requestID, step, 0))
	})
}

// resumeAll resumes the sessions that had work when the process stopped: at once, or in
// turns after an unclean stop.
func (s *Service) resumeAll(ctx context.Context) error {
	var found []unfinished
	err := s.opt.DB.Read(ctx, func(q db.Queryer) error {
		sessions, err := s.opt.Tables.States.Unfinished(q)
		for _, id := range sessions {
			// A state that cannot be read has no turn; resumeSession reports it.
			state, _ := s.opt.Tables.States.State(q, id)
			found = append(found, unfinished{id, state})
		}
		return err
	})
	if err != nil {
		return err
	}
	var turns []recovery
	for _, p := range planRecovery(found, s.opt.Trial) {
		if p.turn != AtOnce {
			turns = append(turns, p)
		}
		if err := s.resumeSession(ctx, p); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			s.opt.Logger.Error("cannot resume a session", "session_id", p.sessionID, "error", err)
			if db.IsEngineError(err) {
				s.wg.Go(func() { s.retryResume(p) })
			}
		}
	}
	if len(turns) > 0 {
		s.wg.Go(func() { s.turns.take(turns) })
	}
	return nil
}

// retryResume retries until the session is resumed, because read and write errors may
// be temporary.
func (s *Service) retryResume(p recovery) {
	for wait := time.Second; delay.Wait(s.runCtx, wait); wait = min(2*wait, time.Minute) {
		err := s.resumeSession(s.runCtx, p)
		if err == nil || s.runCtx.Err() != nil {
			return
		}
		s.opt.Logger.Error("cannot resume a session", "session_id", p.sessionID, "error", err)
	}
}

// resumeSession continues one session's work from its journal, unless others are resumed
// before it.
func (s *Service) resumeSession(ctx context.Context, p recovery) error {
	return s.resumeWith(ctx, p, Recovered{NoSlot: s.atCapacity(), Culprit: p.culprit, Turn: p.turn, Uptime: s.uptime() + p.trial})
}

// resumeInTurn resumes a request that has waited for its turn, on trial.
func (s *Service) resumeInTurn(ctx context.Context, p recovery) error {
	return s.resumeWith(ctx, p, TurnCame{RequestID: p.requestID, Uptime: s.uptime() + p.trial, NoSlot: s.atCapacity()})
}

func (s *Service) resumeWith(ctx context.Context, as recovery, in Input) error {
	sessionID := as.sessionID
	if err := setAsideText(ctx, s, sessionID, in); err != nil {
		return fmt.Errorf("prepare to resume: %w", err)
	}
	return s.change(ctx, sessionID, func(c *change) error {
		a := c.state.Active
		if a == nil {
			return c.decide(in)
		}
		if a.Paused != nil {
			c.tx.AfterCommit(func() { pauses{s}.schedule(sessionID, a.RequestID, *a.Paused) })
			return nil
		}
		if r := s.runOf(a.RequestID); r != nil && r.ctx.Err() == nil {
			return nil
		}
		recovered, first := in.(Recovered)
		ends := a.endsOn(in)
		switch {
		case first && recovered.Turn == Waiting && !ends:
			return c.decide(in)
		case !first && a.Recovery.Turn != Waiting:
			return nil
		}
		p, err := s.opt.Tables.progress(c.tx, sessionID, a.RequestID)
		if err == nil {
			_, err = c.request(a.RequestID)
		}
		if db.IsEngineError(err) {
			return err
		}
		if err != nil {
			c.cause = err.Error()
			wire := fault.ToWire(err)
			return c.decide(Ended{RequestID: a.RequestID, State: event.StateFailed, Detail: wire.Message, Kind: wire.Kind, NoSlot: s.atCapacity(), Unstarted: true})
		}
		c.text, c.textOf = p.text, a.RequestID
		h := event.RequestHeaders(a.RequestID, sessionID, a.Client)
		id := fmt.Sprintf("%s/out/%d/reset", a.RequestID, p.attempts+1)
		if err := c.publish(id, h, event.TextReset{Offset: int64(len(p.text))}); err != nil {
			return err
		}
		if ends {
			err = c.closeStep(h, p)
		} else {
			err = c.recordRecovery(a, p, as.culprit)
		}
		if err != nil {
			return err
		}
		return c.decide(in)
	})
}

// setAsideText stores the text of a session's active request before the transaction that ends it;
// see [run.record]. It does nothing if the input does not end the request.
func setAsideText(ctx context.Context, s *Service, sessionID string, in Input) error {
	var requestID, text string
	err := s.opt.DB.Read(ctx, func(q db.Queryer) error {
		state, err := s.opt.Tables.States.State(q, sessionID)
		if a := state.Active; err != nil || a == nil || a.Paused != nil || !a.endsOn(in) {
			return err
		}
		requestID = state.Active.RequestID
		p, err := s.opt.Tables.progress(q, sessionID, requestID)
		text = p.text
		return err
	})
	if err != nil && !db.IsEngineError(err) {
		return nil // the transaction reads the same rows and reports the damage
	}
	return errors.Join(err, longtext.SetAside(ctx, s.opt.DB, requestID, text))
}

func (c *change) recordRecovery(a *Active, p progress, charged bool) error {
	req, err := c.request(a.RequestID)
	if err != nil {
		return err
	}
	req.Recoveries = p.recoveries + 1
	c.updateRequest(req)
	return c.tables.Journal.Record(c.tx, a.RequestID, Entry{
		At: c.now(), Step: p.step, Kind: kindRecovered,
		Data: recoveredEntry{Recovery: req.Recoveries, Charged: charged, Offset: int64(len(p.text))},
	})
}

// uptime is how long the service has run.
func (s *Service) uptime() time.Duration { return time.Since(s.startedAt) }

// closeStep appends the open step to the history, and publishes an environment event
// for each tool call whose outcome is unknown.
func (c *change) closeStep(h event.Headers, p progress) error {
	if p.pending == nil {
		return nil
	}
	for _, call := range p.pending.Message.ToolCalls() {
		if _, known := p.pending.Results[call.ToolCallID]; known || !p.pending.Started[call.ToolCallID] {
			continue
		}
		failed := false
		unknown := event.ToolCallOutput{ToolCallID: call.ToolCallID, Status: event.ToolEnd, Display: call.ToolName, Name: call.ToolName, OK: &failed, Error: outcomeUnknown}
		if err := c.announceTool(h.RequestID(), unknown); err != nil {
			return err
		}
	}
	_, err := c.appendStep(h, p.step, p.closingMessages(), func(id string) bool { _, known := p.pending.Results[id]; return known })
	return err
}

// appendStep appends a step to the history. It also publishes the ends of those calls
// that the output has not reported, so that readers of the output have the same
// results as the history.
func (c *change) appendStep(h event.Headers, step int, messages []chat.Message, reported func(toolCallID string) bool) (seqs []int64, err error) {
	if err := c.reportRemainingCalls(h, step, messages, reported); err != nil {
		return nil, err
	}
	for i, m := range messages {
		seq, err := c.tables.History.AppendHistory(c.tx, c.sessionID, HistoryMessage{
			ID: stepID(h.RequestID(), step, i), RequestID: h.RequestID(), CreatedAt: c.now(), Message: m,
		})
		if err != nil {
			return nil, err
		}
		seqs = append(seqs, seq)
	}
	return seqs, nil
}
