package toolserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"sync"

	"lilac/internal/fault"
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

// Grant is what a token stands for.
type Grant struct {
	// RequestID is the request that the command works for; the token dies with it.
	RequestID string
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
// to everyone: its own.
func (c Caller) May(sessionID string) bool {
	return sessionID != "" && sessionID == c.SessionID
}

// errEnded is the cause with which the calls of a dead token end.
var errEnded = &fault.Error{Kind: fault.Cancelled, Code: "request_ended", Message: "The command or request that this call belonged to has ended."}

// errToken is the one answer to every token that is not good, so that nobody
// learns which part of a guess was right.
var errToken = &fault.Error{
	Kind: fault.Unauthenticated, Code: "token_invalid",
	Message: "The token is missing, wrong or over. A command of the agent gets one that lives as long as the command.",
}

// tokens are the tokens of commands that run.
type tokens struct {
	mu   sync.Mutex
	live map[[sha256.Size]byte]*liveToken
}

type liveToken struct {
	grant Grant
	// over ends when the token is revoked, with errEnded.
	over context.Context
	// calls are how many were made, running how many run; tokens.mu guards both.
	calls, running int
}

// Mint makes a token for a command. It is dead when revoke was called, when its
// request has ended, and when the program has. What still runs at revoke is ended.
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
	t.live[key] = &liveToken{grant: g, over: over}
	return token, func() {
		t.mu.Lock()
		delete(t.live, key)
		t.mu.Unlock()
		end(errEnded)
	}, nil
}

// identify returns what a token stands for.
func (s *Server) identify(token string) (*liveToken, error) {
	t := &s.tokens
	t.mu.Lock()
	live, ok := t.live[sha256.Sum256([]byte(token))]
	t.mu.Unlock()
	if !ok || !s.o.Alive(live.grant.RequestID) && !s.o.unbound {
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
	case live.calls >= maxCalls:
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
