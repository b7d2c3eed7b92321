package app

import (
	"context"
	"fmt"
	"time"

	"lilac/internal/agent"
	"lilac/internal/app/observe"
	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/policy"
	"lilac/internal/store"
)

// runnerTables returns the tables of the runner.
func runnerTables() session.Tables {
	return session.Tables{
		Sessions: store.Sessions{}, States: store.SessionStates{}, Mailbox: store.Mailbox{}, History: store.History{},
		Files: store.Files{}, Requests: store.Requests{}, Journal: store.Journal{}, Spending: store.Usage{}, Prompts: store.Prompts{},
	}
}

// runnerPorts answers the runner's questions; it implements [session.Surfaces],
// [session.Policy] and [session.Observer].
type runnerPorts struct{ *base }

func (r runnerPorts) HasRelay(client string) bool { return r.isPlatform(client) }

func (r runnerPorts) Title(q db.Queryer, client, sessionID string) string {
	return names(r).titleOf(q, client, sessionID)
}

func (r runnerPorts) Grant(q db.Queryer, client, sessionID string, rules []string) (grant.Grant, error) {
	return r.placeGrant(q, client, sessionID, rules)
}

func (r runnerPorts) Workspace(q db.Queryer, s session.Session, rules []string) (sessionID string, err error) {
	return workspaces(r).of(q, s, rules)
}

// Instructions returns the system prompt: the operator's instructions, then those
// for the agent and for the platform.
func (r runnerPorts) Instructions(operators, client, workspace string) string {
	in := agent.SystemInput{Instructions: operators, Workspace: workspace, Client: client, Project: agent.ReadProject(workspace)}
	if client == task.Client {
		in.Client = "" // a task has no conversation
		return agent.SystemPrompt(in) + "\n" + agent.TaskInstructions
	}
	out := agent.SystemPrompt(in)
	if r.isPlatform(client) {
		out += "\n" + agent.ChatInstructions(client)
	}
	return out
}

func (r runnerPorts) Unattended(client string) bool { return client == task.Client }

// NewConversation returns the command that begins a new conversation, "" for none.
func (r runnerPorts) NewConversation(client string) string {
	if r.isPlatform(client) {
		return "/new"
	}
	return ""
}

// Agent returns the task of a sub-agent and its description.
func (r runnerPorts) Agent(q db.Queryer, sessionID string) (id, name string, err error) {
	return r.agentIn(q, sessionID)
}

// agentIn returns the id and the description of the task whose sub-agent works in a session,
// and "" for every other session.
func (b *base) agentIn(q db.Queryer, sessionID string) (id, name string, err error) {
	if !task.IsChild(sessionID) {
		return "", "", nil
	}
	t, err := b.store.Tasks.TaskByChild(q, sessionID)
	if fault.KindOf(err) == fault.NotFound {
		return "", "", nil
	}
	return t.ID, t.Description, err
}

// Payer returns the session whose budget pays for the work in a session. For a sub-agent's
// session, that is the session that started it.
func (r runnerPorts) Payer(q db.Queryer, sessionID string) (string, error) {
	if !task.IsChild(sessionID) {
		return "", nil
	}
	return r.store.Tasks.PayerOf(q, sessionID)
}

// Admit asks the rule that started a request whether the request may continue.
func (r runnerPorts) Admit(ctx context.Context, requestID, sessionID string, more chat.Usage) (*session.Refusal, error) {
	refusal, err := r.env.Allow(ctx, requestID, sessionID, more)
	if err != nil || refusal == nil {
		return nil, err
	}
	return &session.Refusal{Reason: refusal.Sentence, Quiet: refusal.Announced, Drop: refusal.Queued, DropReason: refusal.QueuedReason}, nil
}

// Permit decides about a call, by the configuration in force.
func (r runnerPorts) Permit(ctx context.Context, c session.PolicyCall) (policy.Decision, error) {
	cfg := r.now.Load().config
	if len(cfg.Policy) == 0 {
		return policy.Decision{Verdict: policy.Allow}, nil
	}
	rules, err := cfg.PolicyRules()
	if err != nil {
		return policy.Decision{}, fmt.Errorf("read the policy: %w", err)
	}
	var place policy.Place
	err = r.db.Read(ctx, func(q db.Queryer) (err error) {
		place, err = r.policyPlace(q, c.Client, c.SessionID)
		return err
	})
	if err != nil {
		return policy.Decision{}, fmt.Errorf("find where a request works: %w", err)
	}
	return policy.Decide(rules, policy.Call{Tool: c.Tool, Input: c.Input, People: c.Grant.People(), Place: place}), nil
}

// RequestEnded measures the request, and reports the end of a sub-agent's request to the task service.
func (r runnerPorts) RequestEnded(tx *db.Tx, req session.Request) error {
	if req.CreatedAt > 0 { // otherwise, its row is damaged
		took := time.Duration(req.EndedAt-req.CreatedAt) * time.Millisecond
		tx.AfterCommit(func() { r.observer.RequestEnded(req.State, req.Client, took) })
	}
	return r.tasks.RequestEnded(tx, req.ID, req.SessionID, req.State, req.Detail)
}

func (r runnerPorts) ObserveRun(ctx context.Context, run session.RunInfo) (context.Context, func(error)) {
	return r.observer.Run(ctx, observe.Run(run))
}
