package discord

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/delay"
)

const (
	// maxQueued is how many events wait to be stored: enough for the start of a
	// hundred servers. When the queue is full, the reader waits.
	maxQueued = 256
	// maxPreparing bounds how many messages are prepared at a time.
	maxPreparing = 8
	// storeRetry is the wait after a failed transaction; the event waits.
	storeRetry = time.Second
)

// dispatch is an event on its way from the gateway to the store.
type dispatch struct {
	session, resumeURL string
	seq                int64
	kind               string
	data               json.RawMessage
	// received is when the reader handed the event over.
	received time.Time
	// ready is closed once effect and opensGap are set.
	ready chan struct{}
	// effect is what the event changes; nil for nothing.
	effect func(*db.Tx) error
	// opensGap reports that the effect opens a gap.
	opensGap bool
}

// pipeline stores the events of the gateway in their order. Messages are
// prepared concurrently, because that may call Discord; everything else is
// prepared by the reader, so that later events are judged by it.
type pipeline struct {
	o        Options
	status   *status
	shard    *shard
	recorder *recorder
	guilds   *guildSync
	refused  *refusals
	gaps     signal
	commands signal

	queue chan *dispatch
	// slots limits concurrent preparation; preparing counts it.
	slots     chan struct{}
	preparing sync.WaitGroup
}

func newPipeline(o Options, s *status, on *shard, r *recorder, g *guildSync, refused *refusals, gaps, commands signal) *pipeline {
	return &pipeline{
		o: o, status: s, shard: on, recorder: r, guilds: g, refused: refused, gaps: gaps, commands: commands,
		queue: make(chan *dispatch, maxQueued), slots: make(chan struct{}, maxPreparing),
	}
}

// wait waits until no message is being prepared. The reader must have ended.
func (p *pipeline) wait() { p.preparing.Wait() }

// prepare computes the effect of an event. For messages it returns at once. No
// more than maxQueued messages are in preparation, because each has a place in
// the queue.
func (p *pipeline) prepare(ctx context.Context, d *dispatch) {
	switch d.kind {
	case "MESSAGE_CREATE", "MESSAGE_UPDATE", "MESSAGE_DELETE", "MESSAGE_DELETE_BULK",
		"MESSAGE_REACTION_ADD", "MESSAGE_REACTION_REMOVE", "MESSAGE_REACTION_REMOVE_ALL", "MESSAGE_REACTION_REMOVE_EMOJI":
	default:
		d.effect = p.effectOf(ctx, d)
		close(d.ready)
		return
	}
	d.received = time.Now()
	p.preparing.Go(func() {
		defer close(d.ready)
		select {
		case p.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		defer func() { <-p.slots }()
		d.effect = p.effectOf(ctx, d)
	})
}

// effectOf returns what an event changes besides the position, nil for nothing.
func (p *pipeline) effectOf(ctx context.Context, d *dispatch) func(*db.Tx) error {
	switch d.kind {
	case "GUILD_CREATE", "GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE", "GUILD_ROLE_DELETE", "GUILD_MEMBER_UPDATE", "CHANNEL_UPDATE", "THREAD_UPDATE":
		p.refused.forget() // permissions may have changed
	}
	switch d.kind {
	case "READY":
		return decodeInto(ctx, p, d, func(w wireReady) func(*db.Tx) error { return p.guilds.onReady(p.shard, w) })
	case "GUILD_CREATE":
		return decodeInto(ctx, p, d, func(w wireGuild) func(*db.Tx) error { return p.guilds.onGuild(p.shard, w) })
	case "GUILD_DELETE":
		return decodeInto(ctx, p, d, p.guilds.onGuildDelete)
	case "GUILD_UPDATE", "GUILD_ROLE_CREATE", "GUILD_ROLE_UPDATE", "GUILD_ROLE_DELETE", "GUILD_MEMBER_UPDATE":
		return decodeInto(ctx, p, d, p.guilds.onPermissions)
	case "CHANNEL_CREATE", "CHANNEL_UPDATE", "THREAD_CREATE", "THREAD_UPDATE":
		return decodeInto(ctx, p, d, p.guilds.onChannel)
	case "CHANNEL_DELETE", "THREAD_DELETE":
		return decodeInto(ctx, p, d, p.guilds.onChannelDelete)
	case "MESSAGE_CREATE", "MESSAGE_UPDATE":
		return decodeInto(ctx, p, d, func(m wireMessage) func(*db.Tx) error { return p.message(ctx, d, m) })
	case "MESSAGE_DELETE", "MESSAGE_DELETE_BULK":
		return decodeInto(ctx, p, d, func(w wireDeletion) func(*db.Tx) error { return p.recorder.deletion(ctx, d, w) })
	case "MESSAGE_REACTION_ADD", "MESSAGE_REACTION_REMOVE", "MESSAGE_REACTION_REMOVE_ALL", "MESSAGE_REACTION_REMOVE_EMOJI":
		return decodeInto(ctx, p, d, func(w wireReaction) func(*db.Tx) error { return p.recorder.reaction(ctx, d, w) })
	}
	return nil
}

// message returns the effect of a created or edited message.
func (p *pipeline) message(ctx context.Context, d *dispatch, m wireMessage) func(*db.Tx) error {
	in, unresolved := p.recorder.incoming(ctx, m, d.kind == "MESSAGE_UPDATE", d.received)
	if unresolved && ctx.Err() == nil { // the backfill reads it once the channel is known
		d.opensGap = true
		gap := Gap{ChannelID: m.ChannelID, After: idBefore(m.ID), Until: m.ID}
		if d.kind == "MESSAGE_UPDATE" { // it is compared with the cache, like the messages before a gap
			gap.After = m.ID
		}
		return func(tx *db.Tx) error { return p.o.Tables.Gaps.OpenGap(tx, gap) }
	}
	if in == nil && p.o.Stranger != nil && d.kind == "MESSAGE_CREATE" && p.recorder.isStranger(m) {
		u := surface.User{ID: m.Author.ID, Name: m.Author.name(nil)}
		return func(tx *db.Tx) error { return p.o.Stranger(tx, u) }
	}
	if in == nil {
		return nil
	}
	p.recorder.warnOfDuplicate(ctx, in)
	return func(tx *db.Tx) error { return p.recorder.store(tx, in) }
}

// decodeInto decodes an event for its handler.
func decodeInto[T any](ctx context.Context, p *pipeline, d *dispatch, handle func(T) func(*db.Tx) error) func(*db.Tx) error {
	var v T
	if !p.decode(ctx, d, &v) {
		return nil
	}
	return handle(v)
}

// decode decodes an event. Malformed events are skipped: they would fail forever. Of an event with
// a field of another type only the field is lost.
func (p *pipeline) decode(ctx context.Context, d *dispatch, into any) bool {
	skipped, err := decodeLenient(d.data, into)
	if err != nil {
		p.o.Logger.ErrorContext(ctx, "cannot decode a Discord event; it is skipped", "event", d.kind, "error", err)
		return false
	}
	if skipped != "" {
		p.o.Logger.WarnContext(ctx, "a field of a Discord event has an unexpected type and is ignored", "event", d.kind, "field", skipped)
	}
	return true
}

// run stores events one after the other, each until that succeeds, until the queue is
// closed and empty or ctx ends.
func (p *pipeline) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case d, open := <-p.queue:
			if !open || p.store(ctx, d) != nil {
				return
			}
			if d.kind == "READY" || d.kind == "RESUMED" {
				p.shard.setCaughtUp()
			}
		}
	}
}

// store returns when the event is stored, or ctx has ended. An event without an effect
// does not move the stored position: after a crash it is replayed.
func (p *pipeline) store(ctx context.Context, d *dispatch) error {
	select {
	case <-d.ready:
	case <-ctx.Done():
		return ctx.Err()
	}
	for d.effect != nil {
		err := p.o.DB.Update(ctx, func(tx *db.Tx) error {
			if err := d.effect(tx); err != nil {
				return err
			}
			return p.savePosition(tx, d)
		})
		switch {
		case err == nil:
			p.stored(d)
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		p.o.Logger.ErrorContext(ctx, "cannot store a Discord event; later events wait", "event", d.kind, "error", err)
		if !delay.Wait(ctx, storeRetry) {
			return ctx.Err()
		}
	}
	return ctx.Err() // an event that has no effect because ctx ended is not skipped
}

// savePosition stores the position and the identity of the session.
func (p *pipeline) savePosition(tx *db.Tx, d *dispatch) error {
	state, err := p.status.saved(tx, p.o.Tables.Gateway)
	if err != nil {
		return err
	}
	current := p.status.snapshot()
	state.Self, state.ApplicationID, state.Commands = current.Self, current.ApplicationID, current.Commands
	shards := state.shards()
	if len(shards) != p.shard.count {
		shards = make([]ShardState, p.shard.count) // the state was that of another account
	}
	shards[p.shard.id] = ShardState{SessionID: d.session, ResumeURL: d.resumeURL, Sequence: d.seq, HeardAt: tx.Now().UnixMilli()}
	return p.o.Tables.Gateway.SaveGateway(tx, state.withShards(shards))
}

// stored applies a committed event to memory and wakes the goroutines that
// depend on it.
func (p *pipeline) stored(d *dispatch) {
	p.shard.noteStored()
	if d.kind == "READY" {
		p.shard.setLive() // only once it is stored: a crash would have lost the session
	}
	if d.kind == "READY" || d.kind == "GUILD_CREATE" {
		p.gaps.notify()
		p.commands.notify()
	}
	if d.opensGap {
		p.gaps.notify()
	}
}
