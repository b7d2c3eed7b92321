package session

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"lilac/internal/foundation/policy"
)

// Forms asks people what programs want to know during calls. Its methods may be called from
// any goroutine.
type Forms struct{ svc *Service }

// Forms returns the forms of the service's sessions.
func (s *Service) Forms() Forms { return Forms{s} }

// FormCall is a call of a request during which a program asks.
type FormCall struct {
	RequestID, SessionID, Client string
	// Tool is the callable.
	Tool  string
	Input json.RawMessage
}

// Answer returns what a person has answered to a form: the values as JSON, or [Declined];
// "" means that nobody answered in time. If the form was not answered yet, answered is
// false: people are asked when the request reaches its next step, and the answer is there
// when the call is repeated. If nobody can be asked, the answer is Declined.
func (f Forms) Answer(ctx context.Context, call FormCall, form Form) (reply string, answered bool, err error) {
	if f.svc.opt.Surfaces.Unattended(call.Client) {
		return Declined, true, nil
	}
	asked := CallForm{Form: form, Tool: call.Tool, Call: policy.Hash(call.Input), Hash: form.hash()}
	err = f.svc.change(ctx, call.SessionID, func(c *change) error {
		reply, answered = Declined, true
		if !c.state.isActive(call.RequestID) {
			return nil
		}
		if i := c.state.Active.formIndex(asked); i >= 0 {
			found := c.state.Active.Forms[i]
			reply, answered = found.Reply, found.Answer != NoAnswer
			return nil
		}
		reply, answered = "", false
		return c.decide(FormNeeded{RequestID: call.RequestID, Form: asked})
	})
	if err != nil {
		return "", false, fmt.Errorf("ask a person during %s: %w", call.Tool, err)
	}
	return reply, answered, nil
}

// Used reports that a call has ended that needs its answers no more: if it is repeated,
// people are asked again.
func (f Forms) Used(ctx context.Context, call FormCall) error {
	err := f.svc.change(ctx, call.SessionID, func(c *change) error {
		return c.decide(FormsUsed{RequestID: call.RequestID, Tool: call.Tool, Call: policy.Hash(call.Input)})
	})
	if err != nil {
		return fmt.Errorf("use the answers for %s: %w", call.Tool, err)
	}
	return nil
}

// hash identifies the form.
func (f Form) hash() string {
	digest := sha256.Sum256([]byte(f.From + "\x00" + f.Message + "\x00" + f.URL + "\x00" + string(policy.Canonical(f.Schema))))
	return hex.EncodeToString(digest[:])
}

// forForm is the pause in which people are asked to answer a form.
func (s pauses) forForm(f CallForm) *Pause {
	now := s.opt.Now()
	return &Pause{
		Kind: ForReply, Form: &f, Choices: f.suggestions(), Question: f.question(),
		Since: now.UnixMilli(), Until: now.Add(s.settings.Load().Limits.questionWait()).UnixMilli(),
	}
}
