package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
)

// rulesMigration creates the tables of rule runs, of events that wait for a debounce, and
// of events that were delivered to the agent. Each row of rule_counts counts one outcome
// of one rule in one session on one day.
var rulesMigration = db.Migration{Name: "rules.0001-runs", SQL: `
CREATE TABLE rule_runs (
	id         INTEGER PRIMARY KEY,
	rule       TEXT NOT NULL,
	event_id   TEXT NOT NULL UNIQUE,
	type       TEXT NOT NULL,
	session_id TEXT NOT NULL,
	message_id TEXT NOT NULL,
	request_id TEXT NOT NULL,
	outcome    TEXT NOT NULL,
	depth      INTEGER NOT NULL,
	at         INTEGER NOT NULL
) STRICT;
CREATE INDEX rule_runs_rule ON rule_runs (rule, session_id, at);
CREATE INDEX rule_runs_request ON rule_runs (request_id);
CREATE INDEX rule_runs_at ON rule_runs (at);

CREATE TABLE rule_events (
	session_id TEXT NOT NULL,
	event_id   TEXT NOT NULL,
	at         INTEGER NOT NULL,
	json       BLOB NOT NULL,
	PRIMARY KEY (session_id, event_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX rule_events_at ON rule_events (at);

CREATE TABLE rule_counts (
	rule       TEXT NOT NULL,
	session_id TEXT NOT NULL,
	outcome    TEXT NOT NULL,
	day        INTEGER NOT NULL,
	n          INTEGER NOT NULL,
	PRIMARY KEY (rule, day, session_id, outcome)
) STRICT, WITHOUT ROWID;
CREATE INDEX rule_counts_day ON rule_counts (day);

CREATE TABLE rule_waits (
	rule       TEXT NOT NULL,
	session_id TEXT NOT NULL,
	first      INTEGER NOT NULL,
	due        INTEGER NOT NULL,
	json       BLOB NOT NULL,
	PRIMARY KEY (rule, session_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX rule_waits_due ON rule_waits (due);
`}

// refusalsMigration creates the table of the newest events on which rules did not act. It
// is separate from rule_runs, because a burst of events causes very many refusals.
var refusalsMigration = db.Migration{Name: "rules.0002-refusals", SQL: `
CREATE TABLE rule_refusals (
	id         INTEGER PRIMARY KEY,
	rule       TEXT NOT NULL,
	event_id   TEXT NOT NULL,
	type       TEXT NOT NULL,
	session_id TEXT NOT NULL,
	outcome    TEXT NOT NULL,
	depth      INTEGER NOT NULL,
	at         INTEGER NOT NULL
) STRICT;
CREATE INDEX rule_refusals_rule ON rule_refusals (rule);
`}

// refusalErrorsMigration adds the reason why a rule failed.
var refusalErrorsMigration = db.Migration{Name: "rules.0004-errors", SQL: `
ALTER TABLE rule_refusals ADD COLUMN error TEXT NOT NULL DEFAULT '';
`}

const (
	// refusalsMax is the number of refusals to keep, of all rules together. Every
	// refusalsTrimBatch inserts, AddRefusal deletes the older ones.
	refusalsMax       = 10_000
	refusalsTrimBatch = 100
)

const runColumns = `rule, event_id, type, session_id, message_id, request_id, outcome, depth, at`

// dayMillis is the length of a day in milliseconds. The days of rule_counts start at
// midnight UTC.
const dayMillis = 24 * 60 * 60 * 1000

func scanRun(rows scanner) (r environment.Run, err error) {
	return r, rows.Scan(&r.Rule, &r.EventID, &r.Type, &r.SessionID, &r.MessageID, &r.RequestID, &r.Outcome, &r.Depth, &r.At)
}

// RuleRuns groups the tables of runs, refusals and counts of rules.
type RuleRuns struct{}

// Handled reports whether a rule has acted on an event.
func (RuleRuns) Handled(q db.Queryer, eventID string) (bool, error) {
	var n int
	err := q.QueryRow(`SELECT COUNT(*) FROM rule_runs WHERE event_id = ?`, eventID).Scan(&n)
	return n > 0, wrap("look up rule run", err)
}

// AddRun inserts a run of a rule.
func (RuleRuns) AddRun(tx *db.Tx, r environment.Run) error {
	_, err := tx.Exec(`INSERT INTO rule_runs (`+runColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.Rule, r.EventID, string(r.Type), r.SessionID, r.MessageID, r.RequestID, r.Outcome, r.Depth, r.At)
	return wrap("keep rule run", err)
}

// AddRefusal inserts an event on which a rule did not act. It also deletes the refusals
// beyond refusalsMax from time to time.
func (RuleRuns) AddRefusal(tx *db.Tx, r environment.Run) error {
	var id int64
	err := tx.QueryRow(`INSERT INTO rule_refusals (rule, event_id, type, session_id, outcome, error, depth, at) VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id`,
		r.Rule, r.EventID, string(r.Type), r.SessionID, r.Outcome, r.Error, r.Depth, r.At).Scan(&id)
	if err != nil || id%refusalsTrimBatch != 0 {
		return wrap("keep refusal of rule", err)
	}
	_, err = tx.Exec(`DELETE FROM rule_refusals WHERE id <= ?`, id-refusalsMax)
	return wrap("forget refusals of rules", err)
}

// RuleEvents is the table of events that were delivered to the agent.
type RuleEvents struct{}

// KeepEvent stores an event that was delivered to the agent in a session, so that the
// agent can read it again.
func (RuleEvents) KeepEvent(tx *db.Tx, sessionID string, e event.EnvEvent) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return wrap("encode event", err)
	}
	at := tx.Now().UnixMilli()
	_, err = tx.Exec(`INSERT INTO rule_events (session_id, event_id, at, json, checksum) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		sessionID, e.ID, at, raw, rowChecksum(sessionID, e.ID, at, raw))
	return wrap("keep event", err)
}

// KeptEvent returns an event that was delivered to the agent in a session.
func (RuleEvents) KeptEvent(q db.Queryer, sessionID, eventID string) (e event.EnvEvent, err error) {
	var at, checksum int64
	var raw []byte
	err = q.QueryRow(`SELECT at, json, checksum FROM rule_events WHERE session_id = ? AND event_id = ?`, sessionID, eventID).Scan(&at, &raw, &checksum)
	if err != nil {
		return e, wrap("read event", notFound(err, "There is no event %q in this session.", eventID))
	}
	return e, wrap("read event", decodeRow(ruleEventTable, checksum, raw, &e, sessionID, eventID, at, raw))
}

// StartedBy returns the run that started a request, directly or through a workflow. It
// returns false if no rule did.
func (RuleRuns) StartedBy(q db.Queryer, requestID string) (r environment.Run, any bool, err error) {
	found, err := collect(q, scanRun, `SELECT `+runColumns+` FROM rule_runs WHERE request_id = ? LIMIT 1`, requestID)
	if err != nil || len(found) == 0 {
		return r, false, wrap("read rule run", err)
	}
	return found[0], true, nil
}

// Queued returns the ids of the queued requests of a rule in a session.
func (RuleRuns) Queued(q db.Queryer, rule, sessionID string) ([]string, error) {
	out, err := collect(q, scanID,
		`SELECT q.id FROM rule_runs r JOIN requests q ON q.id = r.request_id
		WHERE r.rule = ?1 AND r.session_id = ?2 AND q.session_id = ?2 AND q.state = 'queued' ORDER BY r.id LIMIT ?3`, rule, sessionID, maxPage)
	return out, wrap("read requests of rule", err)
}

// DepthOf returns the depth of the event that led to a request, or 0 if no event did. A
// request of a sub-agent has the depth of the request that started its task. A workflow
// stores its own depth.
func (RuleRuns) DepthOf(q db.Queryer, requestID string) (depth int, err error) {
	err = q.QueryRow(`SELECT COALESCE(MAX(depth), 0) FROM (
		SELECT depth FROM rule_runs WHERE request_id = ?1
		UNION ALL SELECT r.depth FROM session_inbox m JOIN rule_runs r ON r.session_id = m.session_id AND r.message_id = m.message_id AND r.message_id <> ''
			WHERE m.request_id = ?1 AND m.request_id <> '') AS runs`, requestID).Scan(&depth)
	if err != nil {
		return 0, wrap("read depth", err)
	}
	id, err := event.ParseRequestID(requestID)
	if err != nil {
		return depth, nil // no workflow or task started it
	}
	before := 0
	switch id.Surface {
	case workflow.Surface:
		var w workflow.Workflow
		if w, err = (Workflows{}).Workflow(q, id.Session); err == nil {
			before = w.Depth()
		}
	case task.Client:
		var t task.Task
		if t, err = (Tasks{}).Task(q, id.Specific); err == nil {
			before = t.Depth - 1 // Depth is that of the event at its end: one more than that of its request
		}
	}
	if fault.KindOf(err) == fault.NotFound { // it was trimmed
		err = nil
	}
	if err != nil {
		return 0, fmt.Errorf("read what led to %s: %w", requestID, err)
	}
	return max(depth, before), nil
}

// requestsOfRuns selects the requests that runs of a rule started after a time and before
// another, in one session or in all. It omits runs whose message joined a request that the
// rule did not start.
const requestsOfRuns = `SELECT DISTINCT COALESCE(m.request_id, r.request_id) FROM rule_runs r
	LEFT JOIN session_inbox m ON m.session_id = r.session_id AND m.message_id = r.message_id
	WHERE r.rule = ? AND r.at >= ? AND r.at < ? AND (? = '' OR r.session_id = ?) AND (COALESCE(m.request_id, r.request_id) LIKE 'env:%' OR r.outcome = 'workflow')`

// GrantOf returns what a request may use. A request that is unknown has no restrictions.
func (RuleRuns) GrantOf(q db.Queryer, requestID string) (grant.Grant, error) {
	entries, err := storyOf(q, requestID)
	return session.GrantOf(entries), err
}

// WorkspaceOf returns the session in whose own workspace a request works, or "" for the shared
// one. known is false if the request has not started or is unknown.
func (RuleRuns) WorkspaceOf(q db.Queryer, requestID string) (sessionID string, known bool, err error) {
	entries, err := storyOf(q, requestID)
	sessionID, known = session.WorkspaceOf(entries)
	return sessionID, known, err
}

// WorksFor returns the request that started the task of a sub-agent's request. For all
// other requests, it returns requestID itself.
func (RuleRuns) WorksFor(q db.Queryer, requestID string) (string, error) {
	id, err := event.ParseRequestID(requestID)
	if err != nil || id.Surface != task.Client {
		return requestID, nil
	}
	t, err := Tasks{}.Task(q, id.Specific)
	if fault.KindOf(err) == fault.NotFound {
		return requestID, nil
	}
	return t.RequestID, err
}

// RunsWithin counts the runs of a rule in a session after one time, up to and including
// another. If workflows is true, it also counts the requests that workflows started for
// the rule.
func (RuleRuns) RunsWithin(q db.Queryer, rule, sessionID string, after, until time.Time, workflows bool) (n int64, err error) {
	err = q.QueryRow(`SELECT COUNT(*) FROM rule_runs WHERE rule = ? AND session_id = ? AND at > ? AND at <= ? AND (outcome IN ('agent', 'published') OR outcome = 'workflow' AND ? = 1)`,
		rule, sessionID, after.UnixMilli(), until.UnixMilli(), workflows).Scan(&n)
	return n, wrap("count runs of rule", err)
}

// SpentBy returns the usage of the requests that a rule started in a session on a day. day
// is the start of that day.
func (RuleRuns) SpentBy(q db.Queryer, rule, sessionID string, day time.Time) (b environment.Budget, err error) {
	b, err = usageOfRuns(q, rule, sessionID, day.UnixMilli())
	return b, wrap("sum what runs used", err)
}

// usageOfRuns counts each request once, and includes the requests of workflows and of the
// sub-agents that these requests started. Damaged rows count as zero, so that they do not
// block the rule; the deep check reports them.
func usageOfRuns(q db.Queryer, rule, sessionID string, day int64) (b environment.Budget, err error) {
	ids, err := collect(q, scanID, requestsOfRuns, rule, day, day+dayMillis, sessionID, sessionID)
	if err != nil || len(ids) == 0 {
		return b, err
	}
	mine := make(map[string]bool, len(ids))
	for _, id := range ids {
		mine[id] = true
	}
	_, err = collect(q, func(r scanner) (_ struct{}, err error) {
		var parent, id string
		var raw []byte
		if err := r.Scan(&parent, &id, &raw); err != nil {
			return struct{}{}, err
		}
		var t struct {
			RequestID string `json:"requestId"`
		}
		if json.Unmarshal(raw, &t) == nil && mine[t.RequestID] {
			ids = append(ids, task.Client+":"+parent+":"+id)
		}
		return struct{}{}, nil
	}, `SELECT session_id, id, json FROM tasks WHERE created_at >= ? AND child_session <> ''`, day)
	if err != nil {
		return b, err
	}
	list, err := jsonList(ids)
	if err != nil {
		return b, err
	}
	_, err = collect(q, func(r scanner) (_ struct{}, err error) {
		var raw []byte
		if err := r.Scan(&raw); err != nil {
			return struct{}{}, err
		}
		var used struct{ InputTokens, OutputTokens, CostMicros float64 }
		if json.Unmarshal(raw, &used) == nil {
			b.Tokens = addBounded(b.Tokens, used.InputTokens+used.OutputTokens)
			b.CostMicros = addBounded(b.CostMicros, used.CostMicros)
		}
		return struct{}{}, nil
	}, `SELECT usage FROM requests WHERE id IN (SELECT value FROM json_each(?))`, list)
	return b, err
}

// addBounded adds a number to a sum that stays below 1e18.
func addBounded(sum int64, n float64) int64 {
	return int64(min(float64(sum)+n, 1e18))
}

// CountOutcome adds one to the count of an outcome on the day of at.
func (RuleRuns) CountOutcome(tx *db.Tx, rule, sessionID, outcome string, at time.Time) error {
	_, err := tx.Exec(`INSERT INTO rule_counts (rule, session_id, outcome, day, n) VALUES (?, ?, ?, ?, 1)
		ON CONFLICT (rule, day, session_id, outcome) DO UPDATE SET n = rule_counts.n + 1`, rule, sessionID, outcome, at.UnixMilli()/dayMillis)
	return wrap("count outcome of rule", err)
}

const ruleWaitColumns = `rule, session_id, first, due, json`

func scanWait(rows scanner) (w environment.Hold, err error) {
	var raw []byte
	var checksum int64
	if err := rows.Scan(&w.Rule, &w.SessionID, &w.First, &w.Due, &raw, &checksum); err != nil {
		return w, err
	}
	return w, decodeRow(ruleWaitTable, checksum, raw, &w.Event, w.Rule, w.SessionID, w.First, w.Due, raw)
}

// RuleWaits is the table of events that wait for the debounce of a rule to end.
type RuleWaits struct{}

// Waiting returns the event that waits for a rule in a session, if there is one.
func (RuleWaits) Waiting(q db.Queryer, rule, sessionID string) (w environment.Hold, any bool, err error) {
	found, err := collect(q, scanWait, `SELECT `+ruleWaitColumns+`, checksum FROM rule_waits WHERE rule = ? AND session_id = ?`, rule, sessionID)
	if err != nil || len(found) == 0 {
		return w, false, wrap("read what waits", err)
	}
	return found[0], true, nil
}

// NextWait returns the waiting event that is due first, if there is one.
func (RuleWaits) NextWait(q db.Queryer) (w environment.Hold, any bool, err error) {
	return firstWait(q, `SELECT `+ruleWaitColumns+`, checksum FROM rule_waits ORDER BY due`)
}

// WaitAhead returns a waiting event whose wait started after now, if there is one. Such an
// event shows that the wall clock moved backwards.
func (RuleWaits) WaitAhead(q db.Queryer, now time.Time) (w environment.Hold, any bool, err error) {
	return firstWait(q, `SELECT `+ruleWaitColumns+`, checksum FROM rule_waits WHERE first > ?`, now.UnixMilli())
}

// firstWait returns the first row that is not damaged. Damaged rows must not block the
// other rows; the deep check reports them.
func firstWait(q db.Queryer, query string, args ...any) (w environment.Hold, any bool, err error) {
	rows, err := q.Query(query, args...)
	if err != nil {
		return w, false, wrap("read what waits", err)
	}
	defer rows.Close()
	for rows.Next() {
		if w, err = scanWait(rows); !db.IsDamaged(err) {
			return w, err == nil, wrap("read what waits", err)
		}
	}
	return environment.Hold{}, false, wrap("read what waits", rows.Err())
}

// PutWait inserts a waiting event. It replaces the event that waits for the same rule and
// session.
func (RuleWaits) PutWait(tx *db.Tx, w environment.Hold) error {
	raw, err := json.Marshal(w.Event)
	if err != nil {
		return wrap("encode what waits", err)
	}
	_, err = tx.Exec(`INSERT INTO rule_waits (`+ruleWaitColumns+`, checksum) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (rule, session_id) DO UPDATE SET first = excluded.first, due = excluded.due, json = excluded.json, checksum = excluded.checksum`,
		w.Rule, w.SessionID, w.First, w.Due, raw, rowChecksum(w.Rule, w.SessionID, w.First, w.Due, raw))
	return wrap("keep what waits", err)
}

// DropWait deletes the event that waits for a rule in a session.
func (RuleWaits) DropWait(tx *db.Tx, rule, sessionID string) error {
	_, err := tx.Exec(`DELETE FROM rule_waits WHERE rule = ? AND session_id = ?`, rule, sessionID)
	return wrap("forget what waits", err)
}

// LastRuns returns the newest limit runs of a rule and its newest limit refusals, newest
// first. Each has its own limit, so that a burst of refusals does not hide the runs.
func (RuleRuns) LastRuns(q db.Queryer, rule string, limit int) ([]environment.Run, error) {
	// The message of a run may have joined another request: prefer that request.
	scan := func(rows scanner) (r environment.Run, err error) {
		return r, rows.Scan(&r.Rule, &r.EventID, &r.Type, &r.SessionID, &r.MessageID, &r.RequestID, &r.Outcome, &r.Depth, &r.At, &r.Error)
	}
	out, err := collect(q, scan, `SELECT `+runColumns+`, error FROM (SELECT * FROM (
			SELECT r.rule, r.event_id, r.type, r.session_id, r.message_id, COALESCE(m.request_id, r.request_id) AS request_id, r.outcome, r.depth, r.at, '' AS error, r.id
			FROM rule_runs r LEFT JOIN session_inbox m ON m.session_id = r.session_id AND m.message_id = r.message_id
			WHERE r.rule = ?1 ORDER BY r.id DESC LIMIT ?2
		) AS runs UNION ALL SELECT * FROM (
			SELECT rule, event_id, type, session_id, '', '', outcome, depth, at, error, id
			FROM rule_refusals WHERE rule = ?1 ORDER BY id DESC LIMIT ?2
		) AS refusals) AS both_kinds ORDER BY at DESC, id DESC`, rule, pageSize(limit))
	return out, wrap("read rule runs", err)
}

// CountsOf returns the number of each outcome of a rule since the day of since, and the
// usage of its runs in the 24 hours after since.
func (RuleRuns) CountsOf(q db.Queryer, rule string, since time.Time) (map[string]int64, environment.Budget, error) {
	type count struct {
		outcome string
		n       int64
	}
	counts, err := collect(q, func(rows scanner) (c count, err error) { return c, rows.Scan(&c.outcome, &c.n) },
		`SELECT outcome, SUM(n) FROM rule_counts WHERE rule = ? AND day >= ? GROUP BY outcome`, rule, since.UnixMilli()/dayMillis)
	if err != nil {
		return nil, environment.Budget{}, wrap("read counts of rule", err)
	}
	out := map[string]int64{}
	for _, c := range counts {
		out[c.outcome] = c.n
	}
	b, err := usageOfRuns(q, rule, "", since.UnixMilli())
	if err != nil {
		return nil, b, wrap("sum what runs used", err)
	}
	b.Runs = out[environment.OutcomeAgent] + out[environment.OutcomePublished] + out[environment.OutcomeWorkflow]
	return out, b, nil
}

// TrimRules deletes runs, refusals, events and counts from before a time, at most trimBatch
// of each. Call it again while more is true.
func (RuleRuns) TrimRules(tx *db.Tx, before time.Time) (more bool, err error) {
	return trimAll(tx, before, map[string]string{
		"runs of rules":     `DELETE FROM rule_runs WHERE id IN (SELECT id FROM rule_runs WHERE at < ? ORDER BY at LIMIT ?)`,
		"refusals of rules": `DELETE FROM rule_refusals WHERE id IN (SELECT id FROM rule_refusals WHERE at < ? LIMIT ?)`,
		"events of rules": `DELETE FROM rule_events WHERE (session_id, event_id) IN
			(SELECT session_id, event_id FROM rule_events WHERE at < ? ORDER BY at LIMIT ?)`,
		"counts of rules": `DELETE FROM rule_counts WHERE (rule, day, session_id, outcome) IN
			(SELECT rule, day, session_id, outcome FROM rule_counts WHERE day < ? / 86400000 ORDER BY day LIMIT ?)`,
	})
}

// ClientOf returns the client of a session and whether the session exists.
func (Sessions) ClientOf(q db.Queryer, sessionID string) (client string, known bool, err error) {
	err = q.QueryRow(`SELECT client FROM sessions WHERE id = ?`, sessionID).Scan(&client)
	if errors.Is(err, db.ErrNoRows) {
		return "", false, nil
	}
	return client, err == nil, wrap("look up session", err)
}

// SessionTitled returns the id of the most recently updated session with a title, or "". It
// skips sessions of the given platforms whose title begins with #, because that is a
// channel name, which is not unique. It also skips sessions of sub-agents, because the
// agent chooses their titles and users do not see them.
func (Sessions) SessionTitled(q db.Queryer, title string, platforms []string) (id string, err error) {
	clients, err := json.Marshal(append([]string{}, platforms...))
	if err != nil {
		return "", fmt.Errorf("encode platforms: %w", err)
	}
	err = q.QueryRow(`SELECT id FROM sessions WHERE title = ? AND client <> '`+task.Client+`' AND NOT (title LIKE '#%' AND client IN (SELECT value FROM json_each(?))) ORDER BY updated_at DESC, id LIMIT 1`, title, string(clients)).Scan(&id)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return id, wrap("look up session by title", err)
}
