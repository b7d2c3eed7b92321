package httpapi

import (
	"context"
	"net/http"

	"lilac/internal/core/account"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

type callerKey struct{}

// withCaller returns the request of a caller who was authenticated.
func withCaller(r *http.Request, c account.Caller) *http.Request {
	return r.WithContext(withCallerContext(r.Context(), c))
}

func withCallerContext(ctx context.Context, c account.Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// callerOf returns who calls. A request that was not authenticated has a caller who may do
// nothing.
func callerOf(ctx context.Context) account.Caller {
	c, _ := ctx.Value(callerKey{}).(account.Caller)
	return c
}

// viewerID returns the person to whose conversations lists are limited, or "" for operators.
func viewerID(ctx context.Context) string {
	c := callerOf(ctx)
	switch {
	case c.Role == account.Operator:
		return ""
	case c.ID == "":
		return "-" // no person has this id
	}
	return c.ID
}

// subject finds the conversation that a route is about.
type subject struct {
	of func(r *http.Request) (sessionID string, err error)
	// missing is the message for a person who may not see it, the same as if there was none.
	missing string
	// in is the path value that the message names.
	in string
}

// aboutSession is the subject of routes whose path has the id of a session.
var aboutSession = subject{
	of:      func(r *http.Request) (string, error) { return r.PathValue("id"), nil },
	missing: "There is no session %q.", in: "id",
}

// subject returns what the route is about.
func (r *route) subject() subject {
	if r.about.of == nil {
		return aboutSession
	}
	return r.about
}

// people decides about the calls of people with accounts.
type people struct {
	service *account.Service // nil on a server without accounts
}

// admit returns nil if a caller may use a route, or the error to answer with.
func (p people) admit(r *http.Request, rt *route, c account.Caller) error {
	if c.Role == account.Operator {
		return nil
	}
	has := account.None
	about := rt.subject()
	if rt.op.InConversation() {
		sessionID, err := about.of(r)
		if err != nil {
			return err
		}
		if has, err = p.service.RightIn(r.Context(), c.ID, sessionID); err != nil {
			return err
		}
	}
	switch account.Decide(c.Role, rt.op, has) {
	case account.Allow:
		return nil
	case account.NotFound:
		return fault.New(fault.NotFound, about.missing, r.PathValue(about.in))
	case account.Forbidden:
	}
	if rt.op.InConversation() {
		return &fault.Error{Kind: fault.Denied, Code: "not_shared", Message: "This conversation is shared with you to " + map[account.Right]string{account.Read: "read", account.Part: "take part"}[has] + ", not for this. Ask its owner or an operator."}
	}
	return &fault.Error{Kind: fault.Denied, Code: "operators_only", Message: "Only operators may do this. Ask an operator of this server."}
}

// right returns what a caller may do in a conversation, or "" for operators, who may do everything.
func (p people) right(ctx context.Context, sessionID string) (account.Right, error) {
	c := callerOf(ctx)
	if c.Role == account.Operator {
		return account.None, nil
	}
	return p.service.RightIn(ctx, c.ID, sessionID)
}

// sees reports whether a caller may see a conversation.
func (p people) sees(ctx context.Context, sessionID string) (bool, error) {
	if callerOf(ctx).Role == account.Operator {
		return true, nil
	}
	if viewerID(ctx) != callerOf(ctx).ID {
		return false, nil
	}
	has, err := p.service.RightIn(ctx, callerOf(ctx).ID, sessionID)
	return has != account.None, err
}

// named requires that a member names a conversation that the member may see.
func (p people) named(r *http.Request, sessionID string) error {
	if viewerID(r.Context()) == "" {
		return nil
	}
	if sessionID == "" {
		return fault.InvalidField("session_id", "Say in session_id of which conversation.")
	}
	seen, err := p.sees(r.Context(), sessionID)
	if err == nil && !seen {
		return fault.New(fault.NotFound, aboutSession.missing, sessionID)
	}
	return err
}

// author returns the author of a message in a conversation: nil for the operator alone.
func (p people) author(q db.Queryer, c account.Caller, sessionID string) (*event.Author, error) {
	if p.service == nil {
		return nil, nil
	}
	if c.HasAccount() {
		return &event.Author{ID: c.ID, Name: c.Name, Role: string(c.Role)}, nil
	}
	team, err := p.service.HasPeople(q, sessionID)
	if err != nil || !team {
		return nil, err
	}
	return &event.Author{ID: c.ID, Name: c.Name}, nil
}

// note records what the caller of a request did, in the transaction that does it.
func (p people) note(tx *db.Tx, ctx context.Context, a account.Action) error {
	if p.service == nil {
		return nil
	}
	return p.service.Note(tx, callerOf(ctx), a)
}

// own makes the caller the owner of a conversation that the transaction creates.
func (p people) own(tx *db.Tx, ctx context.Context, sessionID string) error {
	if p.service == nil {
		return nil
	}
	return p.service.Own(tx, callerOf(ctx), sessionID)
}

// recorded returns a handler that records a successful call. Handlers that change the database
// record in their transaction instead.
func (a *api) recorded(rt *route, next handler) handler {
	if rt.records == "" || a.people.service == nil {
		return next
	}
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := next(w, r); err != nil || !a.people.service.InUse() {
			return err
		}
		of := ""
		for _, name := range []string{"id", "name", "code", "group"} {
			if of == "" {
				of = r.PathValue(name)
			}
		}
		err := a.streams.db.Update(context.WithoutCancel(r.Context()), func(tx *db.Tx) error {
			return a.people.note(tx, r.Context(), account.Action{Kind: rt.records, Subject: of})
		})
		if err != nil { // the response has been sent
			a.errors.log.ErrorContext(r.Context(), "cannot record an action", "kind", rt.records, "person", callerOf(r.Context()).ID, "error", err)
		}
		return nil
	}
}
