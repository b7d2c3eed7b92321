package discord

import (
	"context"
	"errors"
	"fmt"
	"sync"

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
	// open returns the gateway of a connection; sessions begin one at a time, by turns.
	open func(on *shard, turn chan struct{}) *gateway
}

// run returns when ctx ends, or when a retry cannot help.
func (c *connections) run(ctx context.Context) error {
	states := c.status.snapshot().shards()
	for {
		err := c.keep(ctx, states)
		if !errors.Is(err, errTooManyServers) {
			return err
		}
		if states, err = c.divide(ctx, len(states)); err != nil {
			return err
		}
	}
}

// keep runs the connections until ctx ends or one of them cannot continue. What they
// have received by then is stored, because the next session does not receive it again.
func (c *connections) keep(ctx context.Context, states []ShardState) error {
	readers, reading := errgroup.WithContext(ctx)
	var writers sync.WaitGroup
	turn := make(chan struct{}, 1)
	shards, gateways := make([]*shard, len(states)), make([]*gateway, len(states))
	for i, s := range states {
		shards[i] = &shard{id: i, count: len(states), heardAt: s.HeardAt}
		gateways[i] = c.open(shards[i], turn)
	}
	c.status.setShards(shards)
	for i, g := range gateways {
		at := position{session: states[i].SessionID, resumeURL: states[i].ResumeURL, seq: states[i].Sequence}
		readers.Go(func() error { return g.run(reading, ctx, at) })
		writers.Go(func() { g.pipeline.run(ctx) })
	}
	err := readers.Wait()
	for _, g := range gateways {
		close(g.pipeline.queue)
	}
	writers.Wait()
	for _, g := range gateways {
		g.pipeline.wait()
	}
	return err
}

// divide stores that the bot has more connections from now on, and returns their
// states. Their sessions begin anew; messages that were sent meanwhile are read from
// the histories.
func (c *connections) divide(ctx context.Context, have int) ([]ShardState, error) {
	recommended, err := c.recommended(ctx)
	if err != nil {
		return nil, err
	}
	count, err := decideShards(have, recommended)
	if err != nil {
		return nil, err
	}
	c.o.Logger.InfoContext(ctx, "the bot is in too many servers for its connections to Discord; it opens more", "connections", count)
	fresh := make([]ShardState, count)
	err = c.o.DB.Update(ctx, func(tx *db.Tx) error {
		saved, err := c.status.saved(tx, c.o.Tables.Gateway)
		if err != nil {
			return err
		}
		since := heardAt(saved.shards())
		for i := range fresh {
			fresh[i].HeardAt = since
		}
		return c.o.Tables.Gateway.SaveGateway(tx, saved.withShards(fresh))
	})
	if err != nil {
		return nil, fmt.Errorf("save the number of connections: %w", err)
	}
	return fresh, nil
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
