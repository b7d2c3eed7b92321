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

// Config selects the account, the servers of Discord, and the allowed channels.
type Config struct {
	Token string
	// APIURL is the base URL of the REST API, with its version. If GatewayURL is
	// empty, the API returns it.
	APIURL, GatewayURL string
	Allowed
	// BackfillAge and BackfillMessages bound the missed messages that are read
	// per channel; zero means none.
	BackfillAge      time.Duration
	BackfillMessages int
	// AttachmentBytes is the size of the largest file that is kept;
	// AttachmentHosts are the hosts that files are downloaded from.
	AttachmentBytes int64
	AttachmentHosts []string
}

// Allowed lists the channels, servers, and people that the bot listens and
// writes to. AllowDMs allows private conversations with everybody,
// AllowedUserIDs those with the listed people.
type Allowed struct {
	AllowedChannelIDs []string
	AllowedGuildIDs   []string
	AllowDMs          bool
	AllowedUserIDs    []string
}

// Empty reports whether nothing is allowed.
func (l Allowed) Empty() bool {
	return len(l.AllowedChannelIDs) == 0 && len(l.AllowedGuildIDs) == 0 && !l.AllowDMs && len(l.AllowedUserIDs) == 0
}

// Blobs stores the content of files.
type Blobs interface {
	Put(ctx context.Context, data []byte) (ref string, err error)
	Get(ctx context.Context, ref string) ([]byte, error)
}

// Interactions carries out commands and button presses, which the adapter has
// acknowledged. It shows the message of an error to the person.
type Interactions interface {
	// Running returns the running request of a channel, "" for none.
	Running(ctx context.Context, channelID string) (requestID string, err error)
	// Askers returns the ids of the people whose messages a request answers.
	Askers(ctx context.Context, requestID string) ([]string, error)
	// Stop cancels a request; the adapter has checked that the person may.
	Stop(tx *db.Tx, requestID string, by surface.User) error
	// Answer answers the question of a request with one of its answers, by its number. It
	// checks that the question is open and that the person may.
	Answer(tx *db.Tx, requestID string, pause, answer int, by surface.User) error
	// Status describes the work in progress in a channel.
	Status(ctx context.Context, channelID string) (string, error)
	// Queue lists the work in progress in a channel and the questions that wait.
	Queue(ctx context.Context, channelID string) (string, error)
	// NewConversation begins a new conversation in a channel; the old one is
	// kept. It returns a fault.Conflict while an answer is in progress.
	NewConversation(tx *db.Tx, channelID string, by surface.User) error
	// Ask starts a request about a message, which is cached with its reply
	// chain.
	Ask(tx *db.Tx, m surface.Message, by surface.User) error
}

// A ModelPicker chooses the models of channels.
type ModelPicker interface {
	// Models returns the model that answers in a channel, and those to choose from.
	Models(ctx context.Context, channelID string) (current string, selectable []string, err error)
	// ChooseModel makes a model that of a channel; "" follows the configuration
	// again. interactionID makes the change unique.
	ChooseModel(tx *db.Tx, channelID, interactionID, model string) error
}

// Options configures an [Adapter]. DB, Tables, and Blobs are required.
type Options struct {
	Config
	DB           *db.DB
	Tables       Tables
	Blobs        Blobs
	Interactions Interactions
	// Models is nil if people cannot choose a model.
	Models ModelPicker
	// Stranger is called in the transaction of a private message of a person who is not
	// allowed; nil ignores it.
	Stranger func(tx *db.Tx, u surface.User) error
	// MayTalk reports whether a person may talk to the agent, and so may use its commands; nil
	// means that everybody may.
	MayTalk func(u surface.User) bool
	// MayStop reports whether a person may stop the answers of others; nil means that
	// moderators may.
	MayStop func(u surface.User, moderator bool) bool
	// LinkPreviews reports whether Discord shows previews of the links in the bot's messages; nil
	// means that it does not.
	LinkPreviews func() bool
	// Names returns the function that replaces mentions with names in the texts of events; nil
	// leaves them.
	Names func(q db.Queryer) func(text string) string
	// Scrub removes secrets from outgoing text.
	Scrub  func(string) string
	Logger *slog.Logger
	// Version is the program's version in the User-Agent header; it may be empty.
	Version string
	// IdentifyLimit bounds new gateway sessions; the default is far below
	// Discord's limit.
	IdentifyLimit IdentifyLimit
	// HTTP makes the REST calls; Dial opens the connections to the gateway and to
	// the hosts of files. Tests replace them.
	HTTP *http.Client
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// Rand returns a number in [0, 1) that spreads reconnections.
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
	if o.IdentifyLimit == (IdentifyLimit{}) {
		o.IdentifyLimit = IdentifyLimit{Burst: identifyBurst, Every: identifyEvery, MinInterval: identifyInterval}
	}
	if o.MayTalk == nil {
		o.MayTalk = func(surface.User) bool { return true }
	}
	if o.MayStop == nil {
		o.MayStop = func(_ surface.User, moderator bool) bool { return moderator }
	}
	if o.LinkPreviews == nil {
		o.LinkPreviews = func() bool { return false }
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	return o
}
