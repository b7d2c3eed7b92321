package environment

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/grant"
)

const (
	// requestPrefix begins the ids of the requests that rules start, subPrefix of
	// those of sub-agents, and flowPrefix of those of workflows.
	requestPrefix = Surface + ":"
	subPrefix     = "sub:"
	flowPrefix    = "wf:"
)

// stoppedSource is the source, in the inbox, of announcements that a rule stopped.
const stoppedSource = "rule.stopped"

// Refusal ends a request whose rule has used up its budget.
type Refusal struct {
	// Sentence is for people. Announced reports that they know already, from
	// another request or a notice.
	Sentence  string
	Announced bool
	// Queued are the requests of the rule in the session that have not begun, and
	// QueuedReason is the text that they end with.
	Queued       []string
	QueuedReason string
}

// Allow decides before a model call whether a request may go on. It returns a
// refusal if the budget of its rule is used up, and nil otherwise. The rule of a
// request is the one that started it, or that led to its workflow or to the
// request of its parent agent; most requests have none. more is the usage of the
// request that is not recorded yet.
func (s *Service) Allow(ctx context.Context, requestID, sessionID string, more chat.Usage) (*Refusal, error) {
	ruled := func(prefix string) bool { return strings.HasPrefix(requestID, prefix) }
	if s.o.Runs == nil || !slices.ContainsFunc([]string{requestPrefix, subPrefix, flowPrefix}, ruled) {
		return nil, nil
	}
	var run Run
	var rule Rule
	var exhausted *Exhausted
	err := s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		var started bool
		if run, started, err = s.startedBy(q, requestID); err != nil || !started {
			return err
		}
		rule, exhausted, err = s.overdrawn(q, run, more)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the usage of a rule: %w", err)
	}
	if exhausted == nil {
		return nil, nil
	}
	out := Refusal{Sentence: exhausted.sentence(rule.Name), QueuedReason: fmt.Sprintf("The rule %s does nothing more here today.", rule.Name)}
	err = s.o.DB.Update(ctx, func(tx *db.Tx) error {
		if sessionID != run.SessionID { // a sub-agent: nobody reads its session, and the queued requests are in the other
			_, err := s.announceStop(ctx, tx, rule, run.SessionID, "", *exhausted)
			return err
		}
		first, err := s.announceStop(ctx, tx, rule, sessionID, requestID, *exhausted)
		if err != nil {
			return err
		}
		out.Announced = !first
		out.Queued, err = s.o.Causes.Queued(tx, rule.Name, sessionID)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("announce that a rule stops: %w", err)
	}
	if out.Announced {
		out.Sentence = out.QueuedReason
	}
	return &out, nil
}

// startedBy returns the run that started a request, or its parent agent's request.
func (s *Service) startedBy(q db.Queryer, requestID string) (run Run, started bool, err error) {
	if requestID, err = s.o.Causes.WorksFor(q, requestID); err != nil {
		return run, false, err
	}
	return s.o.Causes.StartedBy(q, requestID)
}

// Cause is what led to a request: the number of events that caused each other
// before it, and the rule that acted for a session, if one did.
type Cause struct {
	Depth           int
	Rule, SessionID string
	// Grant is what the request may use.
	Grant grant.Grant
}

// CauseOf returns the cause of a request.
func (s *Service) CauseOf(q db.Queryer, requestID string) (c Cause, err error) {
	if c.Depth, err = s.o.Causes.DepthOf(q, requestID); err != nil {
		return c, err
	}
	if c.Grant, err = s.o.Causes.GrantOf(q, requestID); err != nil {
		return c, err
	}
	run, _, err := s.startedBy(q, requestID)
	c.Rule, c.SessionID = run.Rule, run.SessionID
	return c, err
}

// Charge records for a rule a request of a workflow that the rule led to. It
// returns false if the budget of the day forbids the request. The day is that of
// the request, however long the workflow has waited.
func (s *Service) Charge(ctx context.Context, tx *db.Tx, run Run) (bool, error) {
	r, _ := s.rule(run.Rule)
	used, err := s.usedOn(tx, r, run.SessionID, dayOf(tx.Now()))
	if err != nil {
		return false, err
	}
	_, effects, err := s.core(ctx).ApplyTo(tx, key{run.Rule, run.SessionID}, State{Used: used}, Charged{Rule: r, Run: run})
	if err != nil {
		return false, err
	}
	return !slices.ContainsFunc(effects, func(e Effect) bool { _, stopped := e.(AnnounceStop); return stopped }), nil
}

// EndChain records for a rule that a workflow has ended a chain of events that the
// rule began.
func (s *Service) EndChain(tx *db.Tx, run Run) error {
	run.At = tx.Now().UnixMilli()
	return s.record(tx, run.withOutcome(OutcomeDepth))
}

// overdrawn returns the rule of a run and the part of its budget that is used up,
// or nil. The day is that of the run: work that continues after midnight gets no
// second budget.
func (s *Service) overdrawn(q db.Queryer, run Run, more chat.Usage) (Rule, *Exhausted, error) {
	r, _ := s.rule(run.Rule)
	if !r.Budget.metered() {
		return Rule{}, nil, nil
	}
	used, err := s.o.Runs.SpentBy(q, run.Rule, run.SessionID, dayOf(time.UnixMilli(run.At)))
	if err != nil {
		return Rule{}, nil, err
	}
	used.Tokens += more.Tokens()
	used.CostMicros += more.CostMicros
	b := r.Budget
	b.Runs = 0 // this run was allowed when it began
	return r, b.Exhausted(used), nil
}

// announceStop announces in the session, once on that day, that the budget of a
// rule is used up: as an event, and as a message to people unless a request of the
// rule ends with the sentence. first is true again for the same request after a
// crash.
func (s *Service) announceStop(ctx context.Context, tx *db.Tx, r Rule, sessionID, requestID string, exhausted Exhausted) (first bool, err error) {
	day := dayOf(tx.Now()).Format(time.DateOnly)
	id := "rule.stopped:" + digest(r.Name+"\x00"+sessionID) + ":" + day
	prior, seen, err := s.o.Inbox.Seen(tx, stoppedSource, id, []byte(requestID))
	if err != nil || seen {
		return requestID != "" && string(prior) == requestID, err
	}
	s.o.Logger.WarnContext(ctx, "a rule has used up its budget of the day", "rule", r.Name, "session_id", sessionID, "limit", exhausted.Limit)
	payload, err := json.Marshal(event.RuleStoppedPayload{Rule: r.Name, Limit: exhausted.Limit, Used: exhausted.Used, Allowed: exhausted.Allowed})
	if err != nil {
		return false, fmt.Errorf("encode payload: %w", err)
	}
	m := event.EnvMetadata{TriggerSessionID: sessionID, Source: "env"}
	if m.TriggerAgentID, m.TriggerAgentName, err = s.o.Agent(tx, sessionID); err != nil {
		return false, fmt.Errorf("find the sub-agent of session %s: %w", sessionID, err)
	}
	_, err = Publish(tx, s.o.Inbox, event.EnvEvent{ID: id, Type: event.RuleStopped, Payload: payload, Metadata: m})
	if err != nil || requestID != "" {
		return true, err
	}
	client, exists, err := s.client(tx, sessionID)
	if err != nil || !exists {
		return true, err
	}
	return true, publishNotice(tx, id, sessionID, client, exhausted.sentence(r.Name))
}

// publishNotice makes the agent say a fixed sentence in a session, after the
// request that runs and without a model call. id identifies the notice.
func publishNotice(tx *db.Tx, id, sessionID, client, sentence string) error {
	command, err := event.New(event.Meta{
		ID: id + "/notice", Time: tx.Now(), Headers: event.RequestHeaders(RequestID(sessionID, id), sessionID, client),
	}, event.RequestMessage{
		Queue: event.Prompt, MessageID: messageID(id), Messages: []chat.Message{chat.Text(chat.Assistant, sentence)},
	})
	if err != nil {
		return err
	}
	if err := tx.Publish(command); err != nil {
		return fmt.Errorf("publish notice for the runner: %w", err)
	}
	return nil
}
