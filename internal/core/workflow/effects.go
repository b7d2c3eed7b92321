package workflow

import (
	"fmt"
	"strings"

	"lilac/internal/core/outbox"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// effects carries out the effects of a decision, in its transaction.
type effects struct{ *Service }

func (s effects) carryOut(tx *db.Tx, _ string, w Workflow, e Effect) error {
	switch e := e.(type) {
	case Publish:
		return s.publish(tx, w.Origin.headers(), Group+":"+w.ID+":"+e.Key, e.Payload)
	case SendMessage:
		return s.planMessage(tx, w, e.Task)
	case WithdrawMessage:
		return s.withdrawMessage(tx, w, e.TaskID)
	case Wake:
		return s.wake(tx, w, e)
	case Abandon:
		s.o.Logger.Warn("cannot wake the agent for a workflow: its session is gone", "workflow_id", w.ID, "session_id", w.Resume.SessionID)
		return nil
	case EndChain:
		return s.endChain(tx, w.Payer, e.Depth, w.ID)
	case Refuse:
		return nil // the caller returns or logs it
	}
	return fmt.Errorf("unknown effect %T", e)
}

// endChain records that a chain of events ends with a workflow.
func (s effects) endChain(tx *db.Tx, p Payer, depth int, id string) error {
	s.o.Logger.Warn("a chain of events ends here: too many caused each other", "workflow_id", id, "depth", depth)
	if s.o.Causes == nil || p == (Payer{}) {
		return nil
	}
	return s.o.Causes.EndChain(tx, p, depth, id)
}

// endRefusedChain is like endChain, for a workflow that was refused.
func (s effects) endRefusedChain(tx *db.Tx, from Origin, id string) error {
	cause, err := s.causeOf(tx, from)
	if err != nil {
		return err
	}
	return s.endChain(tx, cause.Payer, cause.Depth+1, id)
}

func (s effects) publish(tx *db.Tx, h event.Headers, id string, p event.Payload) error {
	e, err := event.New(event.Meta{ID: id, Time: tx.Now(), Headers: h}, p)
	if err != nil {
		return err
	}
	return tx.Publish(e)
}

// planMessage puts the message whose reply a task waits for into the outbox.
func (s effects) planMessage(tx *db.Tx, w Workflow, t Task) error {
	p := s.platforms[t.Wait.Platform] // see Facts.Disconnected
	content := surface.Content{Text: t.Wait.Text}
	if p.ResolveMentions != nil {
		content.Text, content.PingUsers = p.ResolveMentions(tx, t.Wait.Text)
	}
	ttl := min(postTTL.Milliseconds(), t.Due-t.CreatedAt)
	return p.Outbox.Plan(tx, outbox.Row{
		Key: postKey(w.ID, t.ID), RequestID: w.Origin.RequestID, SessionID: w.Origin.SessionID, ExpiresAt: tx.Now().UnixMilli() + ttl,
		Send: surface.Send{ChannelID: t.Wait.ChannelID, Content: content, ReplyTo: t.Wait.ReplyTo},
	})
}

// withdrawMessage withdraws the message of a task; the outbox then calls
// [Service.OnSent].
func (s effects) withdrawMessage(tx *db.Tx, w Workflow, taskID string) error {
	t, _ := w.Task(taskID)
	p, ok := s.platforms[t.Wait.Platform]
	if !ok {
		return nil // nothing is sent there; if it comes back in time, see StillWanted
	}
	return p.Outbox.Withdraw(tx, postKey(w.ID, taskID))
}

// wake publishes the request that wakes the agent.
func (s effects) wake(tx *db.Tx, w Workflow, e Wake) error {
	trigger, err := s.trigger(tx, w, e.TaskID)
	if err != nil {
		return err
	}
	id := RequestID(w.ID, e.N)
	h := event.RequestHeaders(id, w.Resume.SessionID, w.Resume.Client).With(event.HeaderParentRequestID, w.Origin.RequestID)
	command, err := event.New(event.Meta{ID: EventID(id), Time: tx.Now(), Headers: h}, event.RequestMessage{
		Queue: event.Prompt, MessageID: strings.ReplaceAll(id, ":", "-"), Grant: w.grantNow(),
		Messages: []chat.Message{Briefing(w, e.TaskID), trigger},
	})
	if err != nil {
		return err
	}
	if paid, err := s.charge(tx, w, command); err != nil || !paid {
		return err
	}
	if err := s.markDelivered(tx, w, e.TaskID); err != nil {
		return err
	}
	return tx.Publish(command)
}

// markDelivered records that the agent receives a person's message, if the message is in
// the conversation that is woken.
func (s effects) markDelivered(tx *db.Tx, w Workflow, taskID string) error {
	t, _ := w.Task(taskID)
	p, ok := s.platforms[t.Wait.Platform]
	if !ok || p.MarkDelivered == nil || t.Result == nil || t.Result.Message == nil || t.Wait.ChannelID != w.Resume.SessionID || t.Wait.Platform != w.Resume.Client {
		return nil
	}
	return p.MarkDelivered(tx, w.Resume.SessionID, t.Result.Message.MessageID)
}

// charge counts the request for the rule that led to the workflow, unless a person has
// taken part since, and reports whether the budget allows the request.
func (s effects) charge(tx *db.Tx, w Workflow, command event.Event) (bool, error) {
	if s.o.Causes == nil || w.Payer == (Payer{}) || w.PersonInvolved() {
		return true, nil
	}
	paid, err := s.o.Causes.Charge(tx, w.Payer, w.Depth(), command)
	if err != nil {
		return false, fmt.Errorf("charge rule %s: %w", w.Payer.Rule, err)
	}
	if !paid {
		s.o.Logger.Warn("cannot wake the agent for a workflow: its rule has used up its budget", "workflow_id", w.ID, "rule", w.Payer.Rule)
	}
	return paid, nil
}

// trigger returns the user message of the request: the message of a person, rendered as
// all messages of people are, or a fixed text.
func (s effects) trigger(q db.Queryer, w Workflow, taskID string) (chat.Message, error) {
	t, _ := w.Task(taskID)
	if t.Result == nil || t.Result.Message == nil {
		return Trigger(w, taskID), nil
	}
	said := t.Result.Message
	m := surface.Message{
		Platform: t.Wait.Platform, ChannelID: t.Wait.ChannelID, ID: said.MessageID, AuthorID: said.UserID, AuthorName: said.UserName,
		Text: said.Text, CreatedAt: said.At,
	}
	cached, err := s.o.Cache.Message(q, m.Platform, m.ChannelID, m.ID)
	switch {
	case err == nil && cached.DeletedAt == 0:
		m.Attachments = cached.Attachments
	case err != nil && fault.KindOf(err) != fault.NotFound:
		return chat.Message{}, err
	}
	if p, ok := s.platforms[m.Platform]; ok && p.Render != nil {
		return WithOtherResults(p.Render(q, m), w, taskID), nil
	}
	return WithOtherResults(chat.Text(chat.User, m.Text), w, taskID), nil
}
