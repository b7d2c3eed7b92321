package discord

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// maxOrders bounds how many orders are taken up after a crash; no more than
// some are given at the same time.
const maxOrders = 1000

// order writes down what an interaction asks for; fresh says that it is not
// known from before. What it means is settled here: after a crash the channel
// may work on something else.
func (a *Adapter) order(ctx context.Context, i *interaction) (fresh bool, err error) {
	if i.request, err = a.meant(ctx, *i); err != nil {
		return false, err
	}
	err = a.o.DB.Update(ctx, func(tx *db.Tx) error {
		_, seen, err := a.o.Tables.Inbox.Seen(tx, Platform, "interaction:"+i.ID, nil)
		if fresh = err == nil && !seen; !fresh {
			return err
		}
		return a.o.Tables.Interactions.PutInteraction(tx, PendingInteraction{ID: i.ID, RequestID: i.request, Payload: i.told})
	})
	return fresh, err
}

// meant is the request that an interaction wants to stop, "" for none.
func (a *Adapter) meant(ctx context.Context, i interaction) (requestID string, err error) {
	switch {
	case i.Type == interactionCommand && i.Data.Name == commandStop && a.o.Interactions != nil:
		return a.o.Interactions.Running(ctx, i.ChannelID)
	case i.Type != interactionComponent:
		return "", nil
	}
	request, is := strings.CutPrefix(i.Data.CustomID, stopPrefix)
	if !is || request != "" {
		return request, nil
	}
	shown, err := a.cached(ctx, i.ChannelID, i.Message.ID)
	if fault.KindOf(err) == fault.NotFound {
		err = nil
	}
	return shown.RequestID, err
}

// settle does what an interaction asks for, nothing if do is nil, and writes
// down that this is done: both or neither.
func (a *Adapter) settle(ctx context.Context, i interaction, said string, do func(*db.Tx) error) error {
	return a.o.DB.Update(ctx, func(tx *db.Tx) error {
		if do != nil {
			if err := do(tx); err != nil {
				return err
			}
		}
		return a.o.Tables.Interactions.PutInteraction(tx, PendingInteraction{ID: i.ID, RequestID: i.request, Reply: said, Payload: i.told})
	})
}

// forget ends an order.
func (a *Adapter) forget(ctx context.Context, i interaction) {
	err := a.o.DB.UpdateRelaxed(ctx, func(tx *db.Tx) error { return a.o.Tables.Interactions.DeleteInteraction(tx, i.ID) })
	if err != nil && ctx.Err() == nil {
		a.o.Logger.WarnContext(ctx, "an order on Discord that is done cannot be forgotten", "channel_id", i.ChannelID, "error", err)
	}
}

// ordersLeft are the orders that another process has not done.
func (a *Adapter) ordersLeft(ctx context.Context) (left []interaction) {
	var orders []PendingInteraction
	err := a.o.DB.Read(ctx, func(q db.Queryer) (err error) {
		orders, err = a.o.Tables.Interactions.Interactions(q, maxOrders)
		return err
	})
	for _, o := range orders {
		i := interaction{told: o.Payload, request: o.RequestID, said: o.Reply}
		if wrong := json.Unmarshal(o.Payload, &i); wrong != nil {
			err = fmt.Errorf("read order %s: %w", o.ID, wrong)
			continue
		}
		left = append(left, i)
	}
	if err != nil && ctx.Err() == nil {
		a.o.Logger.ErrorContext(ctx, "what people asked for on Discord before the start is not done", "error", err)
	}
	return left
}

// takeUp goes on with what was asked for before a crash. Nobody knows whether
// it was acknowledged: if it can still be, it is.
func (a *Adapter) takeUp(ctx context.Context, i interaction) {
	if ctx.Err() != nil {
		return
	}
	if time.Since(time.UnixMilli(madeAt(i.ID))) < acknowledgeLimit {
		_ = a.acknowledge(ctx, i) // it may have been
	}
	if i.said != "" {
		a.tell(ctx, i, i.said)
		return
	}
	a.finish(ctx, i)
}
