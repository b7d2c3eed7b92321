package delivery

import (
	"context"
	"errors"
	"fmt"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// Switching describes how a database switches to another engine.
type Switching struct {
	// Name is the name of the new engine.
	Name string
	// Unfinished maps the name of an engine to a function that counts the events in
	// its log that a group has not committed.
	Unfinished map[string]func(q db.Queryer) (int64, error)
	// End returns the end of a topic in the new log, where the topic's groups start.
	End func(q db.Queryer, topic event.Topic) (int64, error)
}

// Switch makes another engine take over the groups. Call it before you open that engine.
// It fails if [Switching.Allowed] does.
func Switch(ctx context.Context, database *db.DB, s Switching) error {
	return database.Update(ctx, func(tx *db.Tx) error {
		before, err := engineBefore(tx)
		if err != nil || before == s.Name {
			return err
		}
		if err := s.Allowed(tx); err != nil {
			return err
		}
		if err := s.change(tx); err != nil {
			return err
		}
		if _, err = tx.Exec("INSERT INTO meta (name, value) VALUES ('bus_engine', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", s.Name); err != nil {
			return err
		}
		_, err = tx.Exec("INSERT INTO meta (name, value) VALUES ('bus_changes', '1') ON CONFLICT (name) DO UPDATE SET value = CAST(CAST(meta.value AS INTEGER) + 1 AS TEXT)")
		return err
	})
}

// Changes returns how often the engine was switched. Positions from before a switch are
// meaningless, even if they look like positions of the current engine.
func Changes(ctx context.Context, database *db.DB) (n int64, err error) {
	err = database.Read(ctx, func(q db.Queryer) error {
		err := q.QueryRow("SELECT CAST(value AS INTEGER) FROM meta WHERE name = 'bus_changes'").Scan(&n)
		if errors.Is(err, db.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("read how often the engine of the bus changed: %w", err)
	}
	return n, nil
}

func engineBefore(q db.Queryer) (name string, err error) {
	err = q.QueryRow("SELECT value FROM meta WHERE name = 'bus_engine'").Scan(&name)
	if errors.Is(err, db.ErrNoRows) {
		return "sqlite", nil // once the only engine, so its name was not stored
	}
	if err != nil {
		return "", fmt.Errorf("read the engine of the bus: %w", err)
	}
	return name, nil
}

// Allowed returns a fault.Conflict while the log of the previous engine has unhandled
// events, because the new engine would never see them.
func (s Switching) Allowed(q db.Queryer) error {
	before, err := engineBefore(q)
	if err != nil || before == s.Name {
		return err
	}
	var pending, unread int64
	if err := q.QueryRow("SELECT count(*) FROM bus_pending WHERE event IS NULL").Scan(&pending); err != nil {
		return fmt.Errorf("count pending events: %w", err)
	}
	if count := s.Unfinished[before]; count != nil {
		if unread, err = count(q); err != nil {
			return fmt.Errorf("count events that were not handled: %w", err)
		}
	}
	if n := max(pending, unread); n > 0 {
		return fault.New(fault.Conflict,
			"%d events in the bus that was used before (%s) were not handled. Start once with it, let them be handled, stop, and change bus.url then.", n, before)
	}
	return nil
}

// change moves the cursors of all groups to the end of the new log.
func (s Switching) change(tx *db.Tx) error {
	rows, err := tx.Query("SELECT g.id, t.name FROM bus_groups g JOIN bus_topics t ON t.id = g.topic")
	if err != nil {
		return err
	}
	groups := map[int64]event.Topic{}
	for rows.Next() {
		var id int64
		var topic event.Topic
		if err := rows.Scan(&id, &topic); err != nil {
			return errors.Join(err, rows.Close())
		}
		groups[id] = topic
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return err
	}
	for id, topic := range groups {
		end, err := s.End(tx, topic)
		if err != nil {
			return fmt.Errorf("find the end of %s: %w", topic, err)
		}
		if _, err := tx.Exec("UPDATE bus_groups SET cursor = ? WHERE id = ?", end, id); err != nil {
			return err
		}
	}
	return nil
}
