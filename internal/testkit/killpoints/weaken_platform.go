package killpoints

import (
	"context"
	"fmt"
	"time"

	"lilac/internal/core/outbox"
	"lilac/internal/core/relay"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/surfaces/discord"
)

type (
	// weakGateway loses the gateway's position; weakGaps loses the recorded gaps.
	weakGateway struct{ discord.GatewayTable }
	weakGaps    struct{ discord.GapTable }
	// weakInteractions loses pending interactions.
	weakInteractions struct{ discord.InteractionTable }
)

func (t weakGateway) SaveGateway(tx *db.Tx, g discord.GatewayState) error {
	if without("position") {
		g.SessionID, g.HeardAt = "", 0
	}
	return t.GatewayTable.SaveGateway(tx, g)
}

func (t weakGaps) OpenGap(tx *db.Tx, g discord.Gap) error {
	if without("position") {
		return nil
	}
	return t.GapTable.OpenGap(tx, g)
}

func (t weakInteractions) Interactions(q db.Queryer, limit int) ([]discord.PendingInteraction, error) {
	if without("orders") {
		return nil, nil
	}
	return t.InteractionTable.Interactions(q, limit)
}

// weakRelay loses the state of relays.
type weakRelay struct{ relay.Table }

func (t weakRelay) LiveRelays(q db.Queryer, platform string) ([]string, error) {
	if without("relays") {
		return nil, nil
	}
	return t.Table.LiveRelays(q, platform)
}

// weakAdapter sends a message again if it does not know whether the message was sent.
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

// weakOutbox keeps messages from expiring. The service lists the rows with Unfinished, and decides
// about each row as Row returns it.
type weakOutbox struct{ outbox.Table }

func (t weakOutbox) Unfinished(q db.Queryer, platform string, limit int) ([]outbox.Row, error) {
	rows, err := t.Table.Unfinished(q, platform, limit)
	for i := range rows {
		rows[i] = unexpired(rows[i])
	}
	return rows, err
}

func (t weakOutbox) Row(q db.Queryer, key string) (outbox.Row, error) {
	r, err := t.Table.Row(q, key)
	return unexpired(r), err
}

func unexpired(r outbox.Row) outbox.Row {
	if without("expiry") {
		r.ExpiresAt = time.Now().Add(time.Hour).UnixMilli()
	}
	return r
}
