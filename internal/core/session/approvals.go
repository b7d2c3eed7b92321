package session

import (
	"context"
	"encoding/json"
	"fmt"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/policy"
)

// CodeApprovalNeeded is the code of a call that did not run because people are asked about
// it first.
const CodeApprovalNeeded = "approval_needed"

// approvedEntry is the data of an entry approved: the approval of a call was used.
type approvedEntry struct {
	Tool string `json:"tool"`
	Hash string `json:"hash"`
	By   string `json:"by,omitempty"`
}

// Approvals decides about calls that running commands make. Its methods may be called from
// any goroutine.
type Approvals struct{ svc *Service }

// Approvals returns the approvals of the service's sessions.
func (s *Service) Approvals() Approvals { return Approvals{s} }

// Permit returns nil if the policy allows a call of a request, or a person has approved it.
// An approval for one call is used up before Permit returns, so the call runs once or
// never. If people have to be asked, they are when the request reaches its next step, and
// the error has [CodeApprovalNeeded]: the request continues after the answer and may then
// repeat the call with the same input.
func (a Approvals) Permit(ctx context.Context, requestID string, call PolicyCall) error {
	d, err := a.svc.opt.Policy.Permit(ctx, call)
	if err != nil {
		return fmt.Errorf("decide about %s: %w", call.Tool, err)
	}
	switch d.Verdict {
	case policy.Allow:
		return nil
	case policy.Deny:
		return denied("denied_by_policy", deniedText(d, call.Tool))
	}
	var refused error
	err = a.svc.change(ctx, call.SessionID, func(c *change) (err error) {
		refused, err = c.permitCall(requestID, call, d)
		return err
	})
	if err != nil {
		return fmt.Errorf("use the approval of %s: %w", call.Tool, err)
	}
	return refused
}

// PermitOperator returns nil if the policy allows a call with an operator's token. The operator
// may answer every question about a call, so one that the policy asks about runs; one that it
// denies does not.
func (a Approvals) PermitOperator(ctx context.Context, tool string, input json.RawMessage) error {
	d, err := a.svc.opt.Policy.Permit(ctx, PolicyCall{Tool: tool, Input: input, Grant: grant.By(grant.Person{ID: grant.Operator})})
	if err != nil {
		return fmt.Errorf("decide about %s: %w", tool, err)
	}
	if d.Verdict == policy.Deny {
		return denied("denied_by_policy", deniedText(d, tool))
	}
	return nil
}

// Revoke ends the standing approvals of a tool in a session; "" means those of all tools.
func (a Approvals) Revoke(ctx context.Context, sessionID, tool string) error {
	return a.svc.change(ctx, sessionID, func(c *change) error { return c.decide(StandingRevoked{Tool: tool}) })
}

func denied(code, message string) error {
	return &fault.Error{Kind: fault.Denied, Code: code, Message: message}
}

// permitCall uses the approval of a call, or notes that people have to be asked. refused is
// why the call must not run now.
func (c *change) permitCall(requestID string, call PolicyCall, d policy.Decision) (refused, err error) {
	asked := newAskedCall("", call.Tool, call.Input, d.Rule)
	if c.state.isStanding(asked.Tool, asked.Rule) {
		return nil, nil
	}
	above, err := c.svc.payer(c.tx, c.sessionID)
	if err != nil {
		return nil, err
	}
	if !c.state.isActive(requestID) || c.svc.opt.Surfaces.Unattended(call.Client) && above == c.sessionID {
		return denied("nobody_to_ask", unattendedText(asked.Tool)), nil
	}
	if i := c.state.Active.approvalIndex(asked.Tool, asked.Hash); i >= 0 {
		said := c.state.Active.Approvals[i]
		switch {
		case said.Rule != asked.Rule || said.Answer == Always: // it was about another rule: ask again
			if err := c.decide(ApprovalUsed{RequestID: requestID, Tool: asked.Tool, Hash: asked.Hash}); err != nil {
				return nil, err
			}
		case said.Answer == Once:
			if err := c.decide(ApprovalUsed{RequestID: requestID, Tool: asked.Tool, Hash: asked.Hash}); err != nil {
				return nil, err
			}
			return nil, c.tables.Journal.Record(c.tx, requestID, Entry{At: c.now(), Kind: kindApproved, Data: approvedEntry{asked.Tool, asked.Hash, said.By}})
		case said.Answer != NoAnswer:
			return denied("rejected", rejectedText(asked.Tool, said.Answer, said.By)), nil
		}
	}
	if err := c.decide(ApprovalNeeded{RequestID: requestID, Call: CallApproval{AskedCall: asked, Approvers: d.Approvers}}); err != nil {
		return nil, err
	}
	return denied(CodeApprovalNeeded, fmt.Sprintf(
		"Approval needed: %s did not run. A person is asked as soon as this command has ended, and you continue after the answer. Then repeat exactly this call.", asked.Tool)), nil
}
