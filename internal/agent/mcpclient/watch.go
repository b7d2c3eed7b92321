package mcpclient

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lilac/internal/foundation/fault"
)

const (
	// confirmedSince is the first version of the protocol in which a server confirms a subscription with a
	// message of its own, because the request for one lasts as long as the subscription
	// (MCP 2026-07-28, "Subscriptions").
	confirmedSince = "2026-07-28"
	confirmation   = "notifications/subscriptions/acknowledged"
	// confirmWithin limits the time until the confirmation.
	confirmWithin = 5 * time.Second
)

// confirmations passes the resources on that the server confirms to watch. It may be full, or of nobody's
// interest: a server is untrusted.
func confirmations(client *mcp.Client, watched int) <-chan string {
	confirmed := make(chan string, watched)
	client.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, r mcp.Request) (mcp.Result, error) {
			if got, ok := r.GetParams().(*mcp.SubscriptionsAcknowledgedParams); ok && method == confirmation && got != nil {
				for _, uri := range got.Notifications.ResourceSubscriptions {
					select {
					case confirmed <- uri:
					default:
					}
				}
			}
			return next(ctx, method, r)
		}
	})
	return confirmed
}

// watch subscribes to a resource, and returns when updates of it arrive.
func watch(ctx context.Context, session *mcp.ClientSession, uri string, confirmed <-chan string) error {
	began := session.InitializeResult()
	unconfirmed := began.ProtocolVersion < confirmedSince
	if offers := began.Capabilities; !unconfirmed && (offers == nil || offers.Resources == nil || !offers.Resources.Subscribe) {
		return fault.New(fault.Unavailable, "the server does not offer that")
	}
	if err := session.Subscribe(ctx, &mcp.SubscribeParams{URI: uri}); err != nil || unconfirmed {
		return err
	}
	late := time.NewTimer(confirmWithin)
	defer late.Stop()
	for {
		select {
		case got := <-confirmed:
			if got == uri {
				return nil
			}
		case <-late.C:
			return fault.New(fault.Timeout, "the server does not confirm it")
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
