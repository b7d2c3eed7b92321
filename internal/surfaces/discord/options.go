package discord

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
)

// Config says which server to speak to and who is heard.
type Config struct {
	Token string
	// APIURL is where the REST API begins, with its version; GatewayURL may be
	// empty, then the API is asked.
	APIURL, GatewayURL string
	Allowed
	// BackfillAge and BackfillMessages bound what is read of a channel after a
	// time without a connection; zero means nothing.
	BackfillAge      time.Duration
	BackfillMessages int
	// AttachmentBytes is the largest file that is kept; AttachmentHosts are
	// those that files are fetched from.
	AttachmentBytes int64
	AttachmentHosts []string
}

// Allowed says who is heard and written to: everybody in these channels and
// servers, and in private everybody or these people.
type Allowed struct {
	AllowedChannelIDs []string
	AllowedGuildIDs   []string
	AllowDMs          bool
	AllowedUserIDs    []string
}

// Nobody reports whether nobody is heard.
func (l Allowed) Nobody() bool {
	return len(l.AllowedChannelIDs) == 0 && len(l.AllowedGuildIDs) == 0 && !l.AllowDMs && len(l.AllowedUserIDs) == 0
}

// Table is what is remembered of Discord; package store keeps it.
type Table interface {
	surface.Cache
	// Seen inserts a pair of source and external id; seen says that it was there.
	Seen(tx *db.Tx, source, externalID string, value []byte) (prior []byte, seen bool, err error)

	// Gateway is the zero value before the first connection.
	Gateway(q db.Queryer) (GatewayState, error)
	SaveGateway(tx *db.Tx, g GatewayState) error

	// Awaited lists the messages of a channel to which a reply is waited for.
	Awaited(q db.Queryer, channelID string) (messageIDs []string, err error)

	// OpenGap remembers what must be read of a channel; of two gaps in one
	// channel the earlier beginning and the later end count.
	OpenGap(tx *db.Tx, g Gap) error
	// Gaps lists them, at most limit.
	Gaps(q db.Queryer, limit int) ([]Gap, error)
	// CloseGap forgets the part that was read, unless the gap was opened again
	// meanwhile.
	CloseGap(tx *db.Tx, read Gap) error

	// ForgetSession forgets a channel that was deleted, with its threads, so that
	// another one can have its name. ForgetGone does so with all channels of a
	// server but these.
	ForgetSession(tx *db.Tx, platform, channelID string) error
	ForgetGone(tx *db.Tx, platform, guildID string, channelIDs []string) error

	// Unknown lists those of the servers of which no channel is in the cache, and
	// those of the channels that are not.
	Unknown(q db.Queryer, guildIDs, channelIDs []string) (guilds, channels []string, err error)

	// PutNonce remembers which message a nonce made, and forgets those from
	// before a time (Unix milliseconds).
	PutNonce(tx *db.Tx, channelID, nonce, messageID string, at, forget int64) error
	// NonceMessage returns the message's id; a fault.NotFound if there is none.
	NonceMessage(q db.Queryer, channelID, nonce string) (messageID string, err error)
	// PlannedSend returns what is about to be sent with a nonce; a
	// fault.NotFound if nothing is.
	PlannedSend(q db.Queryer, channelID, nonce string) (surface.Send, error)
	// Answering returns the request whose answer is about to be shown with a
	// nonce, "" for what is sent for another reason.
	Answering(q db.Queryer, channelID, nonce string) (requestID string, err error)
	// PutOrder keeps what a person asked for, or what came of it, until
	// DropOrder; Orders lists what is kept, the oldest first, at most limit,
	// also with an error about others.
	PutOrder(tx *db.Tx, o Order) error
	Orders(q db.Queryer, limit int) ([]Order, error)
	DropOrder(tx *db.Tx, id string) error
	// Planned reports whether a message of ours in the channel has this id, or
	// is about to be made with this nonce.
	Planned(q db.Queryer, channelID, messageID, nonce string) (bool, error)
}

// GatewayState is what survives a restart.
type GatewayState struct {
	// Account is a hash of the token; the state belongs to it.
	Account string `json:"account"`
	// SessionID, ResumeURL and Sequence resume the gateway's session after the
	// last event that was taken in.
	SessionID string       `json:"sessionId,omitempty"`
	ResumeURL string       `json:"resumeUrl,omitempty"`
	Sequence  int64        `json:"sequence,omitempty"`
	Self      surface.User `json:"self"`
	// ApplicationID is the bot's application.
	ApplicationID string `json:"applicationId,omitempty"`
	// HeardAt is when the last event was taken in (Unix milliseconds).
	HeardAt int64 `json:"heardAt,omitempty"`
	// Commands is a hash of the commands that Discord has been told of.
	Commands string `json:"commands,omitempty"`
	// Budget is what is left for new sessions.
	Budget Budget `json:"budget"`
}

// Gap is a part of a channel's history that was not heard.
type Gap struct {
	ChannelID string `json:"channelId"`
	// After is the last message before the gap, Until the last in it; an empty
	// Until is the newest. Without After no message is missing.
	After string `json:"after,omitempty"`
	Until string `json:"until,omitempty"`
	// Threads is the moment (Unix milliseconds) from which on threads of the
	// channel may have been archived unheard; 0 if none was.
	Threads int64 `json:"threads,omitempty"`
	// Opened counts how often it was opened since it was last closed.
	Opened int `json:"opened"`
}

// Messages is the part of the gap that is in the channel itself.
func (g Gap) Messages() Gap { g.Threads = 0; return g }

// Archived is the part of the gap that is in the channel's threads.
func (g Gap) Archived() Gap { g.After, g.Until = "", ""; return g }

// Blobs keeps the bytes of files.
type Blobs interface {
	Put(ctx context.Context, data []byte) (ref string, err error)
	Get(ctx context.Context, ref string) ([]byte, error)
}

// Interactions is what people ask for with commands and buttons. The adapter
// has acknowledged them already and shows an error's message to the person.
type Interactions interface {
	// Running is the request that a channel works on; empty for none.
	Running(ctx context.Context, channelID string) (requestID string, err error)
	// Askers are the ids of the people whose messages a request answers.
	Askers(ctx context.Context, requestID string) ([]string, error)
	// Stop ends a request; the adapter has asked whether the person may.
	Stop(tx *db.Tx, requestID string, by surface.User) error
	// Status says what a channel works on, in a sentence or a few.
	Status(ctx context.Context, channelID string) (string, error)
	// Ask begins a request about a message, which is in the cache with its
	// chain of replies.
	Ask(tx *db.Tx, m surface.Message, by surface.User) error
}

// Options are what an [Adapter] is made of. DB, Table and Blobs must be given.
type Options struct {
	Config
	DB           *db.DB
	Table        Table
	Blobs        Blobs
	Interactions Interactions
	// Scrub takes secrets out of a text that goes out.
	Scrub  func(string) string
	Logger *slog.Logger
	// Version is the program's, for Discord to see; it may be empty.
	Version string
	// Ration bounds new sessions of the gateway; the zero value is far below
	// what Discord allows.
	Ration Ration
	// HTTP makes the REST calls; Dial opens the connection of the gateway and
	// those to the hosts of files. Tests replace them.
	HTTP *http.Client
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Rand returns a number in [0, 1), to spread reconnections.
	Rand func() float64
}

func (o Options) withDefaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.HTTP == nil {
		o.HTTP = &http.Client{}
	}
	if o.Scrub == nil {
		o.Scrub = func(s string) string { return s }
	}
	if o.Ration == (Ration{}) {
		o.Ration = Ration{Burst: identifyBurst, Every: identifyEvery, Apart: identifyApart}
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	return o
}
