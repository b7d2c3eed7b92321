package delivery

import "lilac/internal/engine/db"

// Migrations create the tables of the bus; [db.Open] applies them.
var Migrations = []db.Migration{
	{Name: "bus.0001-log-groups-dead-letters", SQL: `
CREATE TABLE bus_topics (
	id          INTEGER PRIMARY KEY AUTOINCREMENT,
	name        TEXT NOT NULL UNIQUE,
	output      INTEGER NOT NULL,
	last_append INTEGER NOT NULL,          -- ms, refreshed at most every ten minutes
	trimmed     INTEGER NOT NULL DEFAULT 0, -- everything up to here was removed
	expired     INTEGER NOT NULL DEFAULT 0  -- an output topic that was removed as a whole
) STRICT;
CREATE INDEX bus_topics_expiry ON bus_topics (last_append) WHERE output = 1;

-- pos is the topic's id and the place within it in one number, so a topic is
-- contiguous on disk and reading it needs no index of its own.
CREATE TABLE bus_log (
	pos     INTEGER PRIMARY KEY,
	topic   INTEGER NOT NULL,
	id      TEXT NOT NULL,
	type    TEXT NOT NULL,
	ts      INTEGER NOT NULL,
	key     TEXT NOT NULL,
	lane    TEXT NOT NULL,
	headers BLOB,
	data    BLOB NOT NULL,
	at      INTEGER NOT NULL, -- ms, when it was appended
	sum     INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX bus_log_id ON bus_log (topic, id);

CREATE TABLE bus_groups (
	id      INTEGER PRIMARY KEY AUTOINCREMENT,
	topic   INTEGER NOT NULL REFERENCES bus_topics (id),
	name    TEXT NOT NULL,
	mode    TEXT NOT NULL,
	cursor  INTEGER NOT NULL, -- everything up to here is committed or pending
	seen_at INTEGER NOT NULL, -- ms, when a consumer was last attached
	UNIQUE (topic, name)
) STRICT;

CREATE TABLE bus_pending (
	grp         INTEGER NOT NULL REFERENCES bus_groups (id),
	seq         INTEGER NOT NULL,
	attempt     INTEGER NOT NULL,
	consumer    TEXT NOT NULL,
	lease_until INTEGER NOT NULL,
	not_before  INTEGER NOT NULL,
	reason      TEXT NOT NULL,
	event       BLOB, -- set on a replay, which does not need the log
	PRIMARY KEY (grp, seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE bus_dead_letters (
	id       TEXT PRIMARY KEY,
	grp      TEXT NOT NULL,
	topic    TEXT NOT NULL,
	seq      INTEGER NOT NULL,
	event    BLOB NOT NULL,
	reason   TEXT NOT NULL,
	attempts INTEGER NOT NULL,
	at       INTEGER NOT NULL,
	sum      INTEGER NOT NULL
) STRICT;
`},
	{Name: "bus.0002-lane-of-pending", SQL: `
-- The lane is kept here, so that a group can be loaded without its log.
ALTER TABLE bus_pending ADD COLUMN lane TEXT NOT NULL DEFAULT '';
UPDATE bus_pending SET lane = ifnull((SELECT l.lane FROM bus_groups g JOIN bus_log l ON l.pos = (g.topic << 32 | bus_pending.seq)
	WHERE g.id = bus_pending.grp), '');
`, Postgres: `ALTER TABLE bus_pending ADD COLUMN lane TEXT COLLATE "C" NOT NULL DEFAULT ''`},
	{Name: "bus.0003-seal-dead-letters", Then: sealDeadLetters},
	{Name: "bus.0004-seal-replays", SQL: `
ALTER TABLE bus_pending ADD COLUMN sum INTEGER; -- of the event of a replay; none in rows of before
`},
}
