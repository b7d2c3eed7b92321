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
func (l Allowed) Empty() bool {
	return len(l.AllowedChannelIDs) == 0 && len(l.AllowedGuildIDs) == 0 && !l.AllowDMs && len(l.AllowedUserIDs) == 0
}

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

// Options are what an [Adapter] is made of. DB, Tables and Blobs must be given.
type Options struct {
	Config
	DB           *db.DB
	Tables       Tables
	Blobs        Blobs
	Interactions Interactions
	// Scrub takes secrets out of a text that goes out.
	Scrub  func(string) string
	Logger *slog.Logger
	// Version is the program's, for Discord to see; it may be empty.
	Version string
	// IdentifyLimit bounds new sessions of the gateway; the zero value is far below
	// what Discord allows.
	IdentifyLimit IdentifyLimit
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
	if o.IdentifyLimit == (IdentifyLimit{}) {
		o.IdentifyLimit = IdentifyLimit{Burst: identifyBurst, Every: identifyEvery, Apart: identifyApart}
	}
	if o.Rand == nil {
		o.Rand = rand.Float64
	}
	return o
}
