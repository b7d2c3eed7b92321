package discord

import (
	"context"
	"time"

	"golang.org/x/sync/errgroup"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/event"
)

// Platform is the name of the surface in ids, headers, and references.
const Platform = "discord"

// Adapter is the surface on Discord. Its methods are safe for concurrent use.
type Adapter struct {
	o            Options
	status       *status
	client       *client
	directory    *directory
	history      *history
	writer       *writer
	attachments  *attachments
	guilds       *guildSync
	backfill     *backfiller
	interactions *interactions
	registrar    *registrar
	connections  *connections
}

var (
	_ surface.Adapter    = (*Adapter)(nil)
	_ surface.FileSource = (*Adapter)(nil)
)

// New returns an adapter that is not connected yet.
func New(o Options) *Adapter {
	o = o.withDefaults()
	status, client := &status{}, newClient(o)
	directory := newDirectory(o, client)
	convert := converter{status}
	refused, gaps := newRefusals(), newSignal()
	sent := newNonces()
	history := &history{o: o, status: status, client: client, directory: directory, convert: convert}
	attachments := newAttachments(o, client)
	writer := &writer{o: o, client: client, directory: directory, convert: convert, refused: refused, sent: sent}
	recorder := &recorder{o: o, status: status, directory: directory, history: history, attachments: attachments, convert: convert, sent: sent, starters: newStarters()}
	guilds := newGuildSync(o, status, client, directory)
	registrar := newRegistrar(o, status, client)
	interactions := newInteractions(o, directory, recorder, writer)
	open := func(on *shard, turn chan struct{}) *gateway {
		p := newPipeline(o, status, on, recorder, guilds, refused, gaps, registrar.changed)
		return &gateway{o: o, status: status, shard: on, client: client, pipeline: p, interactions: interactions, guilds: guilds, turn: turn}
	}
	return &Adapter{
		o: o, status: status, client: client, directory: directory, history: history, writer: writer, attachments: attachments,
		guilds: guilds, interactions: interactions, registrar: registrar,
		backfill:    &backfiller{o: o, status: status, client: client, directory: directory, history: history, recorder: recorder, guilds: guilds, changed: gaps},
		connections: &connections{o: o, status: status, client: client, open: open},
	}
}

// Allow replaces the channels and people that the bot listens and writes to.
func (a *Adapter) Allow(l Allowed) {
	a.directory.allow.Store(&l)
	a.warnIfEmpty(context.Background())
	a.guilds.scheduleFullRefresh()
}

func (a *Adapter) warnIfEmpty(ctx context.Context) {
	if a.directory.allow.Load().Empty() {
		a.o.Logger.WarnContext(ctx, "the Discord bot listens to nobody: set surface.discord.allowedChannelIds or allowedGuildIds, or allow private messages")
	}
}

// Run implements [surface.Adapter]. It returns before ctx ends only when a retry
// cannot help (a bad token, a missing intent). The error says what to do, and
// Healthy keeps returning it.
func (a *Adapter) Run(ctx context.Context) error {
	a.warnIfEmpty(ctx)
	err := a.o.DB.Read(ctx, func(q db.Queryer) error { return a.status.load(q, a.o.Tables.Gateway, a.o.Token) })
	if ctx.Err() != nil {
		return nil
	} else if err != nil {
		return err
	}
	group, running := errgroup.WithContext(ctx)
	group.Go(func() error { return a.connections.run(running) })
	group.Go(func() error { return a.backfill.run(running) })
	group.Go(func() error { return a.interactions.run(running) })
	group.Go(func() error { return a.registrar.run(running) })
	group.Go(func() error { return a.guilds.run(running) })
	group.Go(func() error { return a.probeToken(running) })
	err = group.Wait()
	if ctx.Err() != nil {
		return nil // events that were not stored arrive again when the session resumes
	}
	a.status.setFatal(err)
	return err
}

// probeToken retries a rejected token: the gateway may work regardless, and no
// other call may be due.
func (a *Adapter) probeToken(ctx context.Context) error {
	for delay.Wait(ctx, tokenRetry) {
		if a.client.limits.tokenRejected() {
			_ = a.client.get(ctx, getCurrentUser.with(), nil) // the limiter notes the outcome
		}
	}
	return ctx.Err()
}

// Platform implements [surface.Adapter].
func (a *Adapter) Platform() string { return Platform }

// Self implements [surface.Adapter].
func (a *Adapter) Self() (surface.User, bool) { return a.status.self() }

// Capabilities implements [surface.Adapter].
func (a *Adapter) Capabilities() surface.Capabilities {
	return surface.Capabilities{
		Edit: true, Delete: true, Reactions: true, Typing: true, Files: true, Replies: true, Buttons: true,
		MaxText: maxText, MaxFiles: maxFiles, MaxMessageBytes: maxMessageBytes,
	}
}

// Healthy implements [surface.Adapter].
func (a *Adapter) Healthy() error {
	if err := a.status.health(); err != nil {
		return err
	}
	if a.client.limits.tokenRejected() {
		return errBadToken
	}
	return nil
}

// Allowed implements [surface.Adapter].
func (a *Adapter) Allowed(ctx context.Context, channelID string) (bool, error) {
	return a.directory.allowed(ctx, channelID)
}

// Opens implements [surface.Adapter].
func (a *Adapter) Opens(s surface.Session) bool {
	return a.directory.allow.Load().allows(s.ChannelID, infoOf(s))
}

// Channel implements [surface.Adapter].
func (a *Adapter) Channel(ctx context.Context, channelID string) (surface.Session, error) {
	i, err := a.directory.lookup(ctx, channelID)
	return surface.Session{Platform: Platform, ChannelID: channelID, GuildID: i.guildID, ParentChannelID: i.parentID, Kind: i.kind, Title: i.name, Topic: i.topic}, err
}

// Send implements [surface.Adapter].
func (a *Adapter) Send(ctx context.Context, s surface.Send) (surface.Message, error) {
	return a.writer.send(ctx, s)
}

// Edit implements [surface.Adapter].
func (a *Adapter) Edit(ctx context.Context, ref event.MessageRef, c surface.Content) error {
	return a.writer.edit(ctx, ref, c)
}

// Delete implements [surface.Adapter].
func (a *Adapter) Delete(ctx context.Context, ref event.MessageRef) error {
	return a.writer.delete(ctx, ref)
}

// React implements [surface.Adapter]. A custom emoji is written as name:id.
func (a *Adapter) React(ctx context.Context, ref event.MessageRef, emoji string) error {
	return a.writer.react(ctx, createReaction, ref, emoji)
}

// Unreact implements [surface.Adapter]; it removes the bot's own reaction.
func (a *Adapter) Unreact(ctx context.Context, ref event.MessageRef, emoji string) error {
	return a.writer.react(ctx, deleteOwnReaction, ref, emoji)
}

// Tell sends a user a private message, also if the configuration does not allow
// private conversations: it answers something that the user wrote elsewhere.
func (a *Adapter) Tell(ctx context.Context, userID, text, nonce string) error {
	return a.writer.tell(ctx, userID, text, nonce)
}

// Typing implements [surface.Adapter].
func (a *Adapter) Typing(ctx context.Context, channelID string) error {
	return a.writer.typing(ctx, channelID)
}

// Read implements [surface.Adapter].
func (a *Adapter) Read(ctx context.Context, ref event.MessageRef) (surface.Message, error) {
	return a.history.read(ctx, ref)
}

// List implements [surface.Adapter]; the newest message comes first.
func (a *Adapter) List(ctx context.Context, channelID string, o surface.ListOptions) ([]surface.Message, error) {
	return a.history.list(ctx, channelID, o)
}

// Reactions implements [surface.Adapter].
func (a *Adapter) Reactions(ctx context.Context, ref event.MessageRef) ([]surface.Reaction, error) {
	return a.history.reactions(ctx, ref)
}

// FindNonce implements [surface.Adapter].
func (a *Adapter) FindNonce(ctx context.Context, channelID, nonce string, notBefore time.Time) (surface.Message, bool, error) {
	return a.history.findNonce(ctx, channelID, nonce, notBefore)
}

// FetchFile implements [surface.FileSource]. It renews an expired URL once.
func (a *Adapter) FetchFile(ctx context.Context, f surface.Attachment, most int64) (surface.Fetched, error) {
	return a.attachments.fetch(ctx, f, most)
}
