package mark

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

var (
	ref       = event.MessageRef{Platform: "discord", ChannelID: "1", MessageID: "2"}
	start     = time.UnixMilli(1_000_000)
	wanted    = Mark{Ref: ref, Emoji: "x", Wanted: true, Since: start.UnixMilli()}
	shown     = Mark{Ref: ref, Emoji: "x", Wanted: true, Shown: true, Since: start.UnixMilli()}
	withdrawn = Mark{Ref: ref, Emoji: "x", Shown: true, Since: start.UnixMilli()}
	refused   = fault.New(fault.Denied, "no")
	away      = fault.New(fault.Unavailable, "away")
)

func noticed(due bool) Mark {
	m := wanted
	m.Notice = &Notice{UserID: "7", Text: "sorry", Due: due}
	return m
}

// alone is a notice without a mark.
var alone = func() Mark {
	m := noticed(true)
	m.Emoji = "notice:7"
	return m
}()

func retrying(m Mark, in time.Duration) Mark {
	m.RetryAt, m.Failures = start.Add(in).UnixMilli(), m.Failures+1
	return m
}

func TestAMarkIsShownUntilItIsWithdrawn(t *testing.T) {
	late := start.Add(giveUpAfter)
	slow := fault.New(fault.RateLimited, "slow down")
	slow.RetryAfter = time.Minute
	for name, c := range map[string]struct {
		before Mark
		in     Input
		now    time.Time
		want   Mark
		lost   error
	}{
		"wanted":                         {Mark{}, Wanted{Ref: ref, Emoji: "x"}, start, wanted, nil},
		"wanted twice":                   {shown, Wanted{Ref: ref, Emoji: "x"}, late, shown, nil},
		"shown":                          {wanted, Called{Added: true}, start, shown, nil},
		"withdrawn":                      {shown, Withdrawn{}, start, withdrawn, nil},
		"withdrawn before it is shown":   {wanted, Withdrawn{}, start, withdrawn, nil},
		"withdrawn during the call":      {withdrawn, Called{Added: true}, start, withdrawn, nil},
		"withdrawn twice":                {withdrawn, Withdrawn{}, late, withdrawn, nil},
		"withdrawn without a mark":       {Mark{}, Withdrawn{}, start, Mark{}, nil},
		"wanted again":                   {withdrawn, Wanted{Ref: ref, Emoji: "x"}, start, wanted, nil},
		"removed":                        {withdrawn, Called{}, start, Mark{}, nil},
		"refused":                        {wanted, Called{Added: true, Err: refused}, start, Mark{}, refused},
		"refused, with a notice":         {noticed(false), Called{Added: true, Err: refused}, start, noticed(true), nil},
		"the notice is sent":             {noticed(true), Called{Added: true, Noticed: true}, start, Mark{}, nil},
		"the notice is refused":          {noticed(true), Called{Added: true, Noticed: true, Err: refused}, start, Mark{}, refused},
		"a notice without a mark":        {Mark{}, Noticed{Ref: ref, Notice: Notice{UserID: "7", Text: "sorry"}}, start, alone, nil},
		"a notice, twice":                {alone, Noticed{Ref: ref, Notice: Notice{UserID: "7", Text: "sorry"}}, late, alone, nil},
		"a notice without a mark, sent":  {alone, Called{Added: true, Noticed: true}, start, Mark{}, nil},
		"a notice that is due stays":     {noticed(true), Withdrawn{}, start, noticed(true), nil},
		"the platform is away":           {wanted, Called{Added: true, Err: away}, start, retrying(wanted, firstRetry), nil},
		"the platform asks for patience": {wanted, Called{Added: true, Err: slow}, start, retrying(wanted, time.Minute), nil},
		"away for too long":              {wanted, Called{Added: true, Err: away}, late, Mark{}, away},
		"removing is tried for longer":   {withdrawn, Called{Err: away}, late, retrying(withdrawn, giveUpAfter+firstRetry), nil},
		"away for too long, with a notice": {noticed(false), Called{Added: true, Err: away}, late, func() Mark {
			m := noticed(true)
			m.Since = late.UnixMilli()
			return m
		}(), nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, effects := Decide(c.before, c.in, c.now)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			var lost error
			for _, e := range effects {
				lost = e.(Lost).Err
				if n := e.(Lost).Notice; n != c.before.Notice {
					t.Errorf("lost the notice %+v, want %+v", n, c.before.Notice)
				}
			}
			if !errors.Is(lost, c.lost) || (lost == nil) != (c.lost == nil) {
				t.Errorf("lost %v, want %v", lost, c.lost)
			}
		})
	}
}
