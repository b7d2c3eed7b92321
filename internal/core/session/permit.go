package session

import (
	"cmp"
	"context"
	"fmt"

	"lilac/internal/agent"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/policy"
)

// permit implements [agent.Config.Permit].
func (r *run) permit(ctx context.Context, call chat.Part) (agent.Permit, error) {
	p := agent.Permit{Grant: r.grant}
	if why := r.grant.Refusal(call.ToolName); why != "" {
		p.Refusal = refusalText(why)
		return p, nil
	}
	d, err := r.svc.opt.Policy.Permit(ctx, PolicyCall{SessionID: r.sessionID, Client: r.client, Tool: call.ToolName, Input: call.Input, Grant: r.grant})
	if err != nil {
		return p, fmt.Errorf("decide about %s: %w", call.ToolName, err)
	}
	if d.Verdict == policy.Deny {
		p.Refusal = refusalText(deniedText(d, call.ToolName))
		return p, nil
	}
	if d.Verdict == policy.Ask {
		return r.permitApproved(ctx, p, call, d)
	}
	if question, ok := askedQuestion(call); ok {
		return r.permitQuestion(p, call, question), nil
	}
	return p, nil
}

func refusalText(why string) string {
	return fmt.Sprintf("Not run: %s Do not try to do the same in another way; say what you could not do.", why)
}

func deniedText(d policy.Decision, tool string) string {
	return fmt.Sprintf("The policy (rule %d) does not allow %s here.", d.Position, tool)
}

// permitApproved permits a call about which a person has to be asked first.
func (r *run) permitApproved(ctx context.Context, p agent.Permit, call chat.Part, d policy.Decision) (agent.Permit, error) {
	asked := newAskedCall(call.ToolCallID, call.ToolName, call.Input, d.Rule)
	if said, ok := r.verdicts[call.ToolCallID]; ok && said.Tool == asked.Tool && said.Hash == asked.Hash {
		if said.Answer == Once || said.Answer == Always {
			p.Once = true
			return p, nil
		}
		p.Refusal = rejectedText(call.ToolName, said.Answer, said.By)
		return p, nil
	}
	if r.svc.opt.Surfaces.Unattended(r.client) && r.payer == r.sessionID {
		p.Refusal = refusalText(unattendedText(call.ToolName))
		return p, nil
	}
	var state State
	err := r.svc.opt.DB.Read(ctx, func(q db.Queryer) (err error) {
		state, err = r.svc.opt.Tables.States.State(q, r.sessionID)
		return err
	})
	if err != nil {
		return p, fmt.Errorf("read the approvals: %w", err)
	}
	if !state.isStanding(call.ToolName, d.Rule) {
		p.Ask, r.asks = true, pauses{r.svc}.forApproval(asked, d.Approvers)
	}
	return p, nil
}

// rejectedText tells the model that a call must not run.
func rejectedText(tool string, answer Answer, by string) string {
	if answer == TimedOut {
		return refusalText(fmt.Sprintf("%s needs an approval, and nobody answered in time.", tool))
	}
	return refusalText(fmt.Sprintf("%s needs an approval, and %s said no.", tool, cmp.Or(by, "a person")))
}

func unattendedText(tool string) string {
	return fmt.Sprintf("%s needs an approval, and nobody can be asked here.", tool)
}

// forApproval is the pause in which people are asked about a call.
func (s pauses) forApproval(call AskedCall, approvers []string) *Pause {
	now := s.opt.Now()
	return &Pause{
		Kind: ForApproval, Call: &call, Approvers: approvers, Question: call.question(),
		Since: now.UnixMilli(), Until: now.Add(s.settings.Load().Limits.wait()).UnixMilli(),
	}
}
