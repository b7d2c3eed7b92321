package app

import (
	"context"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/store"
)

const (
	// cleanFirst is how long after the start what is over age is removed first: the
	// start has enough to do, and who starts anew each hour cleans, too.
	cleanFirst = 2 * time.Minute
	// cleanInterval is how often it is removed from then on.
	cleanInterval = time.Hour
	// inboxAge is how long an external id is remembered: longer than the bus
	// keeps events, so that one which is still there cannot be accepted twice.
	inboxAge = 30 * 24 * time.Hour
	// workflowAge is how long a workflow that has ended is remembered: as long
	// is a late reply to what it asked its own.
	workflowAge = 30 * 24 * time.Hour
	// outboxAge is how long it is remembered which row made a message of ours.
	outboxAge = 30 * 24 * time.Hour
	// relayAge is how long it is remembered how an answer was shown: longer than
	// the bus keeps events, so that none is shown a second time.
	relayAge = 30 * 24 * time.Hour
	// forwardedAge is how long it is remembered that a session's history holds a
	// message. A reply to an older one repeats it.
	forwardedAge = 90 * 24 * time.Hour
	// routerAge is how long it is kept what the router knows of a session in
	// which nothing happens.
	routerAge = 90 * 24 * time.Hour
	// callsAge is how long it is kept what operators' tokens called.
	callsAge = 90 * 24 * time.Hour
)

// clean calls remove, which removes what is over age, until ctx ends.
func clean(ctx context.Context, remove func(context.Context)) error {
	next := time.NewTimer(cleanFirst)
	defer next.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-next.C:
			remove(ctx)
			next.Reset(cleanInterval)
		}
	}
}

// removeOld removes what is over age now.
func (p *program) removeOld(ctx context.Context) {
	p.trim(ctx, "rules", func(tx *db.Tx) (bool, error) { return p.store.RuleRuns.TrimRules(tx, tx.Now().Add(-inboxAge)) })
	p.trim(ctx, "workflows", func(tx *db.Tx) (bool, error) { return p.store.Workflows.TrimWorkflows(tx, tx.Now().Add(-workflowAge)) })
	p.trim(ctx, "inbox", func(tx *db.Tx) (bool, error) { return p.store.Inbox.TrimInbox(tx, tx.Now().Add(-inboxAge)) })
	p.trim(ctx, "relays", func(tx *db.Tx) (bool, error) { return p.store.Relays.TrimRelays(tx, tx.Now().Add(-relayAge)) })
	p.trim(ctx, "forwarded messages", func(tx *db.Tx) (bool, error) { return p.store.Forwarded.TrimForwarded(tx, tx.Now().Add(-forwardedAge)) })
	p.trim(ctx, "router states", func(tx *db.Tx) (bool, error) {
		return p.store.RouterStates.TrimRouterStates(tx, tx.Now().Add(-routerAge))
	})
	p.trim(ctx, "calls", func(tx *db.Tx) (bool, error) { return store.OperatorTokens{}.TrimCalls(tx, tx.Now().Add(-callsAge)) })
	p.trim(ctx, "outbox", func(tx *db.Tx) (bool, error) { return store.Outbox{}.Trim(tx, tx.Now().Add(-outboxAge)) })
	for _, s := range p.platforms {
		p.trim(ctx, "messages", func(tx *db.Tx) (bool, error) {
			set := p.now.Load().config.Surface.Discord.Cache
			return store.SurfaceCache{}.TrimMessages(tx, s.adapter.Platform(), tx.Now().Add(-time.Duration(set.Age)), set.Messages)
		})
		p.trim(ctx, "people", func(tx *db.Tx) (bool, error) { // there are not more than what they said
			set := p.now.Load().config.Surface.Discord.Cache
			return store.SurfaceCache{}.TrimUsers(tx, s.adapter.Platform(), tx.Now().Add(-time.Duration(set.Age)), set.Messages)
		})
		p.trim(ctx, "conversations", func(tx *db.Tx) (bool, error) {
			c := p.now.Load().config
			return store.SurfaceCache{}.TrimSessions(tx, s.adapter.Platform(), tx.Now().Add(-time.Duration(c.Surface.Discord.Cache.Age)), c.Surface.Discord.Cache.Messages, namedSessions(c))
		})
	}
	p.sweep(ctx)
	keep := time.Duration(p.now.Load().config.Tasks.Keep)
	if err := p.tasks.Trim(ctx, time.Now().Add(-keep)); err != nil && ctx.Err() == nil {
		p.Logger.Warn("what is over age could not be removed", "of", "tasks", "error", err)
	}
}

// trim removes what is over age, a piece at a time.
func (p *program) trim(ctx context.Context, what string, piece func(*db.Tx) (more bool, err error)) {
	for more := true; more; {
		err := p.db.Update(ctx, func(tx *db.Tx) (err error) {
			more, err = piece(tx)
			return err
		})
		if err != nil {
			if ctx.Err() == nil {
				p.Logger.Warn("what is over age could not be removed", "of", what, "error", err)
			}
			return
		}
	}
}
