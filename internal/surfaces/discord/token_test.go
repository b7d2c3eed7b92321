package discord_test

import (
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/discordtest"
)

// After Discord rejects the token once, the bot pauses for a minute and reports the problem. It
// resumes when Discord accepts the token again. Until then, it retries rarely.
func TestATokenThatIsRefusedIsTriedAgain(t *testing.T) {
	for name, c := range map[string]struct {
		refusals int
		lasts    time.Duration
	}{"once": {1, 3 * time.Minute}, "control: for an hour": {60, time.Hour}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, discordtest.Options{Memory: true})
				a, _ := w.connected(w.options())
				w.server.Fail("", discordtest.Fault{Status: 401, Message: "401: Unauthorized"}, c.refusals)
				for range 3 {
					if _, err := a.Send(t.Context(), say(w, "hi", "")); fault.KindOf(err) != fault.Unauthenticated {
						t.Errorf("refused: %v", err)
					}
					if fault.KindOf(a.Healthy()) != fault.Unauthenticated {
						t.Errorf("its health is %v", a.Healthy())
					}
				}
				if c.refusals > 1 {
					time.Sleep(c.lasts / 2)
					if fault.KindOf(a.Healthy()) != fault.Unauthenticated {
						t.Errorf("in the middle its health is %v", a.Healthy())
					}
				}
				time.Sleep(c.lasts)
				if a.Healthy() != nil {
					t.Errorf("at last its health is %v", a.Healthy())
				}
				if _, err := a.Send(t.Context(), say(w, "hi", "")); err != nil {
					t.Errorf("at last: %v", err)
				}
			})
		})
	}
}
