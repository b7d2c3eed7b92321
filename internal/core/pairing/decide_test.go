package pairing

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDecide(t *testing.T) {
	now := time.UnixMilli(10_000_000_000)
	ms := now.UnixMilli()
	hour := time.Hour.Milliseconds()
	pending := Row{UserID: "1", Name: "Ann", Code: "OLD", State: Pending, CreatedAt: ms - 2*hour, AskedAt: ms - 2*hour, ToldAt: ms - 2*hour}
	with := func(r Row, f func(*Row)) Row { f(&r); return r }
	for name, c := range map[string]struct {
		row     Row
		in      Input
		want    Row
		changed bool
	}{
		"a stranger gets a code": {
			Row{UserID: "1"},
			Knocked{Name: "Ann", Code: "NEW"},
			Row{UserID: "1", Name: "Ann", Code: "NEW", State: Pending, CreatedAt: ms, AskedAt: ms},
			true,
		},
		"too many wait":              {Row{UserID: "1"}, Knocked{Code: "NEW", Waiting: MaxPending}, Row{UserID: "1"}, false},
		"too many wait to renew":     {with(pending, func(r *Row) { r.CreatedAt = ms - CodeTTL.Milliseconds() }), Knocked{Code: "NEW", Waiting: MaxPending}, with(pending, func(r *Row) { r.CreatedAt = ms - CodeTTL.Milliseconds() }), false},
		"again after an hour":        {pending, Knocked{Name: "Ann", Code: "NEW"}, with(pending, func(r *Row) { r.AskedAt = ms }), true},
		"again at once":              {with(pending, func(r *Row) { r.ToldAt = ms - 1 }), Knocked{Code: "NEW"}, with(pending, func(r *Row) { r.ToldAt = ms - 1 }), false},
		"before it was told":         {with(pending, func(r *Row) { r.ToldAt = 0 }), Knocked{Code: "NEW"}, with(pending, func(r *Row) { r.ToldAt = 0 }), false},
		"an expired code is renewed": {with(pending, func(r *Row) { r.CreatedAt = ms - CodeTTL.Milliseconds() }), Knocked{Name: "Ann", Code: "NEW"}, with(pending, func(r *Row) { r.Code, r.CreatedAt, r.AskedAt, r.ToldAt = "NEW", ms, ms, 0 }), true},
		"the denied get no answer":   {with(pending, func(r *Row) { r.State = Denied }), Knocked{Code: "NEW"}, with(pending, func(r *Row) { r.State = Denied }), false},
		"told":                       {with(pending, func(r *Row) { r.AskedAt = ms }), Told{}, with(pending, func(r *Row) { r.AskedAt, r.ToldAt = ms, ms }), true},
		"approved":                   {pending, Settled{Allow: true}, with(pending, func(r *Row) { r.State, r.DecidedAt = Approved, ms }), true},
		"denied":                     {pending, Settled{}, with(pending, func(r *Row) { r.State, r.DecidedAt = Denied, ms }), true},
		"denied later":               {with(pending, func(r *Row) { r.State = Approved }), Settled{}, with(pending, func(r *Row) { r.State, r.DecidedAt = Denied, ms }), true},
		"approved twice":             {with(pending, func(r *Row) { r.State = Approved }), Settled{Allow: true}, with(pending, func(r *Row) { r.State = Approved }), false},
		"a stranger is not approved": {Row{UserID: "1"}, Settled{Allow: true}, Row{UserID: "1"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, changed := Decide(c.row, c.in, now)
			if diff := cmp.Diff(c.want, got); diff != "" || changed != c.changed {
				t.Errorf("changed: %v (-want +got)\n%s", changed, diff)
			}
		})
	}
}
