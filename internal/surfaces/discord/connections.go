package discord

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/fault"
)

// connections keeps the connections of the bot: one, until Discord demands more
// because the bot is in too many servers (close code 4011). The number is stored,
// because a session can only be resumed by a connection of as many.
type connections struct {
	o      Options
	status *status
	client *client
	// open returns the parts of a connection; sessions begin one at a time, by turns.
	open func(on *shard, turn chan struct{}) (*gateway, *pipeline)
}

// run returns when ctx ends, or when a retry cannot help.
func (c *connections) run(ctx context.Context) error {
	for {
		states := c.status.snapshot().Shards()
		if err := c.keep(ctx, states); !errors.Is(err, errTooManyServers) {
			return err
		}
		if err := c.divide(ctx, len(states)); err != nil {
			return err
		}
	}
}

// keep runs the connections until ctx ends or one of them cannot continue.
func (c *connections) keep(ctx context.Context, states []ShardState) error {
	group, running := errgroup.WithContext(ctx)
	turn := make(chan struct{}, 1)
	shards, pipelines := make([]*shard, len(states)), make([]*pipeline, len(states))
	gateways := make([]*gateway, len(states))
	for i, s := range states {
		shards[i] = &shard{id: i, count: len(states), heardAt: s.HeardAt}
		gateways[i], pipelines[i] = c.open(shards[i], turn)
	}
	c.status.setShards(shards)
	for i, s := range states {
		at := position{session: s.SessionID, resumeURL: s.ResumeURL, seq: s.Sequence}
		group.Go(func() error { return gateways[i].run(running, at) })
		group.Go(func() error { return pipelines[i].run(running) })
	}
	err := group.Wait()
	for _, p := range pipelines {
		p.wait()
	}
	return err
}

// divide stores that the bot has more connections from now on. Their sessions
// begin anew; what was sent meanwhile is read from the histories.
func (c *connections) divide(ctx context.Context, have int) error {
	recommended, err := c.recommended(ctx)
	if err != nil {
		return err
	}
	count, err := decideShards(have, recommended)
	if err != nil {
		return err
	}
	c.o.Logger.InfoContext(ctx, "the bot is in too many servers for its connections to Discord; it opens more", "connections", count)
	fresh := make([]ShardState, count)
	err = c.o.DB.Update(ctx, func(tx *db.Tx) error {
		saved, err := c.o.Tables.Gateway.Gateway(tx)
		if err != nil {
			return err
		}
		if account := c.status.snapshot().Account; saved.Account != account {
			saved = GatewayState{Account: account}
		}
		for i := range fresh {
			fresh[i].HeardAt = heardAt(saved.Shards())
		}
		return c.o.Tables.Gateway.SaveGateway(tx, saved.WithShards(fresh))
	})
	if err != nil {
		return fmt.Errorf("save the number of connections: %w", err)
	}
	c.status.setShardStates(fresh)
	return nil
}

// recommended asks Discord for a number of connections ("Gateway", get gateway
// bot), until it answers.
func (c *connections) recommended(ctx context.Context) (int, error) {
	for {
		var answer struct {
			Shards int `json:"shards"`
		}
		err := c.client.get(ctx, getGatewayBot.with(), &answer)
		if err == nil || fault.KindOf(err) == fault.Unauthenticated {
			return answer.Shards, err
		}
		c.o.Logger.WarnContext(ctx, "cannot ask Discord how many connections the bot needs", "error", err)
		if !delay.Wait(ctx, maxBackoff) {
			return 0, ctx.Err()
		}
	}
}

// heardAt returns the earliest time at which one of the connections stored its last
// event, 0 if none did.
func heardAt(states []ShardState) (earliest int64) {
	for _, s := range states {
		if s.HeardAt > 0 && (earliest == 0 || s.HeardAt < earliest) {
			earliest = s.HeardAt
		}
	}
	return earliest
}
