package redisbus

import (
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// EngineName names this engine in [delivery.Switching].
const EngineName = "redis"

// Unfinished counts the outgoing rows that were not sent, or whose event a group has
// not committed. Every event of a handled topic has a row until it is committed.
func Unfinished(q db.Queryer) (n int64, err error) {
	err = q.QueryRow(`SELECT count(*) FROM redis_outgoing o WHERE pos = 0 OR pos > 0 AND EXISTS (
		SELECT 1 FROM bus_topics t JOIN bus_groups g ON g.topic = t.id WHERE t.name = o.topic AND g.cursor < o.pos)`).Scan(&n)
	return n, err
}

// End returns the beginning of the next epoch. This position is after all events that
// were ever sent and before all future ones.
func End(q db.Queryer, _ event.Topic) (int64, error) {
	var epoch int64
	err := q.QueryRow("SELECT epoch FROM redis_state").Scan(&epoch)
	return makePosition(epoch+1, 0), err
}

// Unsent reports whether an event was not sent to Redis yet, so no reader has seen it.
func Unsent(q db.Queryer, topic event.Topic, id string) (waits bool, err error) {
	err = q.QueryRow("SELECT EXISTS (SELECT 1 FROM redis_outgoing WHERE pos = 0 AND topic = ? AND id = ?)", string(topic), id).Scan(&waits)
	return waits, err
}
