package kernel

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"lilac/internal/engine/db"
)

// Core connects a decider to its tables. K identifies one state (a session id, a
// workflow id), S is the state, I an input, and E an effect.
type Core[K, S, I, E any] struct {
	// Load returns the state of a key, or the zero state if there is none.
	Load func(tx *db.Tx, key K) (S, error)
	// Decide is the pure decider. It must not modify the state that it receives.
	Decide func(state S, in I, now time.Time) (S, []E)
	// Save writes the state after a decision. It runs before the effects.
	Save func(tx *db.Tx, key K, before, after S) error
	// Carry carries out one effect in the transaction: it writes rows, publishes
	// events, or registers work with [db.Tx.AfterCommit].
	Carry func(tx *db.Tx, key K, after S, effect E) error
	// Wake runs after the transaction has committed. It must not block. It may be
	// nil.
	Wake func(key K, before, after S)
}

// Apply makes one decision in the caller's transaction and returns the new state
// and the effects that were carried out. If it returns an error, the caller must
// return it from the transaction, which undoes everything.
func (c Core[K, S, I, E]) Apply(tx *db.Tx, key K, in I) (S, []E, error) {
	before, err := c.Load(tx, key)
	if err != nil {
		return before, nil, fmt.Errorf("load state: %w", err)
	}
	return c.ApplyTo(tx, key, before, in)
}

// ApplyTo is like Apply for a caller that has loaded the state in the same
// transaction.
func (c Core[K, S, I, E]) ApplyTo(tx *db.Tx, key K, before S, in I) (S, []E, error) {
	after, effects := c.Decide(before, in, tx.Now())
	if err := c.Save(tx, key, before, after); err != nil {
		return before, nil, fmt.Errorf("save state: %w", err)
	}
	for _, effect := range effects {
		if err := c.Carry(tx, key, after, effect); err != nil {
			return before, nil, fmt.Errorf("%s: %w", action(effect), err)
		}
	}
	if c.Wake != nil {
		tx.AfterCommit(func() { c.Wake(key, before, after) })
	}
	return after, effects, nil
}

// action names an effect in words, because operators read it in a dead letter: session.CreateRequest
// is "session: create request".
func action(effect any) string {
	var words strings.Builder
	for _, r := range strings.TrimPrefix(fmt.Sprintf("%T", effect), "*") {
		switch {
		case r == '.':
			words.WriteByte(':')
		case unicode.IsUpper(r):
			words.WriteByte(' ')
			words.WriteRune(unicode.ToLower(r))
		default:
			words.WriteRune(r)
		}
	}
	return words.String()
}
