package discord

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"lilac/internal/db"
	"lilac/internal/fault"
	"lilac/internal/surface"
)

// Platform is what the surface is called in ids, headers and references.
const Platform = "discord"

// deafAfter is how long the gateway may say nothing until that is trouble; its
// heartbeats are answered every 41 seconds.
const deafAfter = 90 * time.Second

// maxNonces bounds what is remembered of messages that are being sent.
const maxNonces = 10_000

// Adapter is the surface on Discord.
type Adapter struct {
	o        Options
	api      *api
	channels *channels
	commands chan interaction
	// preparing holds a place for each message that is being prepared.
	preparing chan struct{}
	prepared  sync.WaitGroup
	// gaps wakes what reads histories.
	gaps chan struct{}
	// met wakes what tells Discord of the commands, when it is known who we are.
	met chan struct{}

	mu    sync.Mutex
	state GatewayState
	// known says that Self is.
	known bool
	// heard is when the gateway last said anything, begun when Run was called.
	heard, begun time.Time
	// trouble is why the last connection ended, nil while one works; fatal,
	// why there will be none.
	trouble, fatal error
	// unheardSince is when the last event before the session was taken in (Unix
	// milliseconds), 0 if there was none.
	unheardSince int64
	// nonces are those that this process has sent with.
	nonces map[string]bool
	// warned is when a message of another process was last warned of.
	warned time.Time
}

var _ surface.Adapter = (*Adapter)(nil)

// New returns an adapter that has not connected yet.
func New(o Options) *Adapter {
	o = o.withDefaults()
	a := &Adapter{o: o, api: newAPI(o), commands: make(chan interaction, maxInteractions), nonces: map[string]bool{}}
	a.channels, a.preparing, a.gaps = newChannels(), make(chan struct{}, maxPreparing), make(chan struct{}, 1)
	a.met = make(chan struct{}, 1)
	return a
}

// Nobody reports whether the configuration lets nobody be heard.
func (c Config) Nobody() bool {
	return len(c.AllowedChannelIDs) == 0 && len(c.AllowedGuildIDs) == 0 && !c.AllowDMs && len(c.AllowedUserIDs) == 0
}

// Run implements [surface.Adapter]. It ends before ctx only when trying again
// cannot help (the token, an intent); the error says what to do, and Healthy
// goes on saying it.
func (a *Adapter) Run(ctx context.Context) error {
	if a.o.Nobody() {
		a.o.Logger.WarnContext(ctx, "on Discord nobody is heard: name channels or servers in surface.discord.allowedChannelIds or allowedGuildIds, or allow private messages")
	}
	if err := a.load(ctx); err != nil {
		return err
	}
	group, working := errgroup.WithContext(ctx)
	events := make(chan *dispatch, maxHandover)
	group.Go(func() error { return a.connectAgain(working, events) })
	group.Go(func() error { return a.takeIn(working, events) })
	group.Go(func() error { return a.closeGaps(working) })
	group.Go(func() error { return a.answerInteractions(working) })
	group.Go(func() error { return a.tellCommands(working) })
	err := group.Wait()
	a.prepared.Wait()
	if ctx.Err() != nil {
		return nil // what was not taken in comes again when the session resumes
	}
	a.mu.Lock()
	a.fatal = err
	a.mu.Unlock()
	return err
}

// load reads what survived a restart.
func (a *Adapter) load(ctx context.Context) error {
	sum := sha256.Sum256([]byte(a.o.Token))
	account := hex.EncodeToString(sum[:8])
	var state GatewayState
	if err := a.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		state, err = a.o.Table.Gateway(q)
		return err
	}); err != nil {
		return fmt.Errorf("read the gateway's state: %w", err)
	}
	if state.Account != account {
		state = GatewayState{Account: account}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state, a.known, a.begun = state, state.Self.ID != "", time.Now()
	return nil
}

// Platform implements [surface.Adapter].
func (a *Adapter) Platform() string { return Platform }

// Self implements [surface.Adapter].
func (a *Adapter) Self() (surface.User, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.state.Self, a.known
}

func (a *Adapter) selfID() string {
	self, _ := a.Self()
	return self.ID
}

// Capabilities implements [surface.Adapter].
func (a *Adapter) Capabilities() surface.Capabilities {
	return surface.Capabilities{
		Edit: true, Delete: true, Reactions: true, Typing: true, Files: true, Replies: true, Buttons: true,
		MaxText: maxText, MaxFiles: maxFiles, MaxFileBytes: maxFileBytes,
	}
}

// Healthy implements [surface.Adapter]: it asks whether the gateway has said
// something, not whether a socket is open.
func (a *Adapter) Healthy() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	since := a.heard
	if since.IsZero() {
		since = a.begun
	}
	switch {
	case a.fatal != nil:
		return a.fatal
	case a.begun.IsZero():
		return fault.New(fault.Unavailable, "Discord is not connected yet.")
	case a.heard.IsZero() && a.trouble != nil:
		return fault.Wrap(fault.Unavailable, a.trouble, "Discord cannot be reached.")
	case time.Since(since) > deafAfter:
		return fault.Wrap(fault.Unavailable, a.trouble, "Discord has said nothing for %s.", time.Since(since).Round(time.Second))
	}
	return nil
}

// hears notes that the gateway said something.
func (a *Adapter) hears() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard = time.Now()
}

func (a *Adapter) troubled(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trouble = err
}

// sending notes a nonce before its message is made, so that the message is
// known as ours when the gateway tells of it.
func (a *Adapter) sending(nonce string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.nonces) >= maxNonces {
		clear(a.nonces) // the outbox knows them too
	}
	a.nonces[nonce] = true
}

// message is a message of Discord as the cores know it.
func (a *Adapter) message(m wireMessage) surface.Message {
	self := a.selfID()
	out := surface.Message{
		Platform: Platform, ChannelID: m.ChannelID, ID: m.ID,
		AuthorID: m.Author.ID, AuthorName: m.Author.name(m.Member),
		AuthorBot: m.Author.Bot || m.WebhookID != "", FromSelf: m.Author.ID == self && self != "",
		Text: m.text(), CreatedAt: millis(m.Timestamp), EditedAt: millis(m.Edited),
	}
	if out.CreatedAt == 0 {
		out.CreatedAt = madeAt(m.ID)
	}
	if m.Type == messageReply && m.Reference != nil && m.Reference.Type == referenceDefault &&
		(m.Reference.ChannelID == "" || m.Reference.ChannelID == m.ChannelID) {
		out.ReplyTo = m.Reference.MessageID
	}
	attachments := m.Attachments
	for _, s := range m.Snapshots {
		attachments = append(attachments, s.Message.Attachments...)
	}
	for _, f := range attachments {
		out.Attachments = append(out.Attachments, surface.Attachment{ID: f.ID, URL: f.URL, Filename: f.Filename, MimeType: f.ContentType, Size: f.Size})
	}
	for _, u := range m.Mentions {
		out.Mentions = append(out.Mentions, surface.User{ID: u.ID, Name: u.name(u.Member), Bot: u.Bot})
	}
	return out
}

// text is what a message says: its own words, what it forwards, and stickers
// by their names.
func (m wireMessage) text() string {
	parts := []string{}
	if m.Content != "" {
		parts = append(parts, m.Content)
	}
	for _, s := range m.Snapshots {
		if s.Message.Content != "" {
			parts = append(parts, s.Message.Content)
		}
	}
	for _, s := range m.Stickers {
		parts = append(parts, "[sticker: "+s.Name+"]")
	}
	return strings.Join(parts, "\n")
}
