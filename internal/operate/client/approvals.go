package client

import (
	"context"
	"net/url"

	"lilac/internal/core/session"
)

// Approvals are the approvals that hold for all calls of a tool in a conversation.
type Approvals struct{ Client *Client }

// List lists those of a conversation.
func (a Approvals) List(ctx context.Context, sessionID string) ([]session.Standing, error) {
	var out struct{ Approvals []session.Standing }
	err := a.Client.Call(ctx, "GET", "/sessions/"+url.PathEscape(sessionID)+"/approvals", nil, &out)
	return out.Approvals, err
}

// Revoke revokes those of a tool; "" means all tools.
func (a Approvals) Revoke(ctx context.Context, sessionID, tool string) error {
	return a.Client.Call(ctx, "DELETE", "/sessions/"+url.PathEscape(sessionID)+"/approvals?tool="+url.QueryEscape(tool), nil, nil)
}
