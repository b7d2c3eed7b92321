package pairing

import "time"

// Input is something that happened to a person. The types below are the closed set.
type Input interface{ isInput() }

// Knocked reports a private message of a person who is not allowed.
type Knocked struct {
	Name string
	// Code is a new code, if one is needed.
	Code string
	// Waiting is the number of strangers who wait for the operator.
	Waiting int
}

// Told reports that the person was told the code.
type Told struct{}

// Settled reports the operator's decision.
type Settled struct{ Allow bool }

func (Knocked) isInput() {}
func (Told) isInput()    {}
func (Settled) isInput() {}

// Decide returns the row after an input, and whether it changed. The row of a stranger has no
// State.
func Decide(r Row, in Input, now time.Time) (after Row, changed bool) {
	at := now.UnixMilli()
	switch in := in.(type) {
	case Knocked:
		switch {
		case r.State == Approved, r.State == Denied, r.needsCode(now) && in.Waiting >= MaxPending:
			return r, false
		case r.needsCode(now):
			r.Code, r.State, r.CreatedAt, r.ToldAt = in.Code, Pending, at, 0
		case r.Due() || now.Sub(time.UnixMilli(r.ToldAt)) < repeatAfter:
			return r, false
		}
		r.Name, r.AskedAt = in.Name, at
		return r, true
	case Told:
		r.ToldAt = max(at, r.AskedAt)
		return r, r.State == Pending
	case Settled:
		to := Denied
		if in.Allow {
			to = Approved
		}
		if r.State == "" || r.State == to {
			return r, false
		}
		r.State, r.DecidedAt = to, at
		return r, true
	}
	return r, false
}
