package store

import (
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"lilac/internal/db"
	"lilac/internal/environment"
	"lilac/internal/event"
)

// rulesMigration keeps what rules did, what they wait for, and the events that
// the agent was told about. A count is of one rule, session, outcome and day.
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

const runColumns = `rule, event_id, type, session_id, message_id, request_id, outcome, depth, at`

// dayMillis is a day of a count, which begins at midnight UTC.
const dayMillis = 24 * 60 * 60 * 1000

// Handled reports whether a rule acted on the event.
func (s *Store) Handled(q db.Queryer, eventID string) (bool, error) {
	var n int
	err := q.QueryRow(`SELECT COUNT(*) FROM rule_runs WHERE event_id = ?`, eventID).Scan(&n)
	return n > 0, wrap("look up rule run", err)
}

// AddRun keeps what a rule did.
func (s *Store) AddRun(tx *db.Tx, r environment.Run) error {
	_, err := tx.Exec(`INSERT INTO rule_runs (`+runColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.Rule, r.EventID, string(r.Type), r.SessionID, r.MessageID, r.RequestID, r.Outcome, r.Depth, r.At)
	return wrap("keep rule run", err)
}

// KeepEvent keeps an event that the agent was told about in a session.
func (s *Store) KeepEvent(tx *db.Tx, sessionID string, e event.EnvEvent) error {
	raw, err := json.Marshal(e)
	if err != nil {
		return wrap("encode event", err)
	}
	_, err = tx.Exec(`INSERT INTO rule_events (session_id, event_id, at, json) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		sessionID, e.ID, tx.Now().UnixMilli(), raw)
	return wrap("keep event", err)
}

// KeptEvent returns an event that the agent was told about in the session.
func (s *Store) KeptEvent(q db.Queryer, sessionID, eventID string) (e event.EnvEvent, err error) {
	var raw []byte
	err = q.QueryRow(`SELECT json FROM rule_events WHERE session_id = ? AND event_id = ?`, sessionID, eventID).Scan(&raw)
	if err != nil {
		return e, wrap("read event", notFound(err, "There is no event %q in this session.", eventID))
	}
	return e, wrap("decode event", json.Unmarshal(raw, &e))
}

// DepthOf is the depth of the event that started a request; 0 if none did.
func (s *Store) DepthOf(q db.Queryer, requestID string) (depth int, err error) {
	err = q.QueryRow(`SELECT COALESCE(MAX(r.depth), 0) FROM rule_runs r
		LEFT JOIN session_inbox m ON m.session_id = r.session_id AND m.message_id = r.message_id
		WHERE r.request_id = ?1 OR m.request_id = ?1`, requestID).Scan(&depth)
	return depth, wrap("read depth", err)
}

// spentByRuns sums what the requests of runs used, each request once. A run
// whose message joined the request of a person used nothing of its own.
const spentByRuns = `SELECT COALESCE(SUM(json_extract(CAST(usage AS TEXT), '$.inputTokens') + json_extract(CAST(usage AS TEXT), '$.outputTokens')), 0),
	COALESCE(SUM(json_extract(CAST(usage AS TEXT), '$.costMicros')), 0)
	FROM requests WHERE id IN (
		SELECT COALESCE(m.request_id, r.request_id) FROM rule_runs r
		LEFT JOIN session_inbox m ON m.session_id = r.session_id AND m.message_id = r.message_id
		WHERE r.rule = ? AND r.at >= ? AND (? = '' OR r.session_id = ?)
	) AND id LIKE 'env:%'`

// UsedBy is what a rule did in a session since two moments.
func (s *Store) UsedBy(q db.Queryer, rule, sessionID string, recent, day time.Time) (u environment.Used, err error) {
	const runs = `SELECT COUNT(*) FROM rule_runs WHERE rule = ? AND session_id = ? AND at > ?`
	if err := q.QueryRow(runs, rule, sessionID, recent.UnixMilli()).Scan(&u.Recent); err != nil {
		return u, wrap("count recent runs", err)
	}
	if err := q.QueryRow(runs, rule, sessionID, day.UnixMilli()-1).Scan(&u.Runs); err != nil {
		return u, wrap("count runs of the day", err)
	}
	err = q.QueryRow(spentByRuns, rule, day.UnixMilli(), sessionID, sessionID).Scan(&u.Tokens, &u.CostMicros)
	return u, wrap("sum what runs used", err)
}

// CountOutcome counts an outcome and returns how often there was one that day.
func (s *Store) CountOutcome(tx *db.Tx, rule, sessionID, outcome string, at time.Time) (n int64, err error) {
	err = tx.QueryRow(`INSERT INTO rule_counts (rule, session_id, outcome, day, n) VALUES (?, ?, ?, ?, 1)
		ON CONFLICT DO UPDATE SET n = n + 1 RETURNING n`, rule, sessionID, outcome, at.UnixMilli()/dayMillis).Scan(&n)
	return n, wrap("count outcome of rule", err)
}

const waitColumns = `rule, session_id, first, due, json`

func scanWait(row scanner) (w environment.Wait, any bool, err error) {
	var raw []byte
	switch err = row.Scan(&w.Rule, &w.SessionID, &w.First, &w.Due, &raw); {
	case errors.Is(err, sql.ErrNoRows):
		return w, false, nil
	case err != nil:
		return w, false, wrap("read what waits", err)
	}
	return w, true, wrap("decode what waits", json.Unmarshal(raw, &w.Event))
}

// Waiting returns what waits for a rule and session, if anything does.
func (s *Store) Waiting(q db.Queryer, rule, sessionID string) (environment.Wait, bool, error) {
	return scanWait(q.QueryRow(`SELECT `+waitColumns+` FROM rule_waits WHERE rule = ? AND session_id = ?`, rule, sessionID))
}

// NextWait returns what is due first, if anything waits.
func (s *Store) NextWait(q db.Queryer) (environment.Wait, bool, error) {
	return scanWait(q.QueryRow(`SELECT ` + waitColumns + ` FROM rule_waits ORDER BY due LIMIT 1`))
}

// PutWait lets an event wait, in place of the one before.
func (s *Store) PutWait(tx *db.Tx, w environment.Wait) error {
	raw, err := json.Marshal(w.Event)
	if err != nil {
		return wrap("encode what waits", err)
	}
	_, err = tx.Exec(`INSERT INTO rule_waits (`+waitColumns+`) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET due = excluded.due, json = excluded.json`, w.Rule, w.SessionID, w.First, w.Due, raw)
	return wrap("keep what waits", err)
}

// DropWait forgets what waits for a rule and session.
func (s *Store) DropWait(tx *db.Tx, rule, sessionID string) error {
	_, err := tx.Exec(`DELETE FROM rule_waits WHERE rule = ? AND session_id = ?`, rule, sessionID)
	return wrap("forget what waits", err)
}

// LastRuns are the newest runs of a rule.
func (s *Store) LastRuns(q db.Queryer, rule string, limit int) ([]environment.Run, error) {
	out, err := collect(q, func(rows *sql.Rows) (r environment.Run, err error) {
		return r, rows.Scan(&r.Rule, &r.EventID, &r.Type, &r.SessionID, &r.MessageID, &r.RequestID, &r.Outcome, &r.Depth, &r.At)
	}, `SELECT `+runColumns+` FROM rule_runs WHERE rule = ? ORDER BY id DESC LIMIT ?`, rule, pageSize(limit))
	return out, wrap("read rule runs", err)
}

// CountsOf are the outcomes of a rule since the day of a moment, and what its
// runs have used.
func (s *Store) CountsOf(q db.Queryer, rule string, since time.Time) (map[string]int64, environment.Budget, error) {
	type count struct {
		outcome string
		n       int64
	}
	counts, err := collect(q, func(rows *sql.Rows) (c count, err error) { return c, rows.Scan(&c.outcome, &c.n) },
		`SELECT outcome, SUM(n) FROM rule_counts WHERE rule = ? AND day >= ? GROUP BY outcome`, rule, since.UnixMilli()/dayMillis)
	if err != nil {
		return nil, environment.Budget{}, wrap("read counts of rule", err)
	}
	out := map[string]int64{}
	for _, c := range counts {
		out[c.outcome] = c.n
	}
	var b environment.Budget
	if err := q.QueryRow(spentByRuns, rule, since.UnixMilli(), "", "").Scan(&b.Tokens, &b.CostMicros); err != nil {
		return nil, b, wrap("sum what runs used", err)
	}
	b.Runs = out[environment.OutcomeAgent] + out[environment.OutcomePublished]
	return out, b, nil
}

// TrimRules forgets what rules did before a time.
func (s *Store) TrimRules(tx *db.Tx, before time.Time) error {
	for _, statement := range []string{
		`DELETE FROM rule_runs WHERE at < ?1`, `DELETE FROM rule_events WHERE at < ?1`, `DELETE FROM rule_counts WHERE day < ?1 / 86400000`,
	} {
		if _, err := tx.Exec(statement, before.UnixMilli()); err != nil {
			return wrap("trim what rules did", err)
		}
	}
	return nil
}

// ClientOf returns the surface of a session, and whether it exists.
func (s *Store) ClientOf(q db.Queryer, sessionID string) (client string, known bool, err error) {
	err = q.QueryRow(`SELECT client FROM sessions WHERE id = ?`, sessionID).Scan(&client)
	if errors.Is(err, sql.ErrNoRows) {
		return "", false, nil
	}
	return client, err == nil, wrap("look up session", err)
}

// SessionTitled returns the newest session with a title, or "".
func (s *Store) SessionTitled(q db.Queryer, title string) (id string, err error) {
	err = q.QueryRow(`SELECT id FROM sessions WHERE title = ? ORDER BY updated_at DESC, id LIMIT 1`, title).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return id, wrap("look up session by title", err)
}
