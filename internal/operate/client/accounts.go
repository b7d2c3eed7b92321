package client

import (
	"context"
	"net/url"
	"strconv"

	"lilac/internal/core/account"
)

// Accounts are the people of a team.
type Accounts struct{ Client *Client }

// AccountList lists people and invites.
type AccountList struct {
	People  []account.Person `json:"people"`
	Invites []account.Invite `json:"invites"`
	// Provider is the name of the OIDC provider, or "".
	Provider string `json:"provider,omitempty"`
}

// CreatedInvite is an invite with its link, which cannot be shown again.
type CreatedInvite struct {
	account.Invite
	URL string `json:"url"`
}

// List lists the people, and the invites that were not used.
func (a Accounts) List(ctx context.Context) (out AccountList, err error) {
	return out, a.Client.Call(ctx, "GET", "/accounts", nil, &out)
}

// Invite creates an invite.
func (a Accounts) Invite(ctx context.Context, in account.NewInvite) (out CreatedInvite, err error) {
	return out, a.Client.Call(ctx, "POST", "/accounts/invites", in, &out)
}

// DropInvite drops an invite.
func (a Accounts) DropInvite(ctx context.Context, id string) error {
	return a.Client.Call(ctx, "DELETE", "/accounts/invites/"+url.PathEscape(id), nil, nil)
}

// Change changes a person.
func (a Accounts) Change(ctx context.Context, id string, in account.PersonChange) (out account.Person, err error) {
	return out, a.Client.Call(ctx, "PATCH", "/accounts/"+url.PathEscape(id), in, &out)
}

// Log lists what people did, newest first. Before continues the list after an action; 0 begins it.
func (a Accounts) Log(ctx context.Context, limit int, before int64) ([]account.Action, error) {
	v := Page{Limit: limit}.query()
	if before > 0 {
		v.Set("before", strconv.FormatInt(before, 10))
	}
	var out struct{ Actions []account.Action }
	err := a.Client.Call(ctx, "GET", withQuery("/accounts/log", v), nil, &out)
	return out.Actions, err
}
