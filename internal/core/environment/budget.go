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
)

const (
	// requestPrefix begins the id of every request that a rule starts.
	requestPrefix = Surface + ":"
	// subPrefix begins that of every sub-agent's, flowPrefix that of every
	// workflow's.
	subPrefix  = "sub:"
	flowPrefix = "wf:"
)

// stoppedSource is the name in the inbox of what was said about budgets.
const stoppedSource = "rule.stopped"

// Refusal ends a request whose rule has used up its budget.
type Refusal struct {
	// Sentence is for people. Told says that they were told before, by another
	// request or a notice.
	Sentence string
	Told     bool
	// Waiting are the requests of the rule in the session that have not begun,
	// Rest is what they end with.
	Waiting []string
	Rest    string
}

// Allow says before a model call whether a request may go on. It returns a
// refusal when a rule started it, or led to the workflow that made it, or to the
// request whose sub-agent it is, and the budget of that is used up, and nil for
// other requests. more is what the request has used beyond its records.
func (s *Service) Allow(ctx context.Context, requestID, sessionID string, more chat.Usage) (*Refusal, error) {
	pays := func(prefix string) bool { return strings.HasPrefix(requestID, prefix) }
	if s.o.Records == nil || !slices.ContainsFunc([]string{requestPrefix, subPrefix, flowPrefix}, pays) {
		return nil, nil
	}
	var run Run
	var rule Rule
	var reached *Reached
	err := s.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		var started bool
		if run, started, err = s.startedBy(q, requestID); err != nil || !started {
			return err
		}
		rule, reached, err = s.overdrawn(q, run, more)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read what a rule has used: %w", err)
	}
	if reached == nil {
		return nil, nil
	}
	out := Refusal{Sentence: reached.sentence(rule.Name), Rest: fmt.Sprintf("The rule %s does nothing more here today.", rule.Name)}
	err = s.o.DB.Update(ctx, func(tx *db.Tx) error {
		if sessionID != run.SessionID { // nobody reads there what it ends with, and others wait elsewhere
			_, err := s.stopped(ctx, tx, rule, run.SessionID, "", *reached)
			return err
		}
		first, err := s.stopped(ctx, tx, rule, sessionID, requestID, *reached)
		if err != nil {
			return err
		}
		out.Told = !first
		out.Waiting, err = s.o.Records.Queued(tx, rule.Name, sessionID)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("keep that a rule stops: %w", err)
	}
	if out.Told {
		out.Sentence = out.Rest
	}
	return &out, nil
}

// startedBy is the run that started a request, or the one whose sub-agent it is.
func (s *Service) startedBy(q db.Queryer, requestID string) (run Run, started bool, err error) {
	if requestID, err = s.o.Records.WorksFor(q, requestID); err != nil {
		return run, false, err
	}
	return s.o.Records.StartedBy(q, requestID)
}

// Cause is what led to a request: how many events set each other off up to it,
// and the rule that did so for a session, if one did.
type Cause struct {
	Depth           int
	Rule, SessionID string
}

// CauseOf returns what led to a request.
func (s *Service) CauseOf(q db.Queryer, requestID string) (c Cause, err error) {
	if c.Depth, err = s.o.Records.DepthOf(q, requestID); err != nil {
		return c, err
	}
	run, _, err := s.startedBy(q, requestID)
	c.Rule, c.SessionID = run.Rule, run.SessionID
	return c, err
}

// Spend counts for a rule a request that a workflow makes, which the rule led
// to. It is false if the budget of the day does not allow it. The day is that of
// the request, however long the workflow has waited.
func (s *Service) Spend(ctx context.Context, tx *db.Tx, run Run) (bool, error) {
	rules := s.Rules()
	if i := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == run.Rule }); i >= 0 {
		if affords, err := s.affords(ctx, tx, rules[i], run); err != nil || !affords {
			return false, err
		}
	}
	run.Outcome, run.At = OutcomeWorkflow, tx.Now().UnixMilli()
	return true, s.record(tx, run)
}

// TooDeep notes for a rule that a chain that it began has ended with a workflow.
func (s *Service) TooDeep(tx *db.Tx, run Run) error { return s.refuse(tx, run, OutcomeDepth) }

// overdrawn returns the rule of a run, and which part of its budget is used up,
// or nil. The day is that of the run: work that goes on after midnight does not
// get a second budget.
func (s *Service) overdrawn(q db.Queryer, run Run, more chat.Usage) (Rule, *Reached, error) {
	rules := s.Rules()
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == run.Rule && r.Budget.metered() })
	if i < 0 {
		return Rule{}, nil, nil
	}
	used, err := s.o.Records.SpentBy(q, run.Rule, run.SessionID, dayOf(time.UnixMilli(run.At)))
	if err != nil {
		return Rule{}, nil, err
	}
	used.Tokens += more.Tokens()
	used.CostMicros += more.CostMicros
	b := rules[i].Budget
	b.Runs = 0 // this run was allowed when it began
	return rules[i], b.Over(used), nil
}

// stopped says once in the session on that day that the budget of a rule is
// used up: as an event, and as a message that people see unless a request of
// the rule ends with it. A request that asks again, after a crash, is the first
// again.
func (s *Service) stopped(ctx context.Context, tx *db.Tx, r Rule, sessionID, requestID string, reached Reached) (first bool, err error) {
	day := dayOf(tx.Now()).Format(time.DateOnly)
	id := "rule.stopped:" + digest(r.Name+"\x00"+sessionID) + ":" + day
	prior, seen, err := s.o.Inbox.Seen(tx, stoppedSource, id, []byte(requestID))
	if err != nil || seen {
		return requestID != "" && string(prior) == requestID, err
	}
	s.o.Logger.WarnContext(ctx, "a rule has used up its budget of the day", "rule", r.Name, "session_id", sessionID, "limit", reached.Limit)
	payload, err := json.Marshal(event.RuleStoppedPayload{Rule: r.Name, Limit: reached.Limit, Used: reached.Used, Allowed: reached.Allowed})
	if err != nil {
		return false, fmt.Errorf("encode payload: %w", err)
	}
	_, err = Publish(tx, s.o.Inbox, event.EnvEvent{
		ID: id, Type: event.RuleStopped, Payload: payload,
		Metadata: event.EnvMetadata{TriggerSessionID: sessionID, Source: "env"},
	})
	if err != nil || requestID != "" {
		return true, err
	}
	client, known, err := s.client(tx, sessionID)
	if err != nil || !known {
		return true, err
	}
	return true, publishNotice(tx, id, sessionID, client, reached.sentence(r.Name))
}

// publishNotice lets the agent say a sentence of ours in a session, behind what
// runs and without a model call. id names it.
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
