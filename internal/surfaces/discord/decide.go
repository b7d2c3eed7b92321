package discord

import (
	"time"

	"lilac/internal/foundation/fault"
)

// IdentifyLimit says how many new gateway sessions may be begun: Burst in a row, and
// one more after each Every; between any two lies Apart. Discord allows a
// thousand a day and then resets the token ("Gateway", Identifying), and one
// in five seconds (session start limit object).
type IdentifyLimit struct {
	Burst        int
	Every, Apart time.Duration
}

// IdentifyBudget is what is left of a [IdentifyLimit].
type IdentifyBudget struct {
	// Tokens are sessions that may be begun in a row; AsOf is when that was so
	// (Unix milliseconds): when the last one was.
	Tokens float64 `json:"tokens"`
	AsOf   int64   `json:"asOf"`
}

const (
	// identifyBurst and identifyEvery keep a bad day at 20 + 24 h / 500 s = 192
	// sessions.
	identifyBurst = 20
	identifyEvery = 500 * time.Second
	// identifyApart is a little more than Discord's five seconds: what is sent
	// later may travel faster.
	identifyApart = 6 * time.Second
	// firstPause and longestPause bound the wait before a connection.
	firstPause   = time.Second
	longestPause = time.Minute
	// steadyAfter is how long a connection lives until earlier failures no
	// longer count.
	steadyAfter = time.Minute
)

// take spends one session, or says how long to wait for one.
func (b IdentifyBudget) take(now time.Time, r IdentifyLimit) (IdentifyBudget, time.Duration) {
	begun := b.AsOf != 0
	switch ms := now.UnixMilli(); {
	case !begun:
		b = IdentifyBudget{Tokens: float64(r.Burst), AsOf: ms}
	case b.AsOf > ms:
		b.AsOf = ms // the clock was set back
	}
	if apart := r.Apart - time.Duration(now.UnixMilli()-b.AsOf)*time.Millisecond; begun && apart > 0 {
		return b, apart
	}
	every := float64(r.Every.Milliseconds())
	tokens := min(float64(r.Burst), b.Tokens+float64(now.UnixMilli()-b.AsOf)/every)
	if tokens < 1 {
		return b, time.Duration((1-tokens)*every+1) * time.Millisecond
	}
	return IdentifyBudget{Tokens: tokens - 1, AsOf: now.UnixMilli()}, 0
}

// ending is how a connection came to its end.
type ending struct {
	// code is the close code, 0 when there was none (an abrupt end).
	code int
	// invalid says that the session was refused (op 9); resumable, that it
	// may be tried again.
	invalid, resumable bool
	// reconnect says that we were asked to come back (op 7).
	reconnect bool
	// unreached says that there was no connection at all.
	unreached bool
	// lived is how long the connection heard events.
	lived time.Duration
	err   error
}

// again is how to go on after a connection.
type again struct {
	// forget gives up the session.
	forget   bool
	failures int
	pause    time.Duration
	// fatal says why trying again cannot help.
	fatal error
}

// after decides how to go on; failures counts the connections before that
// came to nothing, spread is in [0, 1).
func after(e ending, failures int, spread float64) again {
	if fatal := fatalClose(e.code); fatal != nil {
		return again{fatal: fatal}
	}
	out := again{failures: failures + 1}
	if e.lived >= steadyAfter {
		out.failures = 0
	}
	switch {
	case e.invalid && !e.resumable, e.code == 4007, e.code == 4009:
		out.forget = true
	case e.reconnect && out.failures <= 1:
		return out // at once
	}
	longest := min(firstPause<<min(out.failures, 10), longestPause)
	// At least half, so that many bots do not come back together.
	out.pause = longest/2 + time.Duration(spread*float64(longest/2))
	return out
}

// fatalClose names the close codes after which Discord wants no reconnection
// ("Opcodes and Status Codes", gateway close event codes).
func fatalClose(code int) error {
	switch code {
	case 4004:
		return errBadToken
	case 4010, 4011:
		return fault.New(fault.Denied, "The bot is in too many servers for one connection, which Lilac does not support.")
	case 4012:
		return fault.New(fault.Invalid, "Discord no longer supports the version of its gateway that Lilac speaks. Update Lilac.")
	case 4013:
		return fault.New(fault.Invalid, "Discord does not know the events that Lilac asks for. Update Lilac.")
	case 4014:
		return fault.New(fault.Denied, "Discord does not let the bot read messages. On https://discord.com/developers/applications choose the application, then Bot, and switch on “Message Content Intent”; then start Lilac again.")
	}
	return nil
}

var errBadToken = fault.New(fault.Unauthenticated, "Discord does not know the bot's token. On https://discord.com/developers/applications choose the application, then Bot, then “Reset Token”; set DISCORD_TOKEN to the new one and start Lilac again.")
