package toolserver

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/lazyregexp"
	"lilac/internal/foundation/schedule"
)

// operatorPrefix begins the tokens of operators.
const operatorPrefix = "lilac_"

const (
	// maxOperators bounds the tokens of operators.
	maxOperators = 100
	// maxPatterns bounds the patterns of one token.
	maxPatterns = 50
	// DefaultLife is the default lifetime of a token, as text for [Operators.Create];
	// Forever is the lifetime of a token that does not expire.
	DefaultLife = "90d"
	Forever     = "never"
	// minLife is the shortest lifetime.
	minLife = time.Minute
)

// OperatorToken describes a token that an operator created for a terminal or a script.
// Only the hash of the token itself is stored.
type OperatorToken struct {
	Name      string   `json:"name"`
	Callables []string `json:"callables"`
	// CreatedAt, UsedAt and ExpiresAt are Unix milliseconds; UsedAt is 0 before
	// the first call, ExpiresAt for a token that does not end by itself.
	CreatedAt int64 `json:"createdAt"`
	UsedAt    int64 `json:"usedAt,omitempty"`
	ExpiresAt int64 `json:"expiresAt,omitempty"`
}

// expired reports whether the token has expired at a time.
func (t OperatorToken) expired(now time.Time) bool {
	return t.ExpiresAt > 0 && t.ExpiresAt <= now.UnixMilli()
}

// OperatorCall is the record of a call with an operator's token.
type OperatorCall struct {
	ID        int64  `json:"id"`
	At        int64  `json:"at"`
	Operator  string `json:"operator"`
	Callable  string `json:"callable"`
	SessionID string `json:"sessionId,omitempty"`
	Outcome   string `json:"outcome"`
	Detail    string `json:"detail,omitempty"`
	TookMS    int64  `json:"tookMs"`
}

// OperatorTable stores the tokens of operators and the records of calls with them.
// Package store implements it.
type OperatorTable interface {
	// AddOperator returns a fault.Conflict if the name exists.
	AddOperator(tx *db.Tx, t OperatorToken, hash []byte) error
	// Operators lists them by name.
	Operators(q db.Queryer) ([]OperatorToken, error)
	// Operator returns a fault.NotFound for an unknown hash.
	Operator(q db.Queryer, hash []byte) (OperatorToken, error)
	// DropOperator returns a fault.NotFound for an unknown name.
	DropOperator(tx *db.Tx, name string) error
	AddOperatorCall(tx *db.Tx, c OperatorCall) error
	// OperatorCalls lists calls before an id, newest first; before 0 means the newest.
	OperatorCalls(q db.Queryer, limit int, before int64) ([]OperatorCall, error)
}

// Operators creates and revokes tokens of operators.
type Operators struct {
	DB    *db.DB
	Table OperatorTable
	// Revoked is called with the name of a revoked token; it may be nil.
	Revoked func(name string)

	// callables holds the ids of all callables, and foreign the beginning of those that come
	// and go; [New] sets both.
	callables []string
	foreign   string
}

var operatorName = lazyregexp.New(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)

// Create creates a token with a new name. Only this call returns the token itself. life
// is its lifetime, for example 36h or 30d, or [Forever]; "" means [DefaultLife].
func (o *Operators) Create(ctx context.Context, name string, callables []string, life string) (token string, err error) {
	lives, err := lifeOf(life)
	if err != nil {
		return "", err
	}
	if !operatorName().MatchString(name) {
		return "", fault.InvalidField("name", "A token's name has 1 to 64 letters, digits, dots, hyphens and underscores, not %q.", name)
	}
	if len(callables) == 0 || len(callables) > maxPatterns {
		return "", fault.InvalidField("callables", "Name 1 to %d callables that the token allows: ids, prefixes such as surface.*, or * for all.", maxPatterns)
	}
	for _, p := range callables {
		if err := o.checkPattern(p); err != nil {
			return "", err
		}
	}
	raw := make([]byte, secretBytes)
	_, _ = rand.Read(raw) // never fails: the standard library ends the program instead
	token = operatorPrefix + hex.EncodeToString(raw)
	sum := sha256.Sum256([]byte(token))
	err = o.DB.Update(ctx, func(tx *db.Tx) error {
		all, err := o.Table.Operators(tx)
		if err != nil {
			return err
		}
		if len(all) >= maxOperators {
			return fault.New(fault.LimitReached, "There are %d tokens already: revoke some.", len(all))
		}
		made := OperatorToken{Name: name, Callables: slices.Clone(callables), CreatedAt: tx.Now().UnixMilli()}
		if lives > 0 {
			made.ExpiresAt = tx.Now().Add(lives).UnixMilli()
		}
		return o.Table.AddOperator(tx, made, sum[:])
	})
	if err != nil {
		return "", err
	}
	return token, nil
}

// checkPattern refuses an invalid pattern, and one that matches no callable: it is
// probably misspelled, and the token would allow less than intended.
func (o *Operators) checkPattern(p string) error {
	if p == "*" {
		return nil
	}
	if o.foreign != "" && strings.HasPrefix(p, o.foreign) && grant.CheckPattern("callables", p) == nil {
		if !strings.HasSuffix(p, ".*") && strings.Count(p, ".") < 2 {
			return fault.InvalidField("callables", "%q names no callable. Use %s.* for all below it.", p, p)
		}
		return nil // callables of these names may come later
	}
	if !callableID.MatchString(strings.TrimSuffix(p, ".*")) {
		return fault.InvalidField("callables", "%q is neither the id of a callable nor a beginning such as surface.*", p)
	}
	if slices.ContainsFunc(o.callables, func(id string) bool { return allows([]string{p}, id) }) {
		return nil
	}
	names := slices.Clone(o.callables)
	for _, id := range o.callables {
		for i := range len(id) {
			if id[i] == '.' {
				names = append(names, id[:i+1]+"*")
			}
		}
	}
	slices.Sort(names)
	return fault.InvalidField("callables", "There is no callable %q.%s", p, fault.DidYouMean(p, slices.Compact(names)))
}

// lifeOf parses the lifetime of a token; zero means that it does not expire.
func lifeOf(life string) (time.Duration, error) {
	if life == Forever {
		return 0, nil
	}
	lives, err := schedule.ParseDuration(cmp.Or(life, DefaultLife))
	if err != nil || lives < minLife {
		return 0, fault.InvalidField("expires", "The lifetime %q is invalid. Use a duration of at least a minute, such as 36h or 30d, or %s.", life, Forever)
	}
	return lives, nil
}

// List lists the tokens by name.
func (o *Operators) List(ctx context.Context) (out []OperatorToken, err error) {
	err = o.DB.Read(ctx, func(q db.Queryer) error {
		out, err = o.Table.Operators(q)
		return err
	})
	return out, err
}

// Revoke makes a token invalid and cancels its running calls.
func (o *Operators) Revoke(ctx context.Context, name string) error {
	err := o.DB.Update(ctx, func(tx *db.Tx) error { return o.Table.DropOperator(tx, name) })
	if err == nil && o.Revoked != nil {
		o.Revoked(name)
	}
	return err
}

// Calls lists what was called with the tokens, the newest first, before an id;
// 0 begins.
func (o *Operators) Calls(ctx context.Context, limit int, before int64) (out []OperatorCall, err error) {
	err = o.DB.Read(ctx, func(q db.Queryer) error {
		out, err = o.Table.OperatorCalls(q, limit, before)
		return err
	})
	return out, err
}

// Record writes a call of an operator down.
func (o *Operators) Record(ctx context.Context, r Record) error {
	return o.DB.Update(ctx, func(tx *db.Tx) error {
		return o.Table.AddOperatorCall(tx, OperatorCall{
			At: tx.Now().UnixMilli(), Operator: r.Caller.Operator, Callable: r.Callable, SessionID: r.SessionID,
			Outcome: r.Outcome, Detail: r.Message, TookMS: r.Took.Milliseconds(),
		})
	})
}

// operator returns what a token of an operator stands for.
func (s *Server) operator(ctx context.Context, token string) (*liveToken, error) {
	sum := sha256.Sum256([]byte(token))
	var t OperatorToken
	err := s.o.Operators.DB.Read(ctx, func(q db.Queryer) (err error) {
		t, err = s.o.Operators.Table.Operator(q, sum[:])
		return err
	})
	if fault.KindOf(err) == fault.NotFound {
		return nil, errToken
	}
	if err != nil {
		return nil, err
	}
	if t.expired(time.Now()) {
		s.revoked(t.Name)
		return nil, errToken
	}
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	live, ok := s.tokens.operators[sum]
	if !ok {
		over, end := context.WithCancelCause(context.Background())
		live = &liveToken{grant: Grant{Operator: t.Name, Callables: t.Callables}, over: over, end: end}
		if t.ExpiresAt > 0 {
			live.until = time.UnixMilli(t.ExpiresAt)
		}
		s.tokens.operators[sum] = live
	}
	return live, nil
}

// revoked ends the calls of an operator's token that is dead.
func (s *Server) revoked(name string) {
	s.tokens.mu.Lock()
	defer s.tokens.mu.Unlock()
	for sum, live := range s.tokens.operators {
		if live.grant.Operator == name {
			delete(s.tokens.operators, sum)
			live.end(errRevoked)
		}
	}
}
