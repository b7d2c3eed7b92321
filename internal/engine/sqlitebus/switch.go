package sqlitebus

import (
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// EngineName names this engine in [delivery.Switching].
const EngineName = "sqlite"

// Unfinished counts the events in the log after the cursor of a group.
func Unfinished(q db.Queryer) (n int64, err error) {
	err = q.QueryRow(`SELECT count(*) FROM bus_groups g JOIN bus_log l
		ON l.pos > (g.topic << 32 | g.cursor) AND l.pos <= (g.topic << 32 | 4294967295)`).Scan(&n)
	return n, err
}

// End returns the end of a topic in the log.
func End(q db.Queryer, topic event.Topic) (int64, error) {
	info, err := findTopic(q, topic)
	return info.last, err
}
