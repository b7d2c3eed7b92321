package discord

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/disgoorg/disgo/rest"
	"golang.org/x/sync/errgroup"

	"lilac/internal/agent/egress"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// Platform is what the surface is called in ids, headers and references.
const Platform = "discord"

// deafAfter is how long no event and no answer to a heartbeat may come until
// that is trouble. A heartbeat is sent, and answered, every 42 seconds at the
// latest (longestBeat); whoever asks every few seconds knows of a deaf bot
// after 90.
const deafAfter = 80 * time.Second

// maxNonces bounds what is remembered of messages that are being sent.
const maxNonces = 10_000

// Adapter is the surface on Discord.
type Adapter struct {
	o        Options
	api      *api
	fetcher  *egress.Fetcher
	channels *channels
	refused  *refusals
	commands chan interaction
	allow    atomic.Pointer[Allowed]
	// preparing holds a place for each message that is being prepared.
	preparing chan struct{}
	prepared  sync.WaitGroup
	// gaps wakes what reads histories.
	gaps chan struct{}
	// met wakes what tells Discord of the commands, when it is known who we are.
	met chan struct{}
	// changed wakes what asks which channels there are.
	changed chan struct{}

	mu    sync.Mutex
	state GatewayState
	// known says that Self is.
	known bool
	// heard is when the gateway last said anything; works, that a session of it
	// was heard since the start.
	heard time.Time
	works bool
	// trouble is why the last connection ended, nil while one works; fatal,
	// why there will be none.
	trouble, fatal error
	// caughtUp says that a session is there, and that everything is written down
	// that it told again.
	caughtUp bool
	// unheardSince is when the last event before the session was taken in (Unix
	// milliseconds), 0 if there was none.
	unheardSince int64
	// unsure says that something may be allowed of which nothing is known; stale
	// are the servers of which it has to be asked again what we may see.
	unsure bool
	stale  map[string]bool
	// nonces are those that this process has sent with.
	nonces map[string]bool
	// warned is when a message of another process was last warned of.
	warned time.Time
}

var _ surface.Adapter = (*Adapter)(nil)

// New returns an adapter that has not connected yet.
func New(o Options) *Adapter {
	o = o.withDefaults()
	a := &Adapter{o: o, api: newAPI(o), commands: make(chan interaction, maxInteractions), nonces: map[string]bool{}, unsure: true, stale: map[string]bool{}}
	a.fetcher = egress.NewFetcher(egress.FetchOptions{Hosts: o.AttachmentHosts, Dial: o.Dial})
	a.channels, a.refused, a.preparing, a.gaps = newChannels(), &refusals{known: map[attempt]rebuff{}}, make(chan struct{}, maxPreparing), make(chan struct{}, 1)
	a.met, a.changed = make(chan struct{}, 1), make(chan struct{}, 1)
	a.allow.Store(&o.Allowed)
	return a
}

// Allow replaces who is heard and written to, from now on.
func (a *Adapter) Allow(l Allowed) {
	a.allow.Store(&l)
	a.warnOfNobody(context.Background())
	a.mu.Lock()
	a.unsure = true
	a.mu.Unlock()
	wake(a.changed)
}

func (a *Adapter) warnOfNobody(ctx context.Context) {
	if a.allow.Load().Empty() {
		a.o.Logger.WarnContext(ctx, "on Discord nobody is heard: name channels or servers in surface.discord.allowedChannelIds or allowedGuildIds, or allow private messages")
	}
}

// Run implements [surface.Adapter]. It ends before ctx only when trying again
// cannot help (the token, an intent); the error says what to do, and Healthy
// goes on saying it.
func (a *Adapter) Run(ctx context.Context) error {
	a.warnOfNobody(ctx)
	if err := a.load(ctx); ctx.Err() != nil {
		return nil
	} else if err != nil {
		return err
	}
	group, working := errgroup.WithContext(ctx)
	events := make(chan *dispatch, maxHandover)
	group.Go(func() error { return a.connectAgain(working, events) })
	group.Go(func() error { return a.takeIn(working, events) })
	group.Go(func() error { return a.closeGaps(working) })
	group.Go(func() error { return a.answerInteractions(working) })
	group.Go(func() error { return a.tellCommands(working) })
	group.Go(func() error { return a.learnChannels(working) })
	group.Go(func() error { return a.tryToken(working) })
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
		state, err = a.o.Tables.Gateway.Gateway(q)
		return err
	}); err != nil {
		return fmt.Errorf("read the gateway's state: %w", err)
	}
	if state.Account != account {
		state = GatewayState{Account: account}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.state, a.known = state, state.Self.ID != ""
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
		MaxText: maxText, MaxFiles: maxFiles, MaxFileBytes: maxFileBytes, MaxMessageBytes: maxMessageBytes,
	}
}

// Healthy implements [surface.Adapter]: it asks whether the gateway has said
// something, not whether a socket is open. Until a session was heard, nothing
// is: what is said before a bot's very first one it never hears.
func (a *Adapter) Healthy() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch silent := time.Since(a.heard); {
	case a.fatal != nil:
		return a.fatal
	case !a.works && a.trouble != nil:
		return fault.Wrap(fault.Unavailable, a.trouble, "Discord cannot be reached.")
	case !a.works:
		return fault.New(fault.Unavailable, "Discord is not connected yet.")
	case silent > deafAfter:
		return fault.Wrap(fault.Unavailable, a.trouble, "Discord has said nothing for %s.", silent.Round(time.Second))
	case a.api.limits.refusesToken():
		return errBadToken
	}
	return nil
}

// tryToken asks who we are for as long as Discord refuses the token: the gateway
// may go on all the same, and nobody else may have something to ask.
func (a *Adapter) tryToken(ctx context.Context) error {
	for pause(ctx, tokenPause) {
		if a.api.limits.refusesToken() {
			_ = a.api.do(ctx, rest.GetCurrentUser.Compile(nil), nil, nil) // the limiter takes the answer in
		}
	}
	return ctx.Err()
}

// hears notes that the gateway said something.
func (a *Adapter) hears() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.heard = time.Now()
}

// hearsSession notes that a session was begun or resumed.
func (a *Adapter) hearsSession() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.works, a.trouble = true, nil
}

func (a *Adapter) troubled(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.trouble, a.caughtUp = err, false
}

// catchesUp notes that what a session began with is written down.
func (a *Adapter) catchesUp() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.caughtUp = true
}

// hasCaughtUp reports whether what the gateway told of is known.
func (a *Adapter) hasCaughtUp() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.caughtUp
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
