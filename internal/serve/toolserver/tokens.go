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
)

const (
	// maxLive bounds how many tokens live at a time; each belongs to a command
	// that runs.
	maxLive = 4096
	// maxCalls bounds how often one token may be used, so that a command in a
	// loop cannot fill the story of its request.
	maxCalls = 1000
	// maxAtOnce bounds the calls that run with one token at a time.
	maxAtOnce   = 8
	secretBytes = 32
)

// Grant is what a token stands for: a command of a request, or an operator.
type Grant struct {
	// Operator is the name of an operator's token; it has no request and no
	// session of its own, and may use all sessions.
	Operator string
	// RequestID is the request that the command works for; the token dies with it.
	RequestID string
	// TaskID is set for a background task, which outlives its request: then the
	// token dies with the task.
	TaskID string
	// ReadOnly refuses what changes something.
	ReadOnly  bool
	SessionID string
	// Client is the surface of the request, "web" or "discord".
	Client string
	// CWD is the directory that the command started in; it may be empty.
	CWD string
	// Callables are ids, or beginnings of ids and .*; * alone is every one.
	Callables []string
}

// Caller is who makes a call.
type Caller struct{ Grant }

// May reports whether the caller may see and act in a session that is not open
// to everyone: its own, for an operator each.
func (c Caller) May(sessionID string) bool {
	return sessionID != "" && (c.Operator != "" || sessionID == c.SessionID)
}

// errEnded is the cause with which the calls of a dead token end.
var errEnded = &fault.Error{Kind: fault.Cancelled, Code: "request_ended", Message: "The command or request that this call belonged to has ended."}

// errRevoked is the cause with which the calls of an operator's token end.
var errRevoked = &fault.Error{Kind: fault.Cancelled, Code: "token_revoked", Message: "The token of this call was revoked."}

// errExpired is the cause with which the calls of a token end whose time is over.
var errExpired = &fault.Error{Kind: fault.Cancelled, Code: "token_expired", Message: "The token of this call is over."}

// errToken is the one answer to every token that is not good, so that nobody
// learns which part of a guess was right.
var errToken = &fault.Error{
	Kind: fault.Unauthenticated, Code: "token_invalid",
	Message: "The token is missing, wrong or over. A command of the agent gets one that lives as long as the command; for a terminal make one with: lilac tools token create",
}

// tokens are the tokens of commands that run, and those of operators that were
// used.
type tokens struct {
	mu              sync.Mutex
	live, operators map[[sha256.Size]byte]*liveToken
}

type liveToken struct {
	grant Grant
	// over ends when the token is dead, until is when it dies by itself, zero
	// for never.
	over  context.Context
	end   context.CancelCauseFunc
	until time.Time
	// calls are how many were made, running how many run; tokens.mu guards both.
	calls, running int
}

// Mint makes a token for a command. It is dead when revoke was called, when its
// request or task has ended, and when the program has. What still runs at revoke is ended.
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

// identify returns what a token stands for.
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

// begin counts a call of a token; end is called when it is over.
func (s *Server) begin(live *liveToken) (end func(), err error) {
	t := &s.tokens
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case live.over.Err() != nil: // it died since it was looked up
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
