package session

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"lilac/internal/agent"
	"lilac/internal/agent/tool"
	"lilac/internal/engine/db"
	"lilac/internal/engine/longtext"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/text"
	"lilac/internal/model/fallback"
	"lilac/internal/model/llm"
)

// codeStaleOwner is the code of a write that was refused because another run owns the
// session.
const codeStaleOwner = "stale_owner"

// run is the owner of a session's active request. Its goroutine lives from the commit
// that starts it to the commit that ends it.
type run struct {
	svc                          *Service
	sessionID, requestID, client string
	// state is the session's state when this run started.
	state State

	ctx        context.Context
	cancel     context.CancelCauseFunc
	interrupts agent.Signal
	// wake is set when messages may wait.
	wake atomic.Bool
	// proven is closed when the run has journaled a model call.
	proven chan struct{}

	// opening has what load reads, if it was foreseen.
	opening *db.Foresight

	// The fields below are owned by the run's goroutine.
	out           *output
	slots         []slot          // where the messages of the agent's conversation come from
	sent          sentPrompt      // what the model was sent besides the history
	hears         bool            // the model accepts recordings
	tools         []tool.Tool     // those with which it began
	reportedCalls map[string]bool // the calls of the open step whose ends were published
	model, effort string
	// notes are shown below the answer.
	notes []string
	// session is the session that pays when the run starts: a sub-agent uses the model
	// of the conversation that started it. instructions are those of the run's own.
	session       Session
	instructions  string
	agent         string // the configured agent that does the work, or ""
	workspaceOf   string // the session in whose own workspace the request works, or ""
	journalUnread bool   // it ended before it read its journal, so out has no text
	loaded        bool   // it has read its journal
	closed        bool   // WouldEnd closed the run
	recordErr     error  // the first write, or read of the journal, that failed
	attempt       int    // how often the request was resumed
	trace         string
	// notice is the text that the request outputs without a model call, or "".
	notice string
	// refusal is the policy's refusal, or nil.
	refusal *Refusal
	// grant is what the request may use.
	grant grant.Grant
	// verdicts are the answers about calls of the step at which the run continues, and asks
	// is the question for which it stops.
	verdicts map[string]resumedEntry
	asks     *Pause
	// worked is the working time of the request before this run, and begun when this
	// run began, by [Options.Awake].
	worked, begun time.Duration
	// steps counts the finished model calls of the request.
	steps int64
	// payer is the session that is charged.
	payer string
	// chargedUsage and chargedUntil are the usage and the time up to which the session
	// and the day have been charged.
	chargedUsage chat.Usage
	chargedUntil time.Duration
}

func (s *Service) newRun(sessionID, requestID, client string, state State) *run {
	s.mu.Lock()
	parent := s.runCtx
	s.mu.Unlock()
	ctx, cancel := context.WithCancelCause(parent)
	return &run{
		svc: s, sessionID: sessionID, requestID: requestID, client: client, state: state,
		ctx: ctx, cancel: cancel, reportedCalls: map[string]bool{}, proven: make(chan struct{}),
	}
}

func (r *run) headers() event.Headers {
	return event.RequestHeaders(r.requestID, r.sessionID, r.client)
}

// runToEnd does the work of the request. If it cannot be recorded, this run ends and
// another one continues from the journal, as after a crash.
func (r *run) runToEnd() {
	s := r.svc
	err := r.execute()
	s.unregister(r)
	if staleOwner(err) {
		s.opt.Logger.Warn("another run owns the session", "session_id", r.sessionID, "request_id", r.requestID, "error", err)
		err = nil
	}
	if err != nil {
		s.opt.Logger.Error("run cannot write and will be resumed", "session_id", r.sessionID, "request_id", r.requestID, "error", err)
		s.retryResume(recovery{sessionID: r.sessionID, requestID: r.requestID, culprit: true})
	}
	s.startHeld()
}

// execute runs the agent and records the end. The error is that of a failed write.
func (r *run) execute() error {
	outcome := r.runAgent()
	switch {
	case r.closed:
		return nil
	case errors.Is(outcome.Err, agent.ErrDrain) || r.svc.runCtx.Err() != nil:
		return r.recordEnd(Drained{RequestID: r.requestID}, outcome)
	case r.recordErr != nil:
		return r.recordErr
	case outcome.Err == nil:
		return r.recordEnd(Ended{RequestID: r.requestID, State: event.StateDone, NoSlot: r.svc.hasHeldSessions()}, outcome)
	case isCancelled(outcome.Err):
		return r.recordEnd(Ended{RequestID: r.requestID, State: event.StateCancelled, Detail: cancelledText, NoSlot: r.svc.hasHeldSessions()}, outcome)
	}
	if r.asks != nil && errors.Is(outcome.Err, agent.ErrAsk) {
		return r.recordEnd(Asked{RequestID: r.requestID, Pause: *r.asks, NoSlot: r.svc.hasHeldSessions()}, outcome)
	}
	l := asLimitError(outcome.Err)
	if l != nil && r.svc.opt.Surfaces.Unattended(r.client) {
		return r.recordEnd(Ended{RequestID: r.requestID, State: event.StateFailed, Detail: l.Statement(), Kind: fault.LimitReached, NoSlot: r.svc.hasHeldSessions()}, outcome)
	}
	if l != nil {
		return r.stopAtLimit(l, outcome)
	}
	if r.refusal != nil {
		return r.recordEnd(r.refused(), outcome)
	}
	r.svc.opt.Logger.Warn("request failed", "session_id", r.sessionID, "request_id", r.requestID, "error", outcome.Err)
	wire := fault.ToWire(outcome.Err)
	if command := r.svc.opt.Surfaces.NewConversation(r.client); command != "" && wire.Code == llm.CodeContextLength {
		wire.Message += " To begin a new conversation, use " + command + "."
	}
	return r.recordEnd(Ended{RequestID: r.requestID, State: event.StateFailed, Detail: wire.Message, Kind: wire.Kind, NoSlot: r.svc.hasHeldSessions()}, outcome)
}

// refused is the input for a request that the policy refused.
func (r *run) refused() Ended {
	e := Ended{RequestID: r.requestID, State: event.StateFailed, Detail: r.refusal.Reason, Kind: fault.LimitReached, Drop: r.refusal.Drop, DropReason: r.refusal.DropReason, NoSlot: r.svc.hasHeldSessions()}
	if r.refusal.Quiet {
		e.State, e.Kind = event.StateCancelled, ""
	}
	return e
}

// recordEnd records the end of the run, whatever the state of its context.
func (r *run) recordEnd(in Input, outcome agent.Outcome) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.ctx), recordTime)
	defer cancel()
	if _, drained := in.(Drained); drained {
		return r.svc.change(ctx, r.sessionID, func(c *change) error {
			if err := r.checkOwner(c.state); err != nil {
				return err
			}
			return c.decide(in)
		})
	}
	return r.record(ctx, func(c *change) error {
		c.outcome = &outcome
		c.quiet = r.refusal != nil && r.refusal.Quiet
		if outcome.Err != nil {
			c.cause = outcome.Err.Error()
		}
		if err := c.recordModel(r); err != nil {
			return err
		}
		p, err := r.svc.opt.Tables.progress(c.tx, r.sessionID, r.requestID)
		if err != nil {
			r.svc.opt.Logger.Error("cannot read the journal", "request_id", r.requestID, "error", err)
			return c.decide(in)
		}
		if r.journalUnread {
			c.text, c.textOf = p.text, r.requestID
		}
		if _, asks := in.(Asked); !asks { // the step stays open until there is an answer
			if err := c.closeStep(r.headers(), p); err != nil {
				return err
			}
		}
		return c.decide(in)
	}, r.out.fullText())
}

func (r *run) runAgent() (outcome agent.Outcome) {
	defer func() {
		if v := recover(); v != nil {
			outcome.Err = fmt.Errorf("run panicked: %v\n%s", v, debug.Stack())
		}
	}()
	in, err := r.load()
	if err != nil {
		if r.out == nil {
			r.out, r.journalUnread = newOutput(r.svc, r.requestID, r.headers(), r.attempt, ""), true
		}
		return agent.Outcome{Err: err}
	}
	if r.notice != "" {
		r.out.append(false, r.notice)
		return agent.Outcome{Usage: in.Usage}
	}
	ctx := r.ctx
	if o := r.svc.opt.Observer; o != nil {
		observed, ended := o.ObserveRun(ctx, RunInfo{RequestID: r.requestID, SessionID: r.sessionID, Client: r.client, TraceParent: r.trace})
		ctx = observed
		defer func() { ended(outcome.Err) }()
	}
	cfg, err := configure(ctx, r, in)
	if err != nil {
		return agent.Outcome{Err: err, Usage: in.Usage}
	}
	r.svc.publisher.add(r.out)
	defer r.svc.publisher.remove(r.out)
	return agent.Run(ctx, *cfg, *in, r.host())
}

// configure chooses the model of a run, and prepares the conversation for it.
func configure(ctx context.Context, r *run, in *agent.Input) (*agent.Config, error) {
	opt := r.svc.opt
	model, err := opt.Model(ctx, r.session)
	if err != nil {
		return nil, err
	}
	settings := r.svc.settings.Load()
	r.noteModel(model.Info())
	if chain, ok := model.(interface {
		OnSwitch(f func(fallback.Switch) error)
	}); ok {
		chain.OnSwitch(func(s fallback.Switch) error { return r.recordSwitch(model, s) })
	}
	if r.limits().money() && model.Info().Price == nil {
		return nil, fault.New(fault.Invalid, "A limit on money is set, but no price is configured for the model %s. Configure its price, or remove the limit.", r.model)
	}

	r.hears = model.Info().Audio
	for i, m := range in.Messages {
		in.Messages[i] = r.inlineBlobs(ctx, m, isUnanswered(in.Messages, i))
	}
	r.tools = opt.allTools()
	workspace, prepare := opt.workspace(r.workspaceOf)
	system := opt.Surfaces.Instructions(joinInstructions(settings.System, r.instructions), r.client, workspace)
	prefix, next, err := r.assemblePrompt(system, workspace, in)
	if err != nil {
		return nil, err
	}
	return &agent.Config{
		Model: model, Tools: r.tools, System: prefix.System, Specs: prefix.Tools, Next: next, Workspace: workspace, Prepare: prepare,
		Retries: opt.Retries, Backoff: opt.Backoff, ToolTimeout: settings.ToolTimeout, CompactAt: settings.CompactAt, Bounds: settings.Answer,
		Permit: r.permit, Lasting: opt.Lasting,
		Inline: func(ctx context.Context, m chat.Message) chat.Message { return r.inlineBlobs(ctx, m, false) },
	}, nil
}

// load reads the conversation and the journal: the run starts at the beginning, or
// where its journal ends.
func (r *run) load() (*agent.Input, error) {
	in := &agent.Input{RequestID: r.requestID, SessionID: r.sessionID, Client: r.client}
	var conv Conversation
	var p progress
	var req Request
	err := r.opening.Read(r.ctx, r.svc.opt.DB, func(q db.Queryer) (err error) {
		db.Ahead(q, r.ahead)
		if r.payer, err = r.svc.payer(q, r.sessionID); err != nil {
			return err
		}
		if conv, err = r.svc.opt.Tables.History.Conversation(q, r.sessionID); err != nil {
			return explainDamage(err, r.sessionID, r.svc.opt.Surfaces.NewConversation(r.client))
		}
		if r.sent, err = r.svc.readPrompt(q, r.sessionID, conv.KeptFrom); err != nil {
			return err
		}
		if p, err = r.svc.opt.Tables.progress(q, r.sessionID, r.requestID); err != nil {
			return err
		}
		r.agent, r.workspaceOf = p.agent, p.workspace
		if err = r.loadChoice(q); err != nil || p.step == 0 && p.attempts == 0 {
			return err // a new request has used nothing
		}
		req, err = r.svc.opt.Tables.Requests.Request(q, r.requestID)
		return err
	})
	switch {
	case err != nil && r.svc.runCtx.Err() != nil:
		return in, agent.ErrDrain
	case err != nil && r.ctx.Err() != nil:
		return in, agent.ErrCancelled
	case err != nil:
		err = fmt.Errorf("read conversation: %w", err)
		if db.IsEngineError(err) {
			r.recordErr = err
		}
		return in, err
	}
	r.attempt, r.trace, r.notes, r.grant = p.attempts, p.trace, p.notes, p.grant
	r.verdicts = p.verdicts
	r.out = newOutput(r.svc, r.requestID, r.headers(), p.attempts, p.text)
	r.loaded = true
	r.worked, r.begun = p.worked, r.svc.opt.Awake()
	r.chargedUsage, r.chargedUntil = req.Usage, r.begun
	if p.step == 0 { // no model call yet
		r.notice = noticeText(conv.Messages, r.requestID)
	}
	if conv.Summary != nil {
		in.Messages = append(in.Messages, *conv.Summary)
		r.slots = append(r.slots, slot{seq: conv.KeptFrom - 1})
	}
	if conv.Summary == nil && len(conv.Messages) > 0 {
		r.sent.opening = &conv.Messages[0]
	}
	for _, m := range conv.Messages {
		if r.sent.notesBefore == 0 && m.RequestID == r.requestID && p.step == 0 {
			r.sent.notesBefore = m.Seq
			r.sent.stopped = r.state.Stopped && len(in.Messages) > 0
		}
		in.Messages = append(in.Messages, m.Message)
		r.slots = append(r.slots, slot{seq: m.Seq})
	}
	if p.pending != nil {
		for id := range p.pending.Results {
			r.reportedCalls[id] = true
		}
	}
	in.Pending, in.Ended, in.Step, in.Usage = p.pending, p.ended, p.step, req.Usage
	in.Text, in.Offset = p.text, int64(len(p.text))
	return in, nil
}

// noteModel notes the model that answers, for the request's record.
func (r *run) noteModel(info llm.Info) {
	r.model, r.effort = info.Provider+"/"+info.Name, info.Effort
}

// recordSwitch records that another model of the chain is called from now on.
func (r *run) recordSwitch(model llm.Model, s fallback.Switch) error {
	s.Reason = text.TruncateRunes(s.Reason, maxSwitchReason)
	r.noteModel(model.Info())
	r.notes = addSwitchNote(r.notes, s)
	return r.record(r.ctx, func(c *change) error {
		req, err := c.request(r.requestID)
		if err != nil {
			return err
		}
		req.Notes = strings.Join(r.notes, "\n")
		c.updateRequest(req)
		return c.tables.Journal.Record(c.tx, r.requestID, Entry{At: c.now(), Kind: kindModelSwitched, Data: s})
	})
}

// explainDamage adds advice to the error of a damaged conversation, which can answer
// nothing. command begins a new conversation on the surface, if it is not empty.
func explainDamage(err error, sessionID, command string) error {
	if !db.IsDamaged(err) {
		return err
	}
	advice := "delete this conversation and start another: lilac sessions delete " + sessionID
	if command != "" {
		advice = "begin a new conversation with " + command + "."
	}
	return &fault.Error{Kind: fault.Internal, Code: db.CodeDamagedRow, Message: fault.ToWire(err).Message + " If you have no backup, " + advice}
}

// noticeText returns the output of a request whose message has the role assistant: its
// text is the answer, without a model call.
func noticeText(history []HistoryMessage, requestID string) string {
	if len(history) == 0 {
		return ""
	}
	last := history[len(history)-1]
	if last.RequestID != requestID || last.Message.Role != chat.Assistant || len(last.Message.ToolCalls()) > 0 {
		return ""
	}
	return last.Message.Text()
}

// unchargedTime is how long the run has worked since the session and the day were
// charged.
func (r *run) unchargedTime() time.Duration {
	if !r.loaded {
		return 0
	}
	return max(0, r.svc.opt.Awake()-r.chargedUntil)
}

// workedMS is the working time of the request, in milliseconds, for the journal.
func (r *run) workedMS() int64 { return r.workingTime().Milliseconds() }

// workingTime is how long the request has worked.
func (r *run) workingTime() time.Duration {
	if !r.loaded {
		return 0
	}
	return r.worked + r.svc.opt.Awake() - r.begun
}

// markCharged notes that the session and the day were charged.
func (r *run) markCharged(s Spent) {
	r.chargedUsage = r.chargedUsage.Add(s.Usage)
	r.chargedUntil += s.Time
}

// checkOwner refuses a write if another run has become the owner of the session.
func (r *run) checkOwner(s State) error {
	if !s.isActive(r.requestID) || s.Epoch != r.state.Epoch {
		return &fault.Error{
			Kind: fault.Conflict, Code: codeStaleOwner,
			Message: fmt.Sprintf("The request %q has another run: this one started in epoch %d, and the session is in epoch %d.", r.requestID, r.state.Epoch, s.Epoch),
		}
	}
	return nil
}

func staleOwner(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Code == codeStaleOwner
}

// record makes one durable write of the run. If it fails, the run cannot continue. long are the
// values with long texts that fn writes; see [longtext.SetAside].
func (r *run) record(ctx context.Context, fn func(c *change) error, long ...any) error {
	err := longtext.SetAside(ctx, r.svc.opt.DB, r.requestID, long...)
	if err == nil {
		err = r.write(ctx, fn)
	}
	if err != nil {
		r.recordErr = err
	}
	return err
}

// write is one transaction of the run. It also publishes the buffered text, so that
// the output topic has the order of the run. Any goroutine may call it once the agent
// runs.
func (r *run) write(ctx context.Context, fn func(c *change) error) error {
	r.out.pubMu.Lock()
	defer r.out.pubMu.Unlock()
	events, err := r.out.collect()
	if err == nil {
		err = r.svc.changeIn(ctx, announcing(r.svc.opt.DB.Update, r.aheadOfWrite), r.sessionID, func(c *change) error {
			c.run = r
			if err := r.checkOwner(c.state); err != nil {
				return err
			}
			if len(events) > 0 {
				if err := c.tx.Publish(events...); err != nil {
					return err
				}
			}
			if r.out.hasDelta && !r.out.streaming {
				if err := c.markStreaming(r.requestID); err != nil {
					return err
				}
			}
			return fn(c)
		})
	}
	if err != nil {
		return err
	}
	r.out.markSent()
	r.out.streaming = r.out.hasDelta
	return nil
}

// inject returns applied messages with the contents of their blobs.
func (r *run) inject(injected []agent.Injected, seqs []int64) []agent.Injected {
	r.addSlots(seqs)
	for i := range injected {
		messages := make([]chat.Message, len(injected[i].Messages))
		for j, m := range injected[i].Messages {
			messages[j] = r.inlineBlobs(r.ctx, m, true)
		}
		injected[i].Messages = messages
	}
	return injected
}
