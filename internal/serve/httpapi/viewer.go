package httpapi

import (
	"context"
	"fmt"
	"time"

	"lilac/internal/core/account"
)

const (
	// viewerInterval is the longest time for which an event stream stays open after its person was
	// signed out, or shows a conversation that is not shared any more.
	viewerInterval = 2 * time.Second
	// maxSeen bounds the conversations that a stream remembers.
	maxSeen = 10_000
)

// viewer decides what the event stream of a person with an account shows. It belongs to the
// goroutine of the stream.
type viewer struct {
	people people
	caller account.Caller
	now    func() time.Time
	seen   map[string]seenUntil
}

type seenUntil struct {
	visible bool
	until   time.Time
}

// newViewer returns nil for the operator's token, which sees everything until the client leaves.
func (s *streams) newViewer(ctx context.Context) *viewer {
	c := callerOf(ctx)
	if c.Role == account.Operator && !c.HasAccount() {
		return nil
	}
	return &viewer{people: s.people, caller: c, now: s.now, seen: map[string]seenUntil{}}
}

// sees reports whether the person may see a session, or could at most viewerInterval ago.
func (v *viewer) sees(ctx context.Context, sessionID string) (bool, error) {
	if v == nil || v.caller.Role == account.Operator {
		return true, nil
	}
	if sessionID == "" {
		return false, nil
	}
	now := v.now()
	if known, ok := v.seen[sessionID]; ok && now.Before(known.until) {
		return known.visible, nil
	}
	visible, err := v.people.sees(withCallerContext(ctx, v.caller), sessionID)
	if err != nil {
		return false, fmt.Errorf("check who may see a session: %w", err)
	}
	if len(v.seen) >= maxSeen {
		clear(v.seen)
	}
	v.seen[sessionID] = seenUntil{visible, now.Add(viewerInterval)}
	return visible, nil
}

// check returns errEndOfStream if the person is not signed in any more, has another role, or may
// not see the session of the stream; "" is the stream of all sessions.
func (v *viewer) check(ctx context.Context, sessionID string) error {
	now, known, err := v.people.service.Again(ctx, v.caller)
	if err != nil {
		return fmt.Errorf("check who is signed in: %w", err)
	}
	if !known || now.Role != v.caller.Role {
		return errEndOfStream
	}
	if sessionID == "" {
		return nil
	}
	visible, err := v.sees(ctx, sessionID)
	if err == nil && !visible {
		err = errEndOfStream
	}
	return err
}
