package environment_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"lilac/internal/core/environment"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/event"
	"lilac/internal/store"
	"lilac/internal/testkit/dbtest"
)

// However many events come at once, a commit has only some of them, so that what
// people do waits for these at most.
func TestAStormSharesCommitsInSmallGroups(t *testing.T) {
	const most, events = 8, 100
	for name, publish := range map[string]func(*environment.Intake, *db.DB, event.EnvEvent, func()) error{
		"by the intake": func(i *environment.Intake, _ *db.DB, e event.EnvEvent, taken func()) error {
			_, err := i.Publish(context.Background(), environment.SourceID{Kind: environment.SourceWebhook, Name: "a"}, events, e, func(*db.Tx) (bool, error) { taken(); return true, nil })
			return err
		},
		"control: by anybody": func(_ *environment.Intake, d *db.DB, e event.EnvEvent, taken func()) error {
			return d.Update(context.Background(), func(tx *db.Tx) error {
				taken()
				_, err := environment.Publish(tx, forgetful{}, e)
				return err
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			// The first commit holds up the others until all are there.
			var here sync.WaitGroup
			here.Add(events)
			var hold sync.Once
			var began atomic.Bool
			group, largest := 0, 0 // of the writer's goroutine
			database, err := db.Open(context.Background(), dbtest.Options(db.Options{
				Dir: t.TempDir(), Migrations: slices.Concat(sqlitebus.Migrations, store.Migrations),
				OnCommit: func(done bool) {
					if !done && began.Load() {
						hold.Do(here.Wait)
						largest, group = max(largest, group), 0
					}
				},
			}))
			if err != nil {
				t.Fatal(err)
			}
			b, err := sqlitebus.New(database, sqlitebus.Options{TrimEvery: -1})
			if err != nil {
				t.Fatal(err)
			}
			began.Store(true)
			intake := environment.NewIntake(database, forgetful{})
			var work sync.WaitGroup
			for n := range events {
				work.Go(func() {
					here.Done()
					if err := publish(intake, database, custom(fmt.Sprint(n), "s"), func() { group++ }); err != nil {
						t.Error(err)
					}
				})
			}
			work.Wait()
			if err := b.Close(); err != nil {
				t.Error(err)
			}
			if err := database.Close(); err != nil {
				t.Error(err)
			}
			if small := largest <= most; small != (name == "by the intake") {
				t.Errorf("a commit has %d of %d events", largest, events)
			}
		})
	}
}

// A source that waits for room drops nothing, and continues when an event was handled.
func TestASourceWaitsForRoom(t *testing.T) {
	database, err := db.Open(t.Context(), dbtest.Options(db.Options{Dir: t.TempDir(), Migrations: slices.Concat(sqlitebus.Migrations, store.Migrations)}))
	if err != nil {
		t.Fatal(err)
	}
	defer database.Close()
	if _, err := sqlitebus.New(database, sqlitebus.Options{TrimEvery: -1}); err != nil {
		t.Fatal(err)
	}
	intake, from := environment.NewIntake(database, forgetful{}), environment.SourceID{Kind: environment.SourceProgram, Name: "p"}
	publish := func(id string) {
		t.Helper()
		if err := intake.AwaitRoom(t.Context(), from, 1); err != nil {
			t.Fatal(err)
		}
		if _, err := intake.Publish(t.Context(), from, 1, event.EnvEvent{ID: id, Type: "a"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	publish("1")
	full, cancel := context.WithCancel(t.Context())
	cancel()
	if err := intake.AwaitRoom(full, from, 1); err == nil {
		t.Error("there is room in a full queue")
	}
	handled := make(chan struct{})
	go func() {
		defer close(handled)
		environment.Release(intake, "1")
	}()
	publish("2")
	<-handled
	if c := intake.Counts(); len(c) != 1 || c[0].Accepted != 2 || c[0].Dropped != 0 {
		t.Errorf("%+v", c)
	}
	if _, err := intake.Publish(t.Context(), from, 1, event.EnvEvent{ID: "3", Type: "a"}, nil); err == nil || intake.Counts()[0].Dropped != 1 {
		t.Errorf("control: without waiting, the event was not dropped: %v", err)
	}
}
