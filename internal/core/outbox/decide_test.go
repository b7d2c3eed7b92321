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

func TestWhatARowNeedsNext(t *testing.T) {
	now := time.UnixMilli(100_000)
	row := func(s outbox.State, change func(*outbox.Row)) outbox.Row {
		r := outbox.Row{State: s, ExpiresAt: 200_000, CreatedAt: 90_000}
		if change != nil {
			change(&r)
		}
		return r
	}
	for name, c := range map[string]struct {
		row   outbox.Row
		state outbox.State
		do    outbox.Action
	}{
		"a planned row is sent":                                {row(outbox.Planned, nil), outbox.Sending, outbox.Call},
		"a crash in the call is reconciled":                    {row(outbox.Sending, nil), outbox.Unknown, outbox.Reconcile},
		"an unknown outcome is reconciled":                     {row(outbox.Unknown, nil), outbox.Unknown, outbox.Reconcile},
		"a row that is too old is reconciled, never sent":      {row(outbox.Unknown, func(r *outbox.Row) { r.ExpiresAt = 1 }), outbox.Unknown, outbox.Reconcile},
		"a planned row that is too old expires":                {row(outbox.Planned, func(r *outbox.Row) { r.ExpiresAt = 100_000 }), outbox.Expired, outbox.Rest},
		"a row that was tried too often fails":                 {row(outbox.Planned, func(r *outbox.Row) { r.Attempts = outbox.MaxAttempts }), outbox.Failed, outbox.Rest},
		"what only the platform brought to nothing is excused": {row(outbox.Planned, func(r *outbox.Row) { r.Attempts, r.Excused = 90, 91-outbox.MaxAttempts }), outbox.Sending, outbox.Call},
		"the rest of it is not":                                {row(outbox.Planned, func(r *outbox.Row) { r.Attempts, r.Excused = 90, 90-outbox.MaxAttempts }), outbox.Failed, outbox.Rest},
		"a row that waits waits":                               {row(outbox.Planned, func(r *outbox.Row) { r.NotBefore = 100_001 }), outbox.Planned, outbox.Wait},
		"the longest wait is waited":                           {row(outbox.Planned, func(r *outbox.Row) { r.NotBefore = 400_000 }), outbox.Planned, outbox.Wait},
		"a longer one was of a clock that was set back":        {row(outbox.Planned, func(r *outbox.Row) { r.NotBefore = 400_001 }), outbox.Sending, outbox.Call},
		"an unknown row that waits waits":                      {row(outbox.Unknown, func(r *outbox.Row) { r.NotBefore = 100_001 }), outbox.Unknown, outbox.Wait},
		"nothing happens to a sent row":                        {row(outbox.Sent, nil), outbox.Sent, outbox.Rest},
		"nothing happens to a failed row, however old it is":   {row(outbox.Failed, func(r *outbox.Row) { r.ExpiresAt = 1 }), outbox.Failed, outbox.Rest},
		"nothing happens to an expired row, whatever is left":  {row(outbox.Expired, nil), outbox.Expired, outbox.Rest},
	} {
		t.Run(name, func(t *testing.T) {
			got, do := outbox.Next(c.row, now)
			if got.State != c.state || do != c.do {
				t.Errorf("%s and %s, want %s and %s", got.State, do, c.state, c.do)
			}
			if do == outbox.Call && (got.Attempts != c.row.Attempts+1 || got.SendingAt != 100_000) {
				t.Errorf("the attempt is not counted before the call: %+v", got)
			}
		})
	}
}

func TestWhatAnOutcomeMeans(t *testing.T) {
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
		"sent":                 {outbox.Called(sending, made, nil, now), outbox.Row{State: outbox.Sent, MessageID: "7"}},
		"refused":              {outbox.Called(sending, made, failure(fault.Denied), now), outbox.Row{State: outbox.Failed, Reason: "no"}},
		"the channel is gone":  {outbox.Called(sending, made, failure(fault.NotFound), now), outbox.Row{State: outbox.Failed, Reason: "no"}},
		"not carried out":      {outbox.Called(sending, made, failure(fault.Unavailable), now), outbox.Row{State: outbox.Planned, Reason: "no", Excused: 1, NotBefore: 102_000}},
		"too many":             {outbox.Called(sending, made, failure(fault.RateLimited), now), outbox.Row{State: outbox.Planned, Reason: "no", Excused: 1, NotBefore: 102_000}},
		"too many, sooner":     {outbox.Called(sending, made, later(time.Second), now), outbox.Row{State: outbox.Planned, Reason: "no", Excused: 1, NotBefore: 102_000}},
		"too many, later":      {outbox.Called(sending, made, later(time.Minute), now), outbox.Row{State: outbox.Planned, Reason: "no", Excused: 1, NotBefore: 160_000}},
		"too many, much later": {outbox.Called(sending, made, later(time.Hour), now), outbox.Row{State: outbox.Planned, Reason: "no", Excused: 1, NotBefore: 400_000}},
		"the token is refused": {outbox.Called(sending, made, failure(fault.Unauthenticated), now), outbox.Row{State: outbox.Planned, Reason: "no", Excused: 1, NotBefore: 102_000}},
		"nobody knows":         {outbox.Called(sending, made, failure(fault.Timeout), now), outbox.Row{State: outbox.Unknown, Reason: "no", Excused: 1, NotBefore: 102_000}},
		"our own trouble":      {outbox.Called(sending, made, failure(fault.Internal), now), outbox.Row{State: outbox.Unknown, Reason: "no", NotBefore: 102_000}},
		"found":                {outbox.Found(sending, made, true, nil, now), outbox.Row{State: outbox.Sent, MessageID: "7"}},
		"not found too early":  {outbox.Found(sending, made, false, nil, now), outbox.Row{State: outbox.Sending, NotBefore: 102_000}},
		"not found":            {outbox.Found(sending, made, false, nil, now.Add(3*time.Second)), outbox.Row{State: outbox.Planned}},
		"cannot be searched":   {outbox.Found(sending, made, false, failure(fault.Denied), now), outbox.Row{State: outbox.Failed, Reason: "no"}},
		"search later":         {outbox.Found(sending, made, false, failure(fault.Unavailable), now), outbox.Row{State: outbox.Sending, NotBefore: 102_000}},
		"search past its time": {outbox.Found(sending, made, false, failure(fault.Unavailable), now.Add(time.Hour)), outbox.Row{State: outbox.Sending, NotBefore: 3_702_000}},
		"search in vain until": {outbox.Found(sending, made, false, failure(fault.Unavailable), now.Add(2*time.Hour)), outbox.Row{State: outbox.Expired, Unsure: true}},
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
func TestAClockThatWasSetBackHoldsUpNoSearch(t *testing.T) {
	sending := outbox.Row{State: outbox.Unknown, Attempts: 1, SendingAt: 3_600_000, ExpiresAt: 9_000_000}
	got := outbox.Found(sending, surface.Message{}, false, nil, time.UnixMilli(100_000))
	if got.State != outbox.Unknown || got.NotBefore != 103_000 {
		t.Errorf("not found too early: %+v", got)
	}
	if got = outbox.Found(got, surface.Message{}, false, nil, time.UnixMilli(103_000)); got.State != outbox.Planned {
		t.Errorf("not found: %+v", got)
	}
}

func TestWhatIsWithdrawnDoesNotLeave(t *testing.T) {
	withdrawn := func(s outbox.State) outbox.Row { return outbox.Withdraw(outbox.Row{State: s}) }
	for name, c := range map[string]struct {
		got       outbox.Row
		state     outbox.State
		withdrawn bool
	}{
		"before it is sent":             {withdrawn(outbox.Planned), outbox.Failed, true},
		"on its way":                    {withdrawn(outbox.Sending), outbox.Sending, true},
		"nobody knows":                  {withdrawn(outbox.Unknown), outbox.Unknown, true},
		"just before the call":          {outbox.Merge(outbox.Row{State: outbox.Sending}, withdrawn(outbox.Planned)), outbox.Failed, true},
		"it did not arrive":             {outbox.Merge(outbox.Row{State: outbox.Planned}, withdrawn(outbox.Unknown)), outbox.Failed, true},
		"it did arrive":                 {outbox.Merge(outbox.Row{State: outbox.Sent}, withdrawn(outbox.Sending)), outbox.Sent, true},
		"it is not known whether":       {outbox.Merge(outbox.Row{State: outbox.Unknown}, withdrawn(outbox.Sending)), outbox.Unknown, true},
		"what nobody withdrew goes on":  {outbox.Merge(outbox.Row{State: outbox.Sending}, outbox.Row{State: outbox.Planned}), outbox.Sending, false},
		"what has ended stays as it is": {outbox.Merge(outbox.Row{State: outbox.Sending}, outbox.Row{State: outbox.Sent}), outbox.Sent, false},
	} {
		if c.got.State != c.state || c.got.Withdrawn != c.withdrawn {
			t.Errorf("%s: %+v", name, c.got)
		}
	}
}
