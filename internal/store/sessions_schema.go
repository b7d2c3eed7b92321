package store

import "lilac/internal/engine/db"

var sessionsMigration = db.Migration{Name: "store.0001-sessions", SQL: `
CREATE TABLE sessions (
	id             TEXT PRIMARY KEY,
	client         TEXT NOT NULL,
	title          TEXT NOT NULL DEFAULT '',
	created_at     INTEGER NOT NULL,
	updated_at     INTEGER NOT NULL,
	state          TEXT NOT NULL DEFAULT 'idle',
	active_request TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX sessions_updated ON sessions (updated_at, id);

CREATE TABLE session_state (
	session_id TEXT PRIMARY KEY,
	json       BLOB NOT NULL,
	unfinished INTEGER NOT NULL,
	checksum   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX session_state_unfinished ON session_state (session_id) WHERE unfinished = 1;

CREATE TABLE session_inbox (
	session_id TEXT NOT NULL,
	message_id TEXT NOT NULL,
	request_id TEXT NOT NULL,
	queue      TEXT NOT NULL,
	state      TEXT NOT NULL,
	event_id   TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	json       BLOB NOT NULL,
	checksum   INTEGER NOT NULL,
	PRIMARY KEY (session_id, message_id)
) STRICT, WITHOUT ROWID;

CREATE TABLE history (
	session_id TEXT NOT NULL,
	seq        INTEGER NOT NULL,
	id         TEXT NOT NULL,
	request_id TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	json       BLOB NOT NULL,
	checksum   INTEGER NOT NULL,
	PRIMARY KEY (session_id, seq)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX history_id ON history (session_id, id);

CREATE TABLE compactions (
	session_id TEXT NOT NULL,
	seq        INTEGER NOT NULL,
	request_id TEXT NOT NULL,
	kept_from  INTEGER NOT NULL,
	created_at INTEGER NOT NULL,
	json       BLOB NOT NULL,
	checksum   INTEGER NOT NULL,
	PRIMARY KEY (session_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE requests (
	id         TEXT PRIMARY KEY,
	session_id TEXT NOT NULL,
	client     TEXT NOT NULL,
	state      TEXT NOT NULL,
	detail     TEXT NOT NULL DEFAULT '',
	created_at INTEGER NOT NULL,
	started_at INTEGER NOT NULL DEFAULT 0,
	ended_at   INTEGER NOT NULL DEFAULT 0,
	woken_by   TEXT NOT NULL DEFAULT '',
	steps      INTEGER NOT NULL DEFAULT 0,
	recoveries INTEGER NOT NULL DEFAULT 0,
	usage      BLOB NOT NULL,
	model      TEXT NOT NULL DEFAULT ''
) STRICT, WITHOUT ROWID;
CREATE INDEX requests_session ON requests (session_id, created_at, id);
CREATE INDEX requests_created ON requests (created_at, id);
CREATE INDEX requests_running ON requests (session_id, id) WHERE state IN ('running', 'streaming');

CREATE TABLE journal (
	request_id TEXT NOT NULL,
	seq        INTEGER NOT NULL,
	at         INTEGER NOT NULL,
	step       INTEGER NOT NULL,
	kind       TEXT NOT NULL,
	data       BLOB NOT NULL,
	checksum   INTEGER NOT NULL,
	PRIMARY KEY (request_id, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE usage_daily (
	day                TEXT PRIMARY KEY,
	input_tokens       INTEGER NOT NULL,
	output_tokens      INTEGER NOT NULL,
	cache_read_tokens  INTEGER NOT NULL,
	cache_write_tokens INTEGER NOT NULL,
	cost_micros        INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`}

var choiceMigration = db.Migration{Name: "store.0011-session-choice", SQL: `
ALTER TABLE sessions ADD COLUMN choice TEXT NOT NULL DEFAULT '';
`}

// workspacesMigration records that the conversations from before conversations had workspaces of
// their own work in the shared one.
var workspacesMigration = db.Migration{Name: "store.0042-workspaces", SQL: `
UPDATE sessions SET choice = CASE WHEN choice = '' THEN '{"workspace":"shared"}' ELSE '{"workspace":"shared",' || substr(choice, 2) END;
`}

var filingMigration = db.Migration{Name: "store.0044-filing", SQL: `
ALTER TABLE sessions ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;
ALTER TABLE sessions ADD COLUMN folder TEXT NOT NULL DEFAULT '';
CREATE INDEX sessions_pinned ON sessions (updated_at, id) WHERE pinned = 1;
`}

// lookupsMigration adds indexes, so that no statement reads a whole table that grows.
var lookupsMigration = db.Migration{Name: "store.0046-lookups", SQL: `
CREATE INDEX sessions_title ON sessions (title);
CREATE INDEX session_inbox_request ON session_inbox (request_id) WHERE request_id <> '';
CREATE INDEX rule_runs_message ON rule_runs (session_id, message_id) WHERE message_id <> '';
CREATE INDEX rule_runs_day ON rule_runs (rule, at);
CREATE INDEX router_forwarded_session ON router_forwarded (session_id);
CREATE INDEX tool_calls_at ON tool_calls (at);
CREATE INDEX account_log_at ON account_log (at);
`}

var errorKindMigration = db.Migration{Name: "store.0002-error-kind", SQL: `
ALTER TABLE requests ADD COLUMN error_kind TEXT NOT NULL DEFAULT '';
`}

var budgetsMigration = db.Migration{Name: "store.0004-budgets", SQL: `
ALTER TABLE sessions ADD COLUMN paused TEXT NOT NULL DEFAULT '';
ALTER TABLE usage_daily ADD COLUMN steps INTEGER NOT NULL DEFAULT 0;
ALTER TABLE usage_daily ADD COLUMN time_ms INTEGER NOT NULL DEFAULT 0;
CREATE TABLE usage_sessions (
	session_id         TEXT PRIMARY KEY,
	steps              INTEGER NOT NULL,
	input_tokens       INTEGER NOT NULL,
	output_tokens      INTEGER NOT NULL,
	cache_read_tokens  INTEGER NOT NULL,
	cache_write_tokens INTEGER NOT NULL,
	cost_micros        INTEGER NOT NULL,
	time_ms            INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`}
