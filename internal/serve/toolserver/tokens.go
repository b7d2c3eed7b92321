package toolserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
)

const (
	// maxLive bounds the valid tokens; each belongs to a running command.
	maxLive = 4096
	// maxCalls bounds the calls with one token, so that a command in a loop cannot fill
	// the history of its request.
	maxCalls = 1000
	// maxAtOnce bounds the concurrent calls with one token.
	maxAtOnce   = 8
	secretBytes = 32
)

// Grant is the identity and the rights of a token: of a command of a request, or of an
// operator.
type Grant struct {
	// Operator is the name of an operator's token. Such a token has no request and no
	// session, and may use all sessions.
	Operator string
	// RequestID is the request of the command. The token is invalid when it ends.
	RequestID string
	// TaskID is set for a background task, which outlives its request. The token is
	// invalid when the task ends.
	TaskID string
	// ReadOnly refuses callables that change something.
	ReadOnly  bool
	SessionID string
	// Client is the surface of the request, "web" or "discord".
	Client string
	// Workspace is the directory that the request works in; "" means the configured one.
	Workspace string
	// CWD is the directory that the command started in; it may be empty.
	CWD string
	// Callables lists ids, or prefixes of ids followed by .*; * alone allows every callable.
	Callables []string
	// Tools restricts the callables further: it is what the request may use.
	Tools grant.Grant
	// Progress, if set, shows a line to people while a call runs.
	Progress func(line string)
}

// Caller is the holder of a token that makes a call.
type Caller struct{ Grant }

// May reports whether the caller may use a private session: its own; for an operator,
// any.
func (c Caller) May(sessionID string) bool {
	return sessionID != "" && (c.Operator != "" || sessionID == c.SessionID)
}

// errEnded cancels the calls of a token whose command or request has ended.
var errEnded = &fault.Error{Kind: fault.Cancelled, Code: "request_ended", Message: "The command or request that this call belonged to has ended."}

// errRevoked cancels the calls of an operator's token that was revoked.
var errRevoked = &fault.Error{Kind: fault.Cancelled, Code: "token_revoked", Message: "The token of this call was revoked."}

// errExpired cancels the calls of a token that has expired.
var errExpired = &fault.Error{Kind: fault.Cancelled, Code: "token_expired", Message: "The token of this call has expired."}

// errToken is the response to every invalid token. It is always the same, so that it
// does not reveal which part of a guess was right.
var errToken = &fault.Error{
	Kind: fault.Unauthenticated, Code: "token_invalid",
	Message: "Missing, invalid or expired token. The token of a command of the agent ends with the command. In a terminal, create one with: export LILAC_TOOL_TOKEN=$(lilac tools token create NAME --allow 'surface.*')",
}

// tokens holds the tokens of running commands, and the tokens of operators that were
// used since the start.
type tokens struct {
	mu              sync.Mutex
	live, operators map[[sha256.Size]byte]*liveToken
}

type liveToken struct {
	grant Grant
	// over ends when the token becomes invalid; until is the time at which it expires,
	// or zero.
	over  context.Context
	end   context.CancelCauseFunc
	until time.Time
	// calls counts all calls, and running those that are running. tokens.mu guards both.
	calls, running int
}

// Mint creates a token for a command. It is valid until revoke is called, its request or
// task ends, or the program exits. revoke cancels its running calls.
func (s *Server) Mint(g Grant) (token string, revoke func(), err error) {
	raw := make([]byte, secretBytes)
	_, _ = rand.Read(raw) // never fails: the standard library ends the program instead
	token = hex.EncodeToString(raw)
	key := sha256.Sum256([]byte(token))
	over, end := context.WithCancelCause(context.Background())
	t := &s.tokens
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.live) >= maxLive {
		end(errEnded)
		return "", nil, fault.New(fault.Unavailable, "Too many commands run at once to give each a token.")
	}
	g.Callables = slices.Clone(g.Callables)
	t.live[key] = &liveToken{grant: g, over: over, end: end}
	return token, func() {
		t.mu.Lock()
		delete(t.live, key)
		t.mu.Unlock()
		end(errEnded)
	}, nil
}

// identify returns the state of a valid token.
func (s *Server) identify(ctx context.Context, token string) (*liveToken, error) {
	if strings.HasPrefix(token, operatorPrefix) && s.o.Operators != nil {
		return s.operator(ctx, token)
	}
	t := &s.tokens
	t.mu.Lock()
	live, ok := t.live[sha256.Sum256([]byte(token))]
	t.mu.Unlock()
	if !ok || !s.o.Alive(live.grant) && !s.o.unbound {
		return nil, errToken
	}
	return live, nil
}

// begin counts a call with a token. The caller must call end when the call is over.
func (s *Server) begin(live *liveToken) (end func(), err error) {
	t := &s.tokens
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case live.over.Err() != nil: // it became invalid after the lookup
		return nil, context.Cause(live.over)
	case live.calls >= maxCalls && live.grant.Operator == "":
		return nil, &fault.Error{Kind: fault.LimitReached, Code: "too_many_calls", Message: "This command has made as many calls as one may; make the rest in another command."}
	case live.running >= maxAtOnce:
		return nil, &fault.Error{Kind: fault.RateLimited, Code: "too_many_at_once", Message: "Too many calls of this command run at once; wait for one to end."}
	}
	live.calls++
	live.running++
	return func() {
		t.mu.Lock()
		live.running--
		t.mu.Unlock()
	}, nil
}
