//go:build killpoints

package app

import (
	"context"
	"fmt"
	"time"

	"lilac/internal/core/outbox"
	"lilac/internal/core/relay"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/store"
	"lilac/internal/surfaces/discord"
)

// weakDiscord forgets where the gateway and the channels were left.
type weakDiscord struct{ store.Discord }

func (t weakDiscord) SaveGateway(tx *db.Tx, g discord.GatewayState) error {
	if without("position") {
		g.SessionID, g.HeardAt = "", 0
	}
	return t.Discord.SaveGateway(tx, g)
}

func (t weakDiscord) OpenGap(tx *db.Tx, g discord.Gap) error {
	if without("position") {
		return nil
	}
	return t.Discord.OpenGap(tx, g)
}

// Orders forgets what people asked for.
func (t weakDiscord) Orders(q db.Queryer, limit int) ([]discord.Order, error) {
	if without("orders") {
		return nil, nil
	}
	return t.Discord.Orders(q, limit)
}

// weakRelay forgets what was being shown.
type weakRelay struct{ relay.Table }

func (t weakRelay) LiveRelays(q db.Queryer, platform string) ([]string, error) {
	if without("relays") {
		return nil, nil
	}
	return t.Table.LiveRelays(q, platform)
}

// weakAdapter sends again what it does not know to have been sent.
type weakAdapter struct{ surface.Adapter }

func weakenAdapter(a surface.Adapter) surface.Adapter {
	if !without("reconcile") {
		return a
	}
	return weakAdapter{a}
}

func (a weakAdapter) Send(ctx context.Context, s surface.Send) (surface.Message, error) {
	s.Nonce = fmt.Sprint(time.Now().UnixNano())
	return a.Adapter.Send(ctx, s)
}

func (a weakAdapter) FindNonce(context.Context, string, string, time.Time) (surface.Message, bool, error) {
	return surface.Message{}, false, nil
}

// weakOutbox lets nothing expire.
type weakOutbox struct{ outbox.Table }

func (t weakOutbox) Unfinished(q db.Queryer, platform string, limit int) ([]outbox.Row, error) {
	rows, err := t.Table.Unfinished(q, platform, limit)
	if without("expiry") {
		for i := range rows {
			rows[i].ExpiresAt = time.Now().Add(time.Hour).UnixMilli()
		}
	}
	return rows, err
}
