package outbox_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"lilac/internal/core/outbox"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
	"lilac/internal/testkit/effort"
)

// away is a platform with an outage, during which calls fail with one kind of
// fault.
type away struct {
	surface.Adapter
	kind        fault.Kind
	until       time.Time
	asked, made int
}

func (p *away) Platform() string { return "fake" }

func (p *away) Send(context.Context, surface.Send) (surface.Message, error) {
	p.asked++
	if time.Now().Before(p.until) {
		return surface.Message{}, fault.New(p.kind, "not now")
	}
	p.made++
	return surface.Message{ID: "1"}, nil
}

func (p *away) FindNonce(context.Context, string, string, time.Time) (surface.Message, bool, error) {
	if time.Now().Before(p.until) {
		return surface.Message{}, false, fault.New(fault.Unavailable, "not now")
	}
	return surface.Message{}, false, nil
}

// During an outage, a row is retried with backoff until it expires. An expired row is
// never sent.
func TestARowIsRetriedUntilItExpires(t *testing.T) {
	effort.SkipSlow(t)
	for _, kind := range effort.Sample([]fault.Kind{fault.Unavailable, fault.RateLimited, fault.Timeout, fault.Unauthenticated}, 3) {
		for name, c := range map[string]struct {
			lasts time.Duration
			state outbox.State
		}{
			"shorter":           {14 * time.Minute, outbox.Sent},
			"control: longer":   {16 * time.Minute, outbox.Expired},
			"control: for ever": {24 * time.Hour, outbox.Expired},
		} {
			t.Run(string(kind)+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					database, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: store.Migrations}))
					if err != nil {
						t.Fatal(err)
					}
					defer func() { _ = database.Close() }()
					p := &away{kind: kind, until: time.Now().Add(c.lasts)}
					service := outbox.New(outbox.Options{DB: database, Table: store.Outbox{}, Adapter: p})
					if err := database.Update(t.Context(), func(tx *db.Tx) error {
						return service.Plan(tx, outbox.Row{Key: "test:0", Send: surface.Send{ChannelID: "1"}})
					}); err != nil {
						t.Fatal(err)
					}
					ctx, stop := context.WithCancel(t.Context())
					ran := make(chan error, 1)
					go func() { ran <- service.Run(ctx) }()
					limited, cancel := context.WithTimeout(t.Context(), 2*time.Hour)
					defer cancel()
					if r, err := service.Wait(limited, "test:0"); err != nil || r.State != c.state || (r.State == outbox.Sent) != (p.made == 1) {
						t.Errorf("%+v, %v; %d messages were made", r, err, p.made)
					}
					if p.asked > 40 {
						t.Errorf("the platform was called %d times, want at most 40", p.asked)
					}
					stop()
					if err := <-ran; err != nil {
						t.Fatal(err)
					}
				})
			})
		}
	}
}
