package session_test

import (
	"context"
	"strings"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/policy"
	"lilac/internal/store"
)

// tables returns the store's tables for a session service.
func tables() session.Tables {
	return session.Tables{
		Sessions: store.Sessions{}, States: store.SessionStates{}, Mailbox: store.Mailbox{}, History: store.History{},
		Files: store.Files{}, Requests: store.Requests{}, Journal: store.Journal{}, Spending: store.Usage{}, Prompts: store.Prompts{},
	}
}

// fakeSurfaces is a [session.Surfaces] that describes one surface, "web".
type fakeSurfaces struct {
	relay, unattended bool
	title             func(client, sessionID string) string
	instructions      func(operators, client string) string
	grant             grant.Grant
	workspaceOf       string
	ownWorkspaces     bool // each session has one, and its instructions name it
}

func (f fakeSurfaces) HasRelay(client string) bool { return f.relay && client == "web" }
func (f fakeSurfaces) NewConversation(client string) string {
	if f.relay && client == "web" {
		return "/new"
	}
	return ""
}

// Agent names a sub-agent in the sessions that begin with "sub-".
func (f fakeSurfaces) Agent(_ db.Queryer, sessionID string) (id, name string, err error) {
	if id, ok := strings.CutPrefix(sessionID, "sub-"); ok {
		return id, "count the files", nil
	}
	return "", "", nil
}
func (f fakeSurfaces) Unattended(client string) bool { return f.unattended && client == "web" }

func (f fakeSurfaces) Grant(db.Queryer, string, string, []string) (grant.Grant, error) {
	return f.grant, nil
}

func (f fakeSurfaces) Title(_ db.Queryer, client, sessionID string) string {
	if f.title == nil {
		return ""
	}
	return f.title(client, sessionID)
}

func (f fakeSurfaces) Workspace(_ db.Queryer, v session.Session, _ []string) (string, error) {
	if f.ownWorkspaces {
		return v.ID, nil
	}
	return f.workspaceOf, nil
}

func (f fakeSurfaces) Instructions(operators, client, workspace string) string {
	if f.ownWorkspaces {
		operators += " You work in " + workspace + "."
	}
	if f.instructions == nil {
		return operators
	}
	return f.instructions(operators, client)
}

// fakePolicy is a [session.Policy] that calls the functions that are not nil.
type fakePolicy struct {
	permit func(call session.PolicyCall) policy.Decision
	payer  func(sessionID string) string
	admit  func(requestID string, more chat.Usage) *session.Refusal
	ended  func(r session.Request)
}

func (f fakePolicy) Payer(_ db.Queryer, sessionID string) (string, error) {
	if f.payer == nil {
		return "", nil
	}
	return f.payer(sessionID), nil
}

func (f fakePolicy) Permit(_ context.Context, call session.PolicyCall) (policy.Decision, error) {
	if f.permit == nil {
		return policy.Decision{Verdict: policy.Allow}, nil
	}
	return f.permit(call), nil
}

func (f fakePolicy) Admit(_ context.Context, requestID, _ string, more chat.Usage) (*session.Refusal, error) {
	if f.admit == nil {
		return nil, nil
	}
	return f.admit(requestID, more), nil
}

func (f fakePolicy) RequestEnded(_ *db.Tx, r session.Request) error {
	if f.ended != nil {
		f.ended(r)
	}
	return nil
}

// fakeBlobs returns the same content for every reference.
type fakeBlobs string

func (b fakeBlobs) Get(context.Context, string) ([]byte, error) { return []byte(b), nil }
