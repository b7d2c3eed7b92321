package outbox_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/core/outbox"
	"lilac/internal/core/surface"
	"lilac/internal/foundation/fault"
)

func TestADueRowIsSentSearchedForOrFinished(t *testing.T) {
	now := time.UnixMilli(100_000)
	row := func(s outbox.State, change func(*outbox.Row)) outbox.Row {
		r := outbox.Row{State: s, ExpiresAt: 200_000, CreatedAt: 90_000}
		if change != nil {
			change(&r)
		}
		return r
	}
	for name, c := range map[string]struct {
		row    outbox.Row
		state  outbox.State
		effect outbox.Effect
	}{
		"a planned row is sent":                                {row(outbox.Planned, nil), outbox.Sending, outbox.Call{}},
		"a crash in the call is reconciled":                    {row(outbox.Sending, nil), outbox.Unknown, outbox.Search{}},
		"an unknown outcome is reconciled":                     {row(outbox.Unknown, nil), outbox.Unknown, outbox.Search{}},
		"a row that is too old is reconciled, never sent":      {row(outbox.Unknown, func(r *outbox.Row) { r.ExpiresAt = 1 }), outbox.Unknown, outbox.Search{}},
		"a planned row that is too old expires":                {row(outbox.Planned, func(r *outbox.Row) { r.ExpiresAt = 100_000 }), outbox.Expired, outbox.Finish{}},
		"a row that was tried too often fails":                 {row(outbox.Planned, func(r *outbox.Row) { r.Attempts = outbox.MaxAttempts }), outbox.Failed, outbox.Finish{}},
		"what only the platform brought to nothing is excused": {row(outbox.Planned, func(r *outbox.Row) { r.Attempts, r.Excused = 90, 91-outbox.MaxAttempts }), outbox.Sending, outbox.Call{}},
		"the rest of it is not":                                {row(outbox.Planned, func(r *outbox.Row) { r.Attempts, r.Excused = 90, 90-outbox.MaxAttempts }), outbox.Failed, outbox.Finish{}},
		"a row that waits waits":                               {row(outbox.Planned, func(r *outbox.Row) { r.NotBefore = 100_001 }), outbox.Planned, outbox.Wait{Until: 100_001}},
		"the longest wait is waited":                           {row(outbox.Planned, func(r *outbox.Row) { r.NotBefore = 400_000 }), outbox.Planned, outbox.Wait{Until: 400_000}},
		"a longer one was of a clock that was set back":        {row(outbox.Planned, func(r *outbox.Row) { r.NotBefore = 400_001 }), outbox.Sending, outbox.Call{}},
		"an unknown row that waits waits":                      {row(outbox.Unknown, func(r *outbox.Row) { r.NotBefore = 100_001 }), outbox.Unknown, outbox.Wait{Until: 100_001}},
		"nothing happens to a sent row":                        {row(outbox.Sent, nil), outbox.Sent, nil},
		"nothing happens to a failed row, however old it is":   {row(outbox.Failed, func(r *outbox.Row) { r.ExpiresAt = 1 }), outbox.Failed, nil},
		"nothing happens to an expired row, whatever is left":  {row(outbox.Expired, nil), outbox.Expired, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, effects := outbox.Decide(c.row, outbox.Due{}, now)
			var want []outbox.Effect
			if c.effect != nil {
				want = []outbox.Effect{c.effect}
			}
			if got.State != c.state {
				t.Errorf("state %s, want %s", got.State, c.state)
			}
			if diff := cmp.Diff(want, effects); diff != "" {
				t.Errorf("effects: -want +got\n%s", diff)
			}
			if _, called := c.effect.(outbox.Call); called && (got.Attempts != c.row.Attempts+1 || got.SendingAt != 100_000) {
				t.Errorf("the attempt is not counted before the call: %+v", got)
			}
		})
	}
}

func TestTheOutcomeOfACallOrSearchDecidesTheState(t *testing.T) {
	now, made := time.UnixMilli(100_000), surface.Message{ID: "7"}
	sending := outbox.Row{State: outbox.Sending, Attempts: 2, SendingAt: 99_000, ExpiresAt: 200_000}
	failure := func(k fault.Kind) error { return fault.New(k, "no") }
	later := func(wait time.Duration) error {
		return fmt.Errorf("send: %w", &fault.Error{Kind: fault.RateLimited, Message: "no", RetryAfter: wait})
	}
	for name, c := range map[string]struct {
		got  outbox.Row
		want outbox.Row
	}{
		"sent":                 {called(sending, made, nil, now), outbox.Row{State: outbox.Sent, MessageID: "7"}},
		"refused":              {called(sending, made, failure(fault.Denied), now), outbox.Row{State: outbox.Failed, Reason: "no"}},
		"the channel is gone":  {called(sending, made, failure(fault.NotFound), now), outbox.Row{State: outbox.Failed, Reason: "no"}},
		"not carried out":      {called(sending, made, failure(fault.Unavailable), now), outbox.Row{State: outbox.Planned, Reason: "no", Excused: 1, NotBefore: 102_000}},
		"too many":             {called(sending, made, failure(fault.RateLimited), now), outbox.Row{State: outbox.Planned, Reason: "no", Excused: 1, NotBefore: 102_000}},
		"too many, sooner":     {called(sending, made, later(time.Second), now), outbox.Row{State: outbox.Planned, Reason: "no", Excused: 1, NotBefore: 102_000}},
		"too many, later":      {called(sending, made, later(time.Minute), now), outbox.Row{State: outbox.Planned, Reason: "no", Excused: 1, NotBefore: 160_000}},
		"too many, much later": {called(sending, made, later(time.Hour), now), outbox.Row{State: outbox.Planned, Reason: "no", Excused: 1, NotBefore: 400_000}},
		"the token is refused": {called(sending, made, failure(fault.Unauthenticated), now), outbox.Row{State: outbox.Planned, Reason: "no", Excused: 1, NotBefore: 102_000}},
		"nobody knows":         {called(sending, made, failure(fault.Timeout), now), outbox.Row{State: outbox.Unknown, Reason: "no", Excused: 1, NotBefore: 102_000}},
		"our own trouble":      {called(sending, made, failure(fault.Internal), now), outbox.Row{State: outbox.Unknown, Reason: "no", NotBefore: 102_000}},
		"found":                {found(sending, made, true, nil, now), outbox.Row{State: outbox.Sent, MessageID: "7"}},
		"not found too early":  {found(sending, made, false, nil, now), outbox.Row{State: outbox.Sending, NotBefore: 102_000}},
		"not found":            {found(sending, made, false, nil, now.Add(3*time.Second)), outbox.Row{State: outbox.Planned}},
		"cannot be searched":   {found(sending, made, false, failure(fault.Denied), now), outbox.Row{State: outbox.Failed, Reason: "no"}},
		"search later":         {found(sending, made, false, failure(fault.Unavailable), now), outbox.Row{State: outbox.Sending, NotBefore: 102_000}},
		"search past its time": {found(sending, made, false, failure(fault.Unavailable), now.Add(time.Hour)), outbox.Row{State: outbox.Sending, NotBefore: 3_702_000}},
		"search in vain until": {found(sending, made, false, failure(fault.Unavailable), now.Add(2*time.Hour)), outbox.Row{State: outbox.Expired, Unsure: true}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.want.State == outbox.Expired {
				c.want.Reason, c.want.NotBefore = c.got.Reason, c.got.NotBefore
			}
			c.want.Attempts, c.want.SendingAt, c.want.ExpiresAt = sending.Attempts, sending.SendingAt, sending.ExpiresAt
			if diff := cmp.Diff(c.want, c.got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// A call that the clock puts into the future was made before it was set back:
// its message may still appear, and is looked for again soon.
func TestAClockThatWasSetBackDelaysNoSearch(t *testing.T) {
	sending := outbox.Row{State: outbox.Unknown, Attempts: 1, SendingAt: 3_600_000, ExpiresAt: 9_000_000}
	got := found(sending, surface.Message{}, false, nil, time.UnixMilli(100_000))
	if got.State != outbox.Unknown || got.NotBefore != 103_000 {
		t.Errorf("not found too early: %+v", got)
	}
	if got = found(got, surface.Message{}, false, nil, time.UnixMilli(103_000)); got.State != outbox.Planned {
		t.Errorf("not found: %+v", got)
	}
}

func TestAWithdrawnRowIsNotSentAgain(t *testing.T) {
	now := time.UnixMilli(100_000)
	row := func(s outbox.State) outbox.Row { return outbox.Row{State: s, ExpiresAt: 200_000, Attempts: 1} }
	withdrawn := func(s outbox.State) outbox.Row {
		r, _ := outbox.Decide(row(s), outbox.Withdrawn{}, now)
		return r
	}
	due := func(r outbox.Row, unwanted bool) outbox.Row {
		r, _ = outbox.Decide(r, outbox.Due{Unwanted: unwanted}, now)
		return r
	}
	made, failure := surface.Message{ID: "7"}, func(k fault.Kind) error { return fault.New(k, "no") }
	for name, c := range map[string]struct {
		got       outbox.Row
		state     outbox.State
		withdrawn bool
	}{
		"before it is sent":              {withdrawn(outbox.Planned), outbox.Failed, true},
		"in flight":                      {withdrawn(outbox.Sending), outbox.Sending, true},
		"with an unknown outcome":        {withdrawn(outbox.Unknown), outbox.Unknown, true},
		"just before the call":           {due(withdrawn(outbox.Planned), false), outbox.Failed, true},
		"by an owner that is asked":      {due(row(outbox.Planned), true), outbox.Failed, true},
		"the call was not accepted":      {called(withdrawn(outbox.Sending), made, failure(fault.Unavailable), now), outbox.Failed, true},
		"the search did not find it":     {found(withdrawn(outbox.Unknown), made, false, nil, now), outbox.Failed, true},
		"it did arrive":                  {called(withdrawn(outbox.Sending), made, nil, now), outbox.Sent, true},
		"the outcome is not known":       {called(withdrawn(outbox.Sending), made, failure(fault.Timeout), now), outbox.Unknown, true},
		"control: it was not withdrawn":  {due(row(outbox.Planned), false), outbox.Sending, false},
		"a final row stays as it is":     {withdrawn(outbox.Sent), outbox.Sent, false},
		"a final row is not sent again":  {due(row(outbox.Sent), false), outbox.Sent, false},
		"a final row ignores an outcome": {called(row(outbox.Expired), made, nil, now), outbox.Expired, false},
	} {
		if c.got.State != c.state || c.got.Withdrawn != c.withdrawn {
			t.Errorf("%s: %s, withdrawn %t; want %s, withdrawn %t", name, c.got.State, c.got.Withdrawn, c.state, c.withdrawn)
		}
	}
}

// Every row that becomes final has its hook called, once, with the message.
func TestARowFinishesExactlyOnce(t *testing.T) {
	now, made := time.UnixMilli(100_000), surface.Message{ID: "7"}
	sending := outbox.Row{State: outbox.Sending, ExpiresAt: 200_000}
	for name, c := range map[string]struct {
		in   outbox.Input
		want []outbox.Effect
	}{
		"sent":              {outbox.Called{Message: made}, []outbox.Effect{outbox.Finish{Message: made}}},
		"refused":           {outbox.Called{Err: fault.New(fault.Denied, "no")}, []outbox.Effect{outbox.Finish{}}},
		"found":             {outbox.Found{Message: made, Found: true}, []outbox.Effect{outbox.Finish{Message: made}}},
		"control: it waits": {outbox.Called{Err: fault.New(fault.Unavailable, "no")}, []outbox.Effect{outbox.Wait{Until: 101_000}}},
	} {
		t.Run(name, func(t *testing.T) {
			r, effects := outbox.Decide(sending, c.in, now)
			if diff := cmp.Diff(c.want, effects); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if _, again := outbox.Decide(r, c.in, now); r.State.Final() && again != nil {
				t.Errorf("a final row has the effects %v", again)
			}
		})
	}
}

func called(r outbox.Row, m surface.Message, err error, now time.Time) outbox.Row {
	r, _ = outbox.Decide(r, outbox.Called{Message: m, Err: err}, now)
	return r
}

func found(r outbox.Row, m surface.Message, found bool, err error, now time.Time) outbox.Row {
	r, _ = outbox.Decide(r, outbox.Found{Message: m, Found: found, Err: err}, now)
	return r
}
