package delivery

import (
	"errors"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

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
	// Redis was once able to hold the log.
	{Name: "redis.0001-outgoing", SQL: `
CREATE TABLE redis_state (
	id    INTEGER PRIMARY KEY CHECK (id = 1),
	epoch INTEGER NOT NULL -- how often a process took the Redis prefix
) STRICT;
INSERT INTO redis_state (id, epoch) VALUES (1, 0);

CREATE TABLE redis_outgoing (
	row     INTEGER PRIMARY KEY AUTOINCREMENT, -- the order of the commits
	topic   TEXT NOT NULL,
	id      TEXT NOT NULL,
	head    BLOB NOT NULL,
	data    BLOB NOT NULL,
	sum     INTEGER NOT NULL,
	pos     INTEGER NOT NULL DEFAULT 0, -- its place in the topic; 0 until it was sent, -1 when it is damaged
	batch   INTEGER NOT NULL DEFAULT 0, -- the batch that it was sent in
	sent_at INTEGER NOT NULL DEFAULT 0  -- ms
) STRICT;
CREATE INDEX redis_outgoing_unsent ON redis_outgoing (row) WHERE pos = 0;
CREATE INDEX redis_outgoing_batch ON redis_outgoing (batch);
`},
	{Name: "redis.0002-places", SQL: `
DROP INDEX redis_outgoing_batch;
CREATE INDEX redis_outgoing_batch ON redis_outgoing (batch) WHERE pos > 0;
CREATE INDEX redis_outgoing_pos ON redis_outgoing (pos) WHERE pos > 0;
`},
	{Name: "bus.0005-log-in-the-database", SQL: `
DROP TABLE redis_outgoing;
DROP TABLE redis_state;
`, Then: refuseLogElsewhere},
	{Name: "bus.0006-topics-by-state", SQL: `
-- Removed outputs are remembered for a month, so that there are many more of them than of others.
DROP INDEX bus_topics_expiry;
CREATE INDEX bus_topics_expiry ON bus_topics (expired, last_append) WHERE output = 1;
CREATE INDEX bus_topics_lasting ON bus_topics (id) WHERE output = 0;
`},
}

// refuseLogElsewhere refuses a database whose log is in Redis, because its groups and
// readers would miss what is there.
func refuseLogElsewhere(tx *db.Tx) error {
	var name string
	err := tx.QueryRow("SELECT value FROM meta WHERE name = 'bus_engine'").Scan(&name)
	switch {
	case errors.Is(err, db.ErrNoRows):
		return nil
	case err != nil:
		return err
	case name != "sqlite":
		return fault.New(fault.Conflict, "The events of this database are in Redis, which cannot hold them any more. Start the version that wrote it, without bus.url, "+
			"once all events are handled (lilac groups list); then start this version.")
	}
	return nil
}
