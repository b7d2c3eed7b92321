package redisbus

import (
	"slices"

	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
)

// Migrations create the tables of the bus and of its outgoing rows.
var Migrations = slices.Concat(delivery.Migrations, []db.Migration{
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
	// A recovery reads the sent rows in the order of their positions.
	{Name: "redis.0002-places", SQL: `
DROP INDEX redis_outgoing_batch;
CREATE INDEX redis_outgoing_batch ON redis_outgoing (batch) WHERE pos > 0;
CREATE INDEX redis_outgoing_pos ON redis_outgoing (pos) WHERE pos > 0;
`},
})
