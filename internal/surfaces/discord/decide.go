package discord

import (
	"errors"
	"time"

	"lilac/internal/foundation/fault"
)

// IdentifyLimit bounds how often new gateway sessions begin: Burst in a row,
// then one per Every, with at least MinInterval between two. Discord allows
// 1,000 a day and then resets the token ("Gateway", identifying), and one per
// five seconds (session start limit object).
type IdentifyLimit struct {
	Burst              int
	Every, MinInterval time.Duration
}

// IdentifyBudget is what remains of an [IdentifyLimit].
type IdentifyBudget struct {
	// Tokens is how many sessions could begin in a row at AsOf, the time (Unix
	// milliseconds) at which the last one began.
	Tokens float64 `json:"tokens"`
	AsOf   int64   `json:"asOf"`
}

const (
	// identifyBurst and identifyEvery keep the worst day at 20 + 24 h / 500 s =
	// 192 sessions.
	identifyBurst = 20
	identifyEvery = 500 * time.Second
	// identifyInterval is longer than Discord's five seconds, because a later
	// message may travel faster.
	identifyInterval = 6 * time.Second
	// minBackoff and maxBackoff bound the wait before a reconnection.
	minBackoff = time.Second
	maxBackoff = time.Minute
	// stableAfter is how long a connection must last for earlier failures to be
	// forgotten.
	stableAfter = time.Minute
)

// spend takes one session from the budget, or returns how long to wait for one.
func (b IdentifyBudget) spend(now time.Time, limit IdentifyLimit) (IdentifyBudget, time.Duration) {
	used := b.AsOf != 0
	switch ms := now.UnixMilli(); {
	case !used:
		b = IdentifyBudget{Tokens: float64(limit.Burst), AsOf: ms}
	case b.AsOf > ms:
		b.AsOf = ms // the clock was set back
	}
	if wait := limit.MinInterval - time.Duration(now.UnixMilli()-b.AsOf)*time.Millisecond; used && wait > 0 {
		return b, wait
	}
	every := float64(limit.Every.Milliseconds())
	tokens := min(float64(limit.Burst), b.Tokens+float64(now.UnixMilli()-b.AsOf)/every)
	if tokens < 1 {
		return b, time.Duration((1-tokens)*every+1) * time.Millisecond
	}
	return IdentifyBudget{Tokens: tokens - 1, AsOf: now.UnixMilli()}, 0
}

// shared returns the limit of all connections of a bot together. Discord's limit of
// a day does not grow with them ("Gateway", session start limit object), so more than
// four share the limit of four: 80 + 24 h / 125 s = 771 sessions.
func (l IdentifyLimit) shared(connections int) IdentifyLimit {
	n := min(connections, 4)
	l.Burst, l.Every = l.Burst*n, l.Every/time.Duration(n)
	return l
}

// maxShards bounds how many connections a bot has: enough for 40,000 servers.
const maxShards = 16

// decideShards returns how many connections a bot needs that is in too many servers
// for those that it has. Discord recommends a number; if that is not more, twice as
// many are tried.
func decideShards(have, recommended int) (int, error) {
	need := recommended
	if need <= have {
		need = 2 * have
	}
	if need > maxShards {
		return 0, fault.New(fault.Denied, "The bot is in too many servers: it needs %d connections to Discord, and Lilac keeps at most %d.", need, maxShards)
	}
	return need, nil
}

// disconnect describes how a connection to the gateway ended.
type disconnect struct {
	// code is the close code, 0 for an abrupt end.
	code int
	// sessionInvalid reports that Discord rejected the session (op 9); resumable,
	// that it may be resumed later.
	sessionInvalid, resumable bool
	// reconnect reports that Discord asked for a reconnection (op 7).
	reconnect bool
	// dialFailed reports that there was no connection at all.
	dialFailed bool
	// uptime is how long the session was live on this connection.
	uptime time.Duration
	err    error
}

// reason returns why the connection ended.
func (d disconnect) reason() error {
	switch {
	case d.err != nil:
		return d.err
	case d.sessionInvalid:
		return errors.New("the session was ended by Discord")
	}
	return errors.New("a new connection was asked for by Discord")
}

// reconnection says how to connect again.
type reconnection struct {
	// newSession discards the session and its position.
	newSession bool
	failures   int
	wait       time.Duration
	// fatal is set when a retry cannot succeed.
	fatal error
}

// decideReconnection maps the end of a connection to the next attempt:
//
//	end of the connection                next attempt
//	------------------------------------ -----------------------------------
//	close code without reconnection      none: fatal
//	too many servers (4010, 4011)        none: more connections are needed
//	invalid session, code 4007 or 4009   new session, after a backoff
//	reconnect requested, first in a row  resume at once
//	anything else                        resume, after a backoff
//
// failures counts earlier connections in a row that ended within stableAfter;
// jitter is in [0, 1).
func decideReconnection(d disconnect, failures int, jitter float64) reconnection {
	if fatal := fatalClose(d.code); fatal != nil {
		return reconnection{fatal: fatal}
	}
	next := reconnection{failures: failures + 1}
	if d.uptime >= stableAfter {
		next.failures = 0
	}
	switch {
	case d.sessionInvalid && !d.resumable, d.code == closeInvalidSequence, d.code == closeSessionTimedOut:
		next.newSession = true
	case d.reconnect && next.failures <= 1:
		return next
	}
	longest := min(minBackoff<<min(next.failures, 10), maxBackoff)
	// At least half, so that many bots do not return at the same time.
	next.wait = longest/2 + time.Duration(jitter*float64(longest/2))
	return next
}

// Close codes of the gateway ("Opcodes and Status Codes", gateway close event
// codes).
const (
	closeAuthenticationFailed = 4004
	closeInvalidSequence      = 4007
	closeSessionTimedOut      = 4009
	closeInvalidShard         = 4010
	closeShardingRequired     = 4011
	closeInvalidVersion       = 4012
	closeInvalidIntents       = 4013
	closeDisallowedIntents    = 4014
)

// fatalClose returns an error for the close codes after which Discord forbids
// reconnecting.
func fatalClose(code int) error {
	switch code {
	case closeAuthenticationFailed:
		return errBadToken
	case closeInvalidShard, closeShardingRequired:
		return errTooManyServers
	case closeInvalidVersion:
		return fault.New(fault.Invalid, "Discord no longer supports the gateway version that Lilac uses. Update Lilac.")
	case closeInvalidIntents:
		return fault.New(fault.Invalid, "Discord does not know the events that Lilac subscribes to. Update Lilac.")
	case closeDisallowedIntents:
		return fault.New(fault.Denied, "Discord does not let the bot read messages. On https://discord.com/developers/applications, select the application, then Bot, and turn on “Message Content Intent”. Then restart Lilac.")
	}
	return nil
}

// errTooManyServers means that the servers of the bot need more connections.
var errTooManyServers = errors.New("the bot is in too many servers for its connections")

var errBadToken = fault.New(fault.Unauthenticated, "Discord rejected the bot's token. On https://discord.com/developers/applications, select the application, then Bot, then “Reset Token”. Enter the new token in lilac setup, or set DISCORD_TOKEN to it, and restart Lilac.")
