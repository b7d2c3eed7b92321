package delivery

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/order"
)

// Defaults of a [bus.Subscription], as documented there.
const (
	defaultParallel    = 16
	defaultLease       = 30 * time.Second
	defaultTimeout     = 60 * time.Second
	defaultMaxAttempts = 5
	firstBackoff       = 100 * time.Millisecond
	maxBackoff         = 30 * time.Second
)

func withDefaults(s bus.Subscription) (bus.Subscription, error) {
	switch {
	case s.Topic == "":
		return s, fault.InvalidField("topic", "A subscription needs a topic.")
	case s.Group == "":
		return s, fault.InvalidField("group", "A subscription to %s needs a group.", s.Topic)
	case s.Mode == "":
		s.Mode = bus.Work
	case s.Mode != bus.Work && s.Mode != bus.Fanout:
		return s, fault.InvalidField("mode", "%q is not a mode of a subscription.", s.Mode)
	}
	if s.Consumer == "" {
		s.Consumer = "main"
	}
	if s.Parallel <= 0 {
		s.Parallel = defaultParallel
	}
	if s.Lease <= 0 {
		s.Lease = defaultLease
	}
	if s.Timeout <= 0 {
		s.Timeout = defaultTimeout
	}
	if s.MaxAttempts <= 0 {
		s.MaxAttempts = defaultMaxAttempts
	}
	if s.Backoff == nil {
		s.Backoff = backoff
	}
	return s, nil
}

// backoff returns the delay before the n-th retry: 100 ms · 4^(n-1), at most 30 s.
func backoff(retry int) time.Duration {
	d := firstBackoff
	for range retry - 1 {
		if d *= 4; d >= maxBackoff {
			return maxBackoff
		}
	}
	return d
}

// Declare retries while the database cannot be written, because it runs at startup,
// where an error ends the program.
const (
	declareTries = 3
	declarePause = time.Second
)

// Declare creates the group if it does not exist, so that it gets every event that is
// published later.
func (b *Engine) Declare(ctx context.Context, s bus.Subscription) error {
	s, err := withDefaults(s)
	if err != nil {
		return err
	}
	for n := 1; ; n++ {
		if err := b.declare(ctx, s); n == declareTries || !db.IsEngineError(err) {
			return err
		}
		b.log.Warn("a group could not be declared, which is tried again", "topic", s.Topic, "group", s.Group)
		if !delay.Wait(ctx, declarePause) {
			return ctx.Err()
		}
	}
}

func (b *Engine) declare(ctx context.Context, s bus.Subscription) error {
	if known, err := b.declareAgain(ctx, s); known || err != nil {
		return err
	}
	info, err := b.events.Topic(ctx, s.Topic)
	if err != nil {
		return fmt.Errorf("declare group %s of %s: %w", s.Group, s.Topic, err)
	}
	cursor := info.Last
	if s.FromBegin {
		cursor = info.Trimmed
	}
	err = b.db.Update(ctx, func(tx *db.Tx) error {
		at := b.opt.Now().UnixMilli()
		id, err := EnsureTopic(tx, s.Topic, at)
		if err != nil {
			return err
		}
		_, err = tx.Exec(`INSERT INTO bus_groups (topic, name, mode, cursor, seen_at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (topic, name) DO UPDATE SET seen_at = excluded.seen_at`, id, s.Group, string(s.Mode), cursor, at)
		return err
	})
	if err != nil {
		return fmt.Errorf("declare group %s of %s: %w", s.Group, s.Topic, err)
	}
	return nil
}

// declareAgain records that an existing group is declared again. It does not need the
// log, which may be unavailable.
func (b *Engine) declareAgain(ctx context.Context, s bus.Subscription) (known bool, err error) {
	err = b.db.Update(ctx, func(tx *db.Tx) error {
		id, err := findGroup(tx, s.Topic, s.Group)
		if fault.KindOf(err) == fault.NotFound {
			return nil
		}
		if err != nil {
			return err
		}
		known = true
		_, err = tx.Exec("UPDATE bus_groups SET seen_at = ? WHERE id = ?", b.opt.Now().UnixMilli(), id)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("declare group %s of %s: %w", s.Group, s.Topic, err)
	}
	return known, nil
}

// Subscribe declares the group and handles its events until ctx ends.
func (b *Engine) Subscribe(ctx context.Context, s bus.Subscription, h bus.Handler) error {
	s, err := withDefaults(s)
	if err != nil {
		return err
	}
	ctx, stop := b.untilClosed(ctx)
	defer stop()
	for {
		c := &consumer{sub: s, handler: h, ctx: ctx, drained: make(chan struct{})}
		g, err := b.join(ctx, c)
		if err != nil || g == nil {
			return err
		}
		select {
		case <-ctx.Done():
		case <-g.gaveUp: // join the next dispatcher
		}
		g.post(func() { g.detach(c) })
		<-c.drained
		b.leave(g)
		if ctx.Err() != nil {
			return nil
		}
	}
}

// join attaches a consumer to the group's dispatcher. The first consumer starts the
// dispatcher. join returns nil if ctx ended first.
func (b *Engine) join(ctx context.Context, c *consumer) (*group, error) {
	name, types := groupName{c.sub.Topic, c.sub.Group}, typeSet(c.sub.Types)
	for {
		b.mu.Lock()
		if b.closed {
			b.mu.Unlock()
			return nil, errClosed()
		}
		g, ok := b.groups[name]
		if ok && (g.users == 0 || g.broken()) { // its last consumer is leaving
			b.mu.Unlock()
			select {
			case <-g.ended:
				continue
			case <-ctx.Done():
				return nil, nil
			}
		}
		if ok && !slices.Equal(g.types, types) {
			b.mu.Unlock()
			return nil, otherTypes(name, g.types, types)
		}
		if !ok {
			g = newGroup(b, name, types)
			b.groups[name] = g
		}
		g.users++
		b.mu.Unlock()
		if !ok {
			g.startErr = g.start(c.sub)
			close(g.loaded)
		}
		<-g.loaded
		if g.startErr != nil {
			b.leave(g)
			if ctx.Err() != nil {
				return nil, nil
			}
			return nil, g.startErr
		}
		g.post(func() { g.attach(c) })
		return g, nil
	}
}

// typeSet returns the types of a subscription, sorted and without duplicates.
func typeSet(types []event.Type) []event.Type {
	return slices.Compact(slices.Sorted(slices.Values(types)))
}

func otherTypes(name groupName, has, wants []event.Type) error {
	return &fault.Error{Kind: fault.Conflict, Code: "other_types", Field: "types", Message: fmt.Sprintf(
		"The group %s of %s is served for the types %v; a consumer for %v cannot share it. Give it a group of its own.",
		name.name, name.topic, has, wants)}
}

// leave stops the dispatcher when its last consumer has left, and waits for it.
func (b *Engine) leave(g *group) {
	b.mu.Lock()
	g.users--
	last := g.users == 0
	b.mu.Unlock()
	if !last {
		return
	}
	g.end()
	b.mu.Lock()
	delete(b.groups, g.name)
	b.mu.Unlock()
	close(g.ended)
}

// Groups returns the status of every group.
func (b *Engine) Groups(ctx context.Context) ([]bus.GroupStatus, error) {
	type place struct{ cursor, oldest, seen int64 }
	var out []bus.GroupStatus
	var places []place
	err := b.db.Read(ctx, func(q db.Queryer) error {
		rows, err := q.Query(`SELECT t.name, g.name, g.mode, g.cursor, g.seen_at,
				(SELECT count(*) FROM bus_pending p WHERE p.grp = g.id),
				coalesce((SELECT min(seq) FROM bus_pending p WHERE p.grp = g.id), g.cursor + 1)
			FROM bus_groups g JOIN bus_topics t ON t.id = g.topic`)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var s bus.GroupStatus
			var at place
			if err := rows.Scan(&s.Topic, &s.Group, &s.Mode, &at.cursor, &at.seen, &s.Pending, &at.oldest); err != nil {
				return err
			}
			out, places = append(out, s), append(places, at)
		}
		return rows.Err()
	})
	if err != nil {
		return nil, fmt.Errorf("list groups: %w", err)
	}
	now := b.opt.Now().UnixMilli()
	for i, at := range places {
		if err := b.lag(ctx, &out[i], at.cursor, at.oldest, now); err != nil {
			return nil, fmt.Errorf("look how far group %s of %s is: %w", out[i].Group, out[i].Topic, err)
		}
	}
	for i := range out {
		if out[i].Active = b.attached(out[i].Topic, out[i].Group) != nil; !out[i].Active {
			out[i].SilentMS = max(0, now-places[i].seen)
		}
	}
	// The database would read all topics to sort by their names.
	order.By(out, func(a, b bus.GroupStatus) int {
		return cmp.Or(strings.Compare(string(a.Topic), string(b.Topic)), strings.Compare(a.Group, b.Group))
	})
	return out, nil
}

// lag sets the fields of a group's status that depend on the log.
func (b *Engine) lag(ctx context.Context, s *bus.GroupStatus, cursor, oldest, now int64) error {
	info, err := b.events.Topic(ctx, s.Topic)
	if err != nil {
		return err
	}
	if s.Backlog = b.events.Distance(max(cursor, info.Trimmed), info.Last); s.Backlog == 0 && s.Pending == 0 {
		return nil
	}
	at, err := b.events.Appended(ctx, s.Topic, oldest)
	if err != nil {
		return err
	}
	if at > 0 {
		s.OldestMS = max(0, now-at)
	}
	return nil
}

func (b *Engine) attached(topic event.Topic, name string) *group {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.groups[groupName{topic, name}]
}

// DropGroup deletes a group. It fails if the group has a consumer in this process.
func (b *Engine) DropGroup(ctx context.Context, topic event.Topic, name string) error {
	return b.db.Update(ctx, func(tx *db.Tx) error {
		// Check within the transaction: a consumer is attached before it declares its
		// group, so a consumer that comes later creates the group again.
		if b.attached(topic, name) != nil {
			return fault.New(fault.Conflict, "The group %s of %s is being served; it cannot be dropped.", name, topic)
		}
		id, err := findGroup(tx, topic, name)
		if err != nil {
			return err
		}
		for _, query := range []string{"DELETE FROM bus_pending WHERE grp = ?", "DELETE FROM bus_groups WHERE id = ?"} {
			if _, err := tx.Exec(query, id); err != nil {
				return fmt.Errorf("drop group: %w", err)
			}
		}
		return nil
	})
}

func findGroup(q db.Queryer, topic event.Topic, name string) (id int64, err error) {
	err = q.QueryRow(`SELECT g.id FROM bus_groups g JOIN bus_topics t ON t.id = g.topic WHERE t.name = ? AND g.name = ?`,
		string(topic), name).Scan(&id)
	if errors.Is(err, db.ErrNoRows) {
		return 0, fault.New(fault.NotFound, "There is no group %s of %s.", name, topic)
	}
	if err != nil {
		return 0, fmt.Errorf("find group: %w", err)
	}
	return id, nil
}
