package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
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

// platform fails in every way. It does not deduplicate by nonce, like the worst
// platforms.
type platform struct {
	surface.Adapter
	blind bool // its search finds nothing: the control

	mu     sync.Mutex
	rand   *rand.Rand
	faulty float64
	crash  func()
	made   []surface.Send
	at     []time.Time
}

func (p *platform) Platform() string { return "fake" }

func (p *platform) Send(ctx context.Context, s surface.Send) (surface.Message, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fails := p.rand.Float64() < p.faulty
	kind := p.rand.IntN(5)
	if fails && kind == 0 {
		return surface.Message{}, fault.New(fault.Unavailable, "not now")
	}
	if fails && kind == 1 {
		return surface.Message{}, fault.New(fault.Timeout, "no answer, not made")
	}
	if fails && kind == 2 {
		p.crash()
		return surface.Message{}, ctx.Err()
	}
	p.made, p.at = append(p.made, s), append(p.at, time.Now())
	switch {
	case fails && kind == 3:
		p.crash()
		return surface.Message{}, ctx.Err()
	case fails:
		return surface.Message{}, fault.New(fault.Timeout, "no answer, made")
	}
	return surface.Message{ID: fmt.Sprint(len(p.made))}, nil
}

func (p *platform) FindNonce(_ context.Context, channelID, nonce string, _ time.Time) (surface.Message, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rand.Float64() < p.faulty/2 {
		return surface.Message{}, false, fault.New(fault.Unavailable, "not now")
	}
	for i, s := range p.made {
		if !p.blind && s.ChannelID == channelID && s.Nonce == nonce {
			return surface.Message{ID: fmt.Sprint(i + 1)}, true, nil
		}
	}
	return surface.Message{}, false, nil
}

// deliver plans rows and restarts the service after each crash until all rows are
// final. It returns them.
func deliver(t *testing.T, p *platform, rows []outbox.Row) (ended []outbox.Row, bound map[string]string) {
	t.Helper()
	database, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: store.Migrations}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := database.Close(); err != nil {
			t.Error(err)
		}
	}()
	bound = map[string]string{}
	planned := false
	for life := 0; len(ended) < len(rows); life++ {
		if life > 200 {
			t.Fatal("the rows are not final after 200 restarts")
		}
		ctx, crash := context.WithCancel(t.Context())
		p.mu.Lock()
		p.crash = crash
		p.mu.Unlock()
		service := outbox.New(outbox.Options{DB: database, Table: store.Outbox{}, Adapter: p, Hooks: map[string]outbox.OnSent{
			"test": func(_ *db.Tx, r outbox.Row, _ surface.Message) error {
				bound[r.Key] += r.MessageID + ";"
				return nil
			},
		}})
		if !planned {
			planned = true
			if err := database.Update(ctx, func(tx *db.Tx) error {
				for _, r := range append(rows, rows...) { // planning again changes nothing
					if err := service.Plan(tx, r); err != nil {
						return err
					}
				}
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		ran := make(chan error, 1)
		go func() { ran <- service.Run(ctx) }()
		ended = nil
		for _, r := range rows {
			got, err := service.Wait(ctx, r.Key)
			if err != nil {
				break
			}
			ended = append(ended, got)
		}
		crash()
		if err := <-ran; err != nil {
			t.Fatal(err)
		}
	}
	return ended, bound
}

func rowsOf(n, channels int) (rows []outbox.Row) {
	for i := range n {
		rows = append(rows, outbox.Row{
			Key: fmt.Sprintf("test:%d", i), ExpiresAt: time.Now().Add(time.Hour).UnixMilli(),
			Send: surface.Send{ChannelID: fmt.Sprint(i % channels), Nonce: fmt.Sprint("n", i)},
		})
	}
	return rows
}

// doubles counts the messages that were created more than once.
func doubles(p *platform) (n int) {
	seen := map[string]bool{}
	for _, s := range p.made {
		if seen[s.Nonce] {
			n++
		}
		seen[s.Nonce] = true
	}
	return n
}

func TestEveryRowIsSentExactlyOnceDespiteFaults(t *testing.T) {
	effort.SkipSlow(t)
	seeds := uint64(20)
	for seed := range seeds {
		synctest.Test(t, func(t *testing.T) {
			p := &platform{rand: rand.New(rand.NewPCG(seed, 0)), faulty: 0.4}
			ended, bound := deliver(t, p, rowsOf(24, 5))
			for _, r := range ended {
				if r.State != outbox.Sent {
					t.Errorf("seed %d: %s ended as %s: %s", seed, r.Key, r.State, r.Reason)
				}
				if bound[r.Key] != r.MessageID+";" {
					t.Errorf("seed %d: the hook of %s was called with %q", seed, r.Key, bound[r.Key])
				}
			}
			if n := doubles(p); n > 0 || len(p.made) != 24 {
				t.Errorf("seed %d: %d messages were made, %d of them again", seed, len(p.made), n)
			}
			next := map[string]int{}
			for _, s := range p.made {
				var n int
				if _, err := fmt.Sscanf(s.Nonce, "n%d", &n); err != nil {
					t.Fatal(err)
				}
				if n < next[s.ChannelID] {
					t.Errorf("seed %d: in channel %s message %d comes after a later one", seed, s.ChannelID, n)
				}
				next[s.ChannelID] = n
			}
		})
	}
}

// Control: a service whose search finds nothing sends messages twice.
func TestControlWithoutSearchMessagesAreSentTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &platform{rand: rand.New(rand.NewPCG(1, 0)), faulty: 0.4, blind: true}
		deliver(t, p, rowsOf(24, 5))
		if doubles(p) == 0 {
			t.Error("nothing doubled: the proof proves nothing")
		}
	})
}

// The owner's record may be damaged when the message is sent.
func TestADamagedOwnerBlocksNoOtherMessage(t *testing.T) {
	database, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: store.Migrations}))
	if err != nil {
		t.Fatal(err)
	}
	p := &platform{rand: rand.New(rand.NewPCG(1, 1))}
	service := outbox.New(outbox.Options{DB: database, Table: store.Outbox{}, Adapter: p, Hooks: map[string]outbox.OnSent{
		"test": func(_ *db.Tx, r outbox.Row, _ surface.Message) error {
			if r.Key == "test:0" {
				return fmt.Errorf("bind message: %w", db.DamagedRow("relays", "r"))
			}
			return nil
		},
	}})
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- service.Run(ctx) }()
	defer func() {
		stop()
		if err := errors.Join(<-ran, database.Close()); err != nil {
			t.Error(err)
		}
	}()
	rows := rowsOf(2, 1)
	if err := database.Update(ctx, func(tx *db.Tx) error {
		return errors.Join(service.Plan(tx, rows[0]), service.Plan(tx, rows[1]))
	}); err != nil {
		t.Fatal(err)
	}
	limited, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, r := range rows {
		if got, err := service.Wait(limited, r.Key); err != nil || got.State != outbox.Sent {
			t.Fatalf("%s is %q, %v", r.Key, got.State, err)
		}
	}
	if n := len(p.made); n != 2 {
		t.Errorf("%d messages were made", n)
	}
}

func TestARestartNeverSendsYesterdaysMessages(t *testing.T) {
	effort.SkipSlow(t)
	for name, protected := range map[string]bool{"with a time to live": true, "control: without one": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const ttl = 15 * time.Minute
				p := &platform{rand: rand.New(rand.NewPCG(2, 0)), faulty: 0.1}
				rows := rowsOf(200, 20)
				born := map[string]time.Time{}
				for i := range rows {
					created := time.Now().Add(-time.Duration(i) * 48 * time.Hour / 200)
					rows[i].CreatedAt, rows[i].ExpiresAt = created.UnixMilli(), created.Add(ttl).UnixMilli()
					if !protected {
						rows[i].ExpiresAt = time.Now().Add(time.Hour).UnixMilli()
					}
					born[rows[i].Send.Nonce] = created
				}
				deliver(t, p, rows)
				late := 0
				for i, s := range p.made {
					if p.at[i].Sub(born[s.Nonce]) > ttl {
						late++
					}
				}
				if protected && late > 0 {
					t.Errorf("%d messages were sent past their time", late)
				}
				if !protected && late == 0 {
					t.Error("nothing was sent late: the proof proves nothing")
				}
			})
		})
	}
}

// halfShut is a platform that accepts messages only in the channel "open".
type halfShut struct{ surface.Adapter }

func (halfShut) Platform() string { return "fake" }

func (halfShut) Send(_ context.Context, s surface.Send) (surface.Message, error) {
	if s.ChannelID != "open" {
		return surface.Message{}, fault.New(fault.Unavailable, "not now")
	}
	return surface.Message{ID: "1"}, nil
}

// Waiting channels occupy no worker, however many there are, and however many rows
// wait in one of them.
func TestWaitingChannelsBlockNoOther(t *testing.T) {
	effort.SkipSlow(t)
	for name, c := range map[string]struct{ rows, channels int }{"many channels": {70, 70}, "many rows": {1500, 1}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				database, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: store.Migrations}))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = database.Close() }()
				service := outbox.New(outbox.Options{DB: database, Table: store.Outbox{}, Adapter: halfShut{}})
				plan := func(rows ...outbox.Row) {
					t.Helper()
					err := database.Update(t.Context(), func(tx *db.Tx) (err error) {
						for _, r := range rows {
							err = errors.Join(err, service.Plan(tx, r))
						}
						return err
					})
					if err != nil {
						t.Fatal(err)
					}
				}
				plan(rowsOf(c.rows, c.channels)...)
				ctx, stop := context.WithCancel(t.Context())
				ran := make(chan error, 1)
				go func() { ran <- service.Run(ctx) }()
				time.Sleep(time.Minute) // all wait for minutes by now
				plan(outbox.Row{Key: "test:open", Send: surface.Send{ChannelID: "open"}})
				limited, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				if r, err := service.Wait(limited, "test:open"); err != nil || r.State != outbox.Sent {
					t.Errorf("it is %q, %v", r.State, err)
				}
				stop()
				if err := <-ran; err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

// shut is a platform whose calls block until it is opened.
type shut struct {
	surface.Adapter
	asked, open chan struct{}
	made        int
}

func (p *shut) Platform() string { return "fake" }

func (p *shut) Send(ctx context.Context, _ surface.Send) (surface.Message, error) {
	p.asked <- struct{}{}
	select {
	case <-p.open:
		p.made++
		return surface.Message{ID: "1"}, nil
	case <-ctx.Done():
		return surface.Message{}, ctx.Err()
	}
}

// The owner is asked before each call, because it may have been unable to withdraw
// the row.
func TestAnUnwantedRowIsNotSent(t *testing.T) {
	for name, answer := range map[string]error{"over": nil, "damaged": db.DamagedRow("workflows", "w")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				database, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: store.Migrations}))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = database.Close() }()
				p := &shut{asked: make(chan struct{}, 2), open: make(chan struct{})}
				close(p.open)
				told := map[string]outbox.State{}
				service := outbox.New(outbox.Options{
					DB: database, Table: store.Outbox{}, Adapter: p,
					Hooks: map[string]outbox.OnSent{"test": func(_ *db.Tx, r outbox.Row, _ surface.Message) error {
						told[r.Key] = r.State
						return nil
					}},
					Wanted: map[string]outbox.Wanted{"test": func(_ *db.Tx, r outbox.Row) (bool, error) {
						if r.Key == "test:0" {
							return false, answer
						}
						return true, nil
					}},
				})
				for _, r := range rowsOf(2, 1) {
					if err := database.Update(t.Context(), func(tx *db.Tx) error { return service.Plan(tx, r) }); err != nil {
						t.Fatal(err)
					}
				}
				ctx, stop := context.WithCancel(t.Context())
				ran := make(chan error, 1)
				go func() { ran <- service.Run(ctx) }()
				if r, err := service.Wait(t.Context(), "test:0"); err != nil || r.State != outbox.Failed || r.Reason == "" || r.Attempts != 0 {
					t.Errorf("%+v, %v", r, err)
				}
				if r, err := service.Wait(t.Context(), "test:1"); err != nil || r.State != outbox.Sent {
					t.Errorf("%+v, %v", r, err)
				}
				stop()
				if err := <-ran; err != nil {
					t.Fatal(err)
				}
				if p.made != 1 || told["test:0"] != outbox.Failed || told["test:1"] != outbox.Sent {
					t.Errorf("%d messages were made; told of %v", p.made, told)
				}
			})
		})
	}
}

// A row that is withdrawn while another one is in flight is never sent; the one in
// flight arrives. Both call the hook.
func TestAWithdrawnRowIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		database, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: store.Migrations}))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = database.Close() }()
		p := &shut{asked: make(chan struct{}, 2), open: make(chan struct{})}
		told := map[string]outbox.State{}
		service := outbox.New(outbox.Options{DB: database, Table: store.Outbox{}, Adapter: p, Hooks: map[string]outbox.OnSent{
			"test": func(_ *db.Tx, r outbox.Row, _ surface.Message) error {
				told[r.Key] = r.State
				return nil
			},
		}})
		update := func(fn func(tx *db.Tx) error) {
			t.Helper()
			if err := database.Update(t.Context(), fn); err != nil {
				t.Fatal(err)
			}
		}
		for _, r := range rowsOf(2, 1) {
			update(func(tx *db.Tx) error { return service.Plan(tx, r) })
		}
		ctx, stop := context.WithCancel(t.Context())
		ran := make(chan error, 1)
		go func() { ran <- service.Run(ctx) }()
		<-p.asked
		for _, key := range []string{"test:0", "test:1", "test:1", "test:never-planned"} {
			update(func(tx *db.Tx) error { return service.Withdraw(tx, key) })
		}
		if r, err := service.Wait(t.Context(), "test:1"); err != nil || r.State != outbox.Failed || r.Reason == "" {
			t.Errorf("%+v, %v", r, err)
		}
		close(p.open)
		if r, err := service.Wait(t.Context(), "test:0"); err != nil || r.State != outbox.Sent {
			t.Errorf("%+v, %v", r, err)
		}
		synctest.Wait()
		stop()
		if err := <-ran; err != nil {
			t.Fatal(err)
		}
		if p.made != 1 || told["test:0"] != outbox.Sent || told["test:1"] != outbox.Failed {
			t.Errorf("%d messages were made; told of %v", p.made, told)
		}
	})
}
