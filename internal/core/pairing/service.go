package pairing

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// retryAfter is the wait after an answer that could not be sent.
const retryAfter = 30 * time.Second

// alphabet has no characters that people confuse; codeLength of them make a code.
const (
	alphabet   = "ABCDEFGHJKMNPQRSTUVWXYZ23456789"
	codeLength = 8
)

// Table stores the people.
type Table interface {
	// Pairing returns a row without a State for an unknown person.
	Pairing(q db.Queryer, platform, userID string) (Row, error)
	// Pairings lists the people of a platform, newest code first.
	Pairings(q db.Queryer, platform string) ([]Row, error)
	SavePairing(tx *db.Tx, r Row) error
	// DeletePending deletes the people whose code was made at a time, in Unix milliseconds, or
	// before it, and about whom the operator has not decided.
	DeletePending(tx *db.Tx, platform string, createdAt int64) error
}

// Options configure a [Service]. All fields but Logger, Changed and Enabled are required.
type Options struct {
	Platform string
	DB       *db.DB
	Table    Table
	// Tell sends a private message. A nonce keeps it from being sent twice.
	Tell func(ctx context.Context, userID, text, nonce string) error
	// Changed is called after the operator's decision about a person.
	Changed func()
	// Enabled reports whether strangers get an answer; nil means that they do.
	Enabled func() bool
	// Random fills a slice with random bytes.
	Random func(b []byte)
	Logger *slog.Logger
}

// Service answers strangers and keeps the operator's decisions.
type Service struct {
	o    Options
	wake chan struct{}
}

// New returns a service.
func New(o Options) *Service {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	if o.Enabled == nil {
		o.Enabled = func() bool { return true }
	}
	return &Service{o: o, wake: make(chan struct{}, 1)}
}

// Knock records a private message of a stranger, in the transaction that stores its event.
func (s *Service) Knock(tx *db.Tx, userID, name string) error {
	if !s.o.Enabled() {
		return nil
	}
	row, err := s.o.Table.Pairing(tx, s.o.Platform, userID)
	if err != nil {
		return fmt.Errorf("read a pairing: %w", err)
	}
	waiting := 0
	if row.needsCode(tx.Now()) {
		if err := s.o.Table.DeletePending(tx, s.o.Platform, tx.Now().Add(-CodeTTL).UnixMilli()); err != nil {
			return fmt.Errorf("delete expired pairings: %w", err)
		}
		all, err := s.o.Table.Pairings(tx, s.o.Platform)
		if err != nil {
			return fmt.Errorf("count the pairings: %w", err)
		}
		for _, r := range all {
			if r.State == Pending {
				waiting++
			}
		}
	}
	row.Platform, row.UserID = s.o.Platform, userID
	after, changed := Decide(row, Knocked{Name: name, Code: s.code(), Waiting: waiting}, tx.Now())
	if !changed {
		return nil
	}
	tx.AfterCommit(s.notify)
	return s.o.Table.SavePairing(tx, after)
}

func (s *Service) notify() {
	select {
	case s.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

// code returns a random code, such as ABCD-EFGH.
func (s *Service) code() string {
	raw := make([]byte, codeLength)
	s.o.Random(raw)
	var b strings.Builder
	for i, c := range raw {
		if i == codeLength/2 {
			b.WriteByte('-')
		}
		b.WriteByte(alphabet[int(c)%len(alphabet)])
	}
	return b.String()
}

// Approved lists the ids of the people who may send private messages.
func (s *Service) Approved(q db.Queryer) (ids []string, err error) {
	all, err := s.o.Table.Pairings(q, s.o.Platform)
	for _, r := range all {
		if r.State == Approved {
			ids = append(ids, r.UserID)
		}
	}
	return ids, err
}

// List lists the people who asked, newest code first, without those whose code has expired.
func (s *Service) List(ctx context.Context) (out []Row, err error) {
	err = s.o.DB.Read(ctx, func(q db.Queryer) error {
		all, err := s.o.Table.Pairings(q, s.o.Platform)
		now := time.Now()
		for _, r := range all {
			if !r.Expired(now) {
				out = append(out, r)
			}
		}
		return err
	})
	return out, err
}

// Settle allows or denies the private messages of a person, by the code or the user's id.
func (s *Service) Settle(ctx context.Context, name string, allow bool) (row Row, err error) {
	err = s.o.DB.Update(ctx, func(tx *db.Tx) error {
		all, err := s.o.Table.Pairings(tx, s.o.Platform)
		if err != nil {
			return fmt.Errorf("list the pairings: %w", err)
		}
		for _, r := range all {
			if r.UserID != name && plain(r.Code) != plain(name) || r.Expired(tx.Now()) {
				continue
			}
			after, changed := Decide(r, Settled{Allow: allow}, tx.Now())
			if row = after; changed {
				tx.AfterCommit(s.o.Changed)
				return s.o.Table.SavePairing(tx, after)
			}
			return nil
		}
		return fault.New(fault.NotFound, "There is no pairing %q, or its code has expired. See lilac pairing list.", name)
	})
	return row, err
}

// plain returns a code without the differences that people make.
func plain(code string) string {
	return strings.ToUpper(strings.NewReplacer("-", "", " ", "").Replace(code))
}

// Run tells strangers their codes until ctx ends.
func (s *Service) Run(ctx context.Context) error {
	for {
		retry := s.tellAll(ctx)
		var again <-chan time.Time
		if retry {
			again = time.After(retryAfter)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-again:
		}
	}
}

// tellAll tells everybody whose answer is due. It returns true if an answer has to be sent
// again.
func (s *Service) tellAll(ctx context.Context) (retry bool) {
	all, err := s.List(ctx)
	if err != nil {
		if ctx.Err() == nil {
			s.o.Logger.ErrorContext(ctx, "cannot read who waits for a pairing code", "error", err)
		}
		return true
	}
	for _, r := range all {
		if !r.Due() {
			continue
		}
		err := s.o.Tell(ctx, r.UserID, text(r.Code), fmt.Sprint("pair-", r.AskedAt))
		kind := fault.KindOf(err)
		if err != nil && kind != fault.NotFound && kind != fault.Denied { // they do not take messages
			if ctx.Err() == nil {
				s.o.Logger.WarnContext(ctx, "cannot send a pairing code", "user_id", r.UserID, "error", err)
			}
			retry = true
			continue
		}
		err = s.o.DB.Update(ctx, func(tx *db.Tx) error {
			now, err := s.o.Table.Pairing(tx, r.Platform, r.UserID)
			if err != nil {
				return err
			}
			after, changed := Decide(now, Told{}, tx.Now())
			if !changed {
				return nil
			}
			return s.o.Table.SavePairing(tx, after)
		})
		retry = retry || err != nil
	}
	return retry
}

// text is the answer to a stranger.
func text(code string) string {
	return fmt.Sprintf("I do not take private messages from you yet. Ask the operator to approve your code %s (lilac pairing approve %s), then write again.", code, code)
}
