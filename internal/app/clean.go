package app

import (
	"context"
	"time"

	"lilac/internal/core/account"
	"lilac/internal/engine/db"
	"lilac/internal/store"
)

const (
	// cleanFirst is the delay of the first cleanup. The cleanup does not slow down the start,
	// but still happens if the program restarts every hour.
	cleanFirst = 2 * time.Minute
	// cleanInterval is the interval between later cleanups.
	cleanInterval = time.Hour
	// inboxAge is the retention of external event ids. It is longer than the retention of the
	// bus, so that an event that is still on the bus cannot be accepted twice.
	inboxAge = 30 * 24 * time.Hour
	// longTextAge is the retention of the long texts of deleted requests. It is longer than the 7 days
	// of the bus, whose events contain them.
	longTextAge = 8 * 24 * time.Hour
	// usageAge is the longest period that can be summed up.
	usageAge = 367 * 24 * time.Hour
	// workflowAge is the retention of workflows that have ended. During that time, a late
	// reply is still matched to its workflow.
	workflowAge = 30 * 24 * time.Hour
	// outboxAge is the retention of the mapping from sent messages to outbox rows.
	outboxAge = 30 * 24 * time.Hour
	// relayAge is the retention of the relay state of an answer. It is longer than the
	// retention of the bus, so that no answer is posted twice.
	relayAge = 30 * 24 * time.Hour
	// forwardedAge is the retention of the record that a session's history contains a
	// message. After that, a reply to the message adds it to the history again.
	forwardedAge = 90 * 24 * time.Hour
	// marksAge is the retention of marks on messages. No request waits that long.
	marksAge = 30 * 24 * time.Hour
	// routerAge is the retention of the router's state of an inactive session.
	routerAge = 90 * 24 * time.Hour
	// callsAge is the retention of the calls that were made with operators' tokens.
	callsAge = 90 * 24 * time.Hour
)

// clean calls remove, which deletes expired data, periodically until ctx ends.
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

// cleaner deletes expired data.
type cleaner struct{ *base }

// removeOld deletes all expired data.
func (c cleaner) removeOld(ctx context.Context) {
	c.trim(ctx, "rules", func(tx *db.Tx) (bool, error) { return c.store.RuleRuns.TrimRules(tx, tx.Now().Add(-inboxAge)) })
	c.trim(ctx, "workflows", func(tx *db.Tx) (bool, error) { return c.store.Workflows.TrimWorkflows(tx, tx.Now().Add(-workflowAge)) })
	c.trim(ctx, "usage", func(tx *db.Tx) (bool, error) { return c.store.Usage.TrimCalls(tx, tx.Now().Add(-usageAge)) })
	c.trim(ctx, "inbox", func(tx *db.Tx) (bool, error) { return c.store.Inbox.TrimInbox(tx, tx.Now().Add(-inboxAge)) })
	c.trim(ctx, "long texts", func(tx *db.Tx) (bool, error) { return c.store.Requests.TrimLongTexts(tx, tx.Now().Add(-longTextAge)) })
	c.trim(ctx, "relays", func(tx *db.Tx) (bool, error) { return c.store.Relays.TrimRelays(tx, tx.Now().Add(-relayAge)) })
	c.trim(ctx, "forwarded messages", func(tx *db.Tx) (bool, error) { return c.store.Forwarded.TrimForwarded(tx, tx.Now().Add(-forwardedAge)) })
	c.trim(ctx, "router states", func(tx *db.Tx) (bool, error) {
		return c.store.RouterStates.TrimRouterStates(tx, tx.Now().Add(-routerAge))
	})
	c.trim(ctx, "marks", func(tx *db.Tx) (bool, error) { return c.store.Marks.TrimMarks(tx, tx.Now().Add(-marksAge)) })
	c.trim(ctx, "calls", func(tx *db.Tx) (bool, error) { return store.OperatorTokens{}.TrimCalls(tx, tx.Now().Add(-callsAge)) })
	c.trim(ctx, "actions", func(tx *db.Tx) (bool, error) {
		return store.AccountLog{}.TrimActions(tx, tx.Now().Add(-account.LogAge))
	})
	c.trim(ctx, "learned", func(tx *db.Tx) (bool, error) { return store.Learned{}.TrimLearned(tx, tx.Now().Add(-learnedAge)) })
	c.trim(ctx, "outbox", func(tx *db.Tx) (bool, error) { return store.Outbox{}.Trim(tx, tx.Now().Add(-outboxAge)) })
	for _, s := range c.platforms {
		c.trim(ctx, "messages", func(tx *db.Tx) (bool, error) {
			set := c.now.Load().config.Surface.Discord.Cache
			return store.SurfaceCache{}.TrimMessages(tx, s.adapter.Platform(), tx.Now().Add(-time.Duration(set.Age)), set.Messages)
		})
		c.trim(ctx, "people", func(tx *db.Tx) (bool, error) { // bounded by the number of cached messages
			set := c.now.Load().config.Surface.Discord.Cache
			return store.SurfaceCache{}.TrimUsers(tx, s.adapter.Platform(), tx.Now().Add(-time.Duration(set.Age)), set.Messages)
		})
		c.trim(ctx, "conversations", func(tx *db.Tx) (bool, error) {
			c := c.now.Load().config
			return store.SurfaceCache{}.TrimSessions(tx, s.adapter.Platform(), tx.Now().Add(-time.Duration(c.Surface.Discord.Cache.Age)), c.Surface.Discord.Cache.Messages, namedSessions(c))
		})
	}
	c.sweep(ctx)
	c.sweepDirs(ctx)
	keep := time.Duration(c.now.Load().config.Tasks.Keep)
	if err := c.tasks.Trim(ctx, time.Now().Add(-keep)); err != nil && ctx.Err() == nil {
		c.Logger.Warn("cannot delete expired data", "kind", "tasks", "error", err)
	}
}

// sweepDirs removes the home directories and the workspaces of deleted sessions.
func (c cleaner) sweepDirs(ctx context.Context) {
	for kind, dirs := range map[string]sessionDirs{"home directories": c.homes.sessionDirs, "workspaces": c.workspaces} {
		err := dirs.sweep(func(sessionID string) (there bool, err error) {
			err = c.db.Read(ctx, func(q db.Queryer) error {
				if _, there, err = c.store.Sessions.ClientOf(q, sessionID); err != nil || there {
					return err
				}
				there, err = store.Branches{}.HasFiles(q, sessionID)
				return err
			})
			return there, err
		})
		if err != nil && ctx.Err() == nil {
			c.Logger.Warn("what is over age could not be removed", "of", kind, "error", err)
		}
	}
}

// trim deletes expired rows in batches, so that no transaction blocks the writer for long.
func (c cleaner) trim(ctx context.Context, what string, piece func(*db.Tx) (more bool, err error)) {
	for more := true; more; {
		err := c.db.Update(ctx, func(tx *db.Tx) (err error) {
			more, err = piece(tx)
			return err
		})
		if err != nil {
			if ctx.Err() == nil {
				c.Logger.Warn("cannot delete expired data", "kind", what, "error", err)
			}
			return
		}
	}
}
