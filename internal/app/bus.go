package app

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"lilac/internal/core/environment"
	"lilac/internal/engine/companion"
	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// openBus opens the bus, and prepares its companion in Redis if one is configured.
func (b *base) openBus() error {
	opened, err := sqlitebus.New(b.db, delivery.Options{Logger: b.Logger, Fed: func(records []*delivery.Record) {
		if b.companion != nil {
			b.companion.Fed(records)
		}
	}})
	if err != nil {
		return fmt.Errorf("open the bus: %w", err)
	}
	b.bus = opened
	if b.Config.Bus.URL == "" {
		return nil
	}
	opt, err := b.Config.Bus.Companion()
	if err != nil {
		return err
	}
	opt.Store, opt.Log, opt.Topics, opt.Logger, opt.Publish = b.db.StoreID(), opened.Log(), opened.Topics, b.Logger, b.takeHandedIn
	b.companion, err = companion.New(opt)
	return err
}

// runCompanion connects to Redis until ctx ends.
func (b *base) runCompanion(ctx context.Context) error {
	if b.companion == nil {
		return nil
	}
	return b.companion.Run(ctx)
}

// takeHandedIn publishes an environment event that another program handed in through Redis,
// once for each id, by the rules of POST /events. Without an id, the entry's is used.
func (b *base) takeHandedIn(ctx context.Context, entry string, raw []byte) error {
	var e event.EnvEvent
	if err := json.Unmarshal(raw, &e); err != nil {
		return fault.Wrap(fault.Invalid, err, "The event is not valid JSON")
	}
	if e.ID == "" {
		e.ID = "redis:" + entry
	}
	if e.Timestamp == 0 {
		e.Timestamp = time.Now().UnixMilli()
	}
	if e.Metadata.Source == "" {
		e.Metadata.Source = "redis"
	}
	if err := e.Validate(); err != nil {
		return err
	}
	if environment.IsReserved(e.Type) {
		return fault.InvalidField("type", "Only the server publishes events of the type %s.", e.Type)
	}
	inbox := b.Seams.Inbox.around(b.store.Inbox)
	return b.db.Update(ctx, func(tx *db.Tx) error {
		if id := e.Metadata.TriggerSessionID; id != "" {
			if _, err := b.store.Sessions.Session(tx, id); err != nil {
				return err
			}
		}
		_, err := environment.PublishTraced(tx, inbox, e, "")
		return err
	})
}
