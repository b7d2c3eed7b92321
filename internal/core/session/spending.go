package session

import (
	"cmp"
	"context"
	"fmt"
	"sync"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
)

// daySpent is the consumption of all sessions on one day.
type daySpent struct {
	mu   sync.Mutex
	day  string
	used Spent
}

// set stores a committed sum. It replaces the old sum: a concurrent first read of the
// day may already include the commit, so adding would count it twice.
func (d *daySpent) set(day string, used Spent) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if day == d.day {
		d.used = used
	}
}

// spentOn returns the consumption of a day; it reads the sum once per day.
func (d *daySpent) spentOn(day string, read func() (Spent, error)) (Spent, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.day != day {
		used, err := read()
		if err != nil {
			return Spent{}, err
		}
		d.day, d.used = day, used
	}
	return d.used, nil
}

// checkBudgets compares the consumption with the limits before a model call. It
// includes what this run has consumed since its last record; of other runs, only
// what they have recorded.
func (r *run) checkBudgets(ctx context.Context, steps int64, used chat.Usage) error {
	now, limits := r.svc.opt.Now(), r.limits()
	today := limits.day(now)
	var day, session Spent
	var err error
	if limits.Day != (Budget{}) {
		if day, err = r.svc.day.spentOn(today, func() (Spent, error) { return r.svc.readDay(ctx, today) }); err != nil {
			return err
		}
	}
	raised := r.state.raisedOn(today)
	if limits.Session != (Budget{}) || r.payer != r.sessionID {
		if session, raised, err = r.spentInSession(ctx, today); err != nil {
			return err
		}
	}
	open := Spent{Usage: used.Beyond(r.chargedUsage), Time: r.unchargedTime()}
	reached := limits.Check(Used{
		Request: Spent{Steps: steps, Usage: used, Time: r.workingTime()},
		Session: session.Add(open), Day: day.Add(open),
	}, raised)
	if reached != nil {
		return &fault.Error{Kind: fault.LimitReached, Code: "limit_reached", Message: reached.Question(), Err: &limitError{*reached}}
	}
	return nil
}

// spentInSession reads the consumption of the session that pays, which other sessions
// may also consume, and the limits that people have raised there.
func (r *run) spentInSession(ctx context.Context, today string) (used Spent, raised map[Limit]int64, err error) {
	raised = r.state.raisedOn(today)
	err = r.svc.opt.DB.Read(ctx, func(q db.Queryer) (err error) {
		if r.payer != r.sessionID {
			payer, err := r.svc.opt.Tables.States.State(q, r.payer)
			if err != nil {
				return err
			}
			raised = withoutPrefix(payer.raisedOn(today), requestPrefix)
		}
		used, err = r.svc.opt.Tables.Spending.SpentIn(q, r.payer)
		return err
	})
	if err != nil {
		return used, nil, fmt.Errorf("read the session's consumption: %w", err)
	}
	return used, raised, nil
}

func (s *Service) readDay(ctx context.Context, day string) (used Spent, err error) {
	err = s.opt.DB.Read(ctx, func(q db.Queryer) (err error) {
		used, err = s.opt.Tables.Spending.SpentOn(q, day)
		return err
	})
	if err != nil {
		return used, fmt.Errorf("read the day's consumption: %w", err)
	}
	return used, nil
}

// ReachedLimit returns the limit of a session or of the day that is reached, or nil.
// Callers that use a model for a session without a request check it first and report
// their consumption with [Service.Spend].
func (s *Service) ReachedLimit(q db.Queryer, sessionID string) (*Reached, error) {
	limits := s.settings.Load().Limits
	today := limits.day(s.opt.Now())
	account, err := s.payer(q, sessionID)
	if err != nil {
		return nil, err
	}
	state, err := s.opt.Tables.States.State(q, account)
	if err != nil {
		return nil, fmt.Errorf("read the raised limits: %w", err)
	}
	session, err := s.opt.Tables.Spending.SpentIn(q, account)
	if err != nil {
		return nil, err
	}
	day, err := s.opt.Tables.Spending.SpentOn(q, today)
	if err != nil {
		return nil, err
	}
	return limits.Check(Used{Session: session, Day: day}, state.raisedOn(today)), nil
}

// Spend adds consumption to the session that pays for sessionID, and to the day.
func (s *Service) Spend(tx *db.Tx, sessionID string, used Spent) error {
	if used == (Spent{}) {
		return nil
	}
	account, err := s.payer(tx, sessionID)
	if err != nil {
		return err
	}
	day := s.settings.Load().Limits.day(s.opt.Now())
	if err := s.opt.Tables.Spending.AddSpent(tx, day, account, used); err != nil {
		return err
	}
	sum, err := s.opt.Tables.Spending.SpentOn(tx, day)
	if err != nil {
		return err
	}
	tx.AfterCommit(func() { s.day.set(day, sum) })
	return nil
}

// payer returns the session that pays for the work of a session.
func (s *Service) payer(q db.Queryer, sessionID string) (string, error) {
	id, err := s.opt.Policy.Payer(q, sessionID)
	if err != nil {
		return "", fmt.Errorf("find the session that pays: %w", err)
	}
	return cmp.Or(id, sessionID), nil
}
