package workflow

import (
	"fmt"
	"strings"
	"time"

	"lilac/internal/core/outbox"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

const (
	// postTTL is the time after which the message of a workflow is not sent any more.
	postTTL = time.Hour
	// maxOrigins bounds how many workflows of workflows OriginRequest follows.
	maxOrigins = 100
)

// ClaimReply gives a reply to the workflows that wait for it. The router calls it in
// its transaction for every reply. It returns true if the reply belongs to a
// workflow, so that nothing else may react to it: a task waits or waited for a reply to
// the message, or may turn out to.
func (s *Service) ClaimReply(tx *db.Tx, m surface.Message) (bool, error) {
	if m.ReplyTo == "" {
		return false, nil
	}
	ids, err := s.o.Waits.WhoseReply(tx, m.Platform, m.ChannelID, m.ReplyTo)
	if err != nil {
		return false, err
	}
	for _, id := range ids {
		if err := s.reply(tx, id, m); err != nil {
			return false, err
		}
	}
	if len(ids) > 0 {
		return true, nil
	}
	mayBe, err := s.mayBeReplyToUnsent(tx, m)
	if err != nil || !mayBe {
		return false, err
	}
	return true, s.o.Replies.HoldReply(tx, HeldReply{m.Platform, m.ChannelID, m.ID, m.ReplyTo})
}

// mayBeReplyToUnsent reports whether a message may reply to one that is being sent, and
// whose id is not known yet.
func (s *Service) mayBeReplyToUnsent(q db.Queryer, m surface.Message) (bool, error) {
	waits, err := s.o.Waits.AwaitsSending(q, m.Platform, m.ChannelID)
	if err != nil || !waits {
		return false, err
	}
	to, err := s.o.Cache.Message(q, m.Platform, m.ChannelID, m.ReplyTo)
	if fault.KindOf(err) == fault.NotFound {
		return true, nil
	}
	// A relay's message already has a request.
	return to.FromSelf && to.RequestID == "", err
}

func (s *Service) reply(tx *db.Tx, id string, m surface.Message) error {
	_, err := s.apply(tx, id, Reply{
		Platform: m.Platform, ChannelID: m.ChannelID, To: m.ReplyTo, Program: m.FromSelf || m.AuthorBot,
		Message: HumanMessage{MessageID: m.ID, UserID: m.AuthorID, UserName: m.AuthorName, Text: text.TruncateWith(m.Text, maxMessage, "…"), At: m.CreatedAt},
	})
	return err
}

// StillWanted reports whether the message of a task must still be sent. While a platform
// is switched off, messages cannot be withdrawn from it.
func (s *Service) StillWanted(tx *db.Tx, r outbox.Row) (bool, error) {
	id, taskID, err := taskOf(r)
	if err != nil {
		return false, err
	}
	w, err := s.o.Table.Workflow(tx, id)
	if fault.KindOf(err) == fault.NotFound {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("load workflow: %w", err)
	}
	t, _ := w.Task(taskID)
	return w.isWaiting(t), nil
}

// taskOf returns the task of an outbox row.
func taskOf(r outbox.Row) (id, taskID string, err error) {
	parts := strings.Split(r.Key, ":") // see postKey
	if len(parts) != 3 {
		return "", "", fmt.Errorf("find the task of outbox row %s: malformed key", r.Key)
	}
	return parts[1], parts[2], nil
}

// OnSent records the id of the message of a task, in the transaction that updates the
// outbox row, and then delivers the held replies of the channel.
func (s *Service) OnSent(tx *db.Tx, r outbox.Row, m surface.Message) error {
	id, taskID, err := taskOf(r)
	if err != nil {
		return err
	}
	in := Sent{TaskID: taskID, Reason: r.Reason}
	if r.State == outbox.Sent {
		in.MessageID = r.MessageID
		m.Platform, m.ChannelID, m.ID, m.FromSelf = r.Platform, r.Send.ChannelID, r.MessageID, true
		if m.CreatedAt == 0 {
			m.CreatedAt = tx.Now().UnixMilli()
		}
		if err := s.o.Cache.PutMessage(tx, m); err != nil {
			return fmt.Errorf("cache the sent message: %w", err)
		}
	}
	if _, err := s.apply(tx, id, in); err != nil {
		return err
	}
	return s.releaseHeld(tx, r.Platform, r.Send.ChannelID)
}

// releaseHeld delivers the held replies of a channel whose owner is known now.
func (s *Service) releaseHeld(tx *db.Tx, platform, channelID string) error {
	held, err := s.o.Replies.HeldReplies(tx, platform, channelID)
	if err != nil {
		return err
	}
	for _, h := range held {
		m, err := s.o.Cache.Message(tx, h.Platform, h.ChannelID, h.MessageID)
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return err
		}
		gone := err != nil || m.DeletedAt > 0
		ids, err := s.o.Waits.WhoseReply(tx, h.Platform, h.ChannelID, h.ReplyTo)
		if err != nil {
			return err
		}
		if !gone && len(ids) == 0 {
			still, err := s.mayBeReplyToUnsent(tx, m)
			if err != nil {
				return err
			}
			if still {
				continue
			}
		}
		if err := s.o.Replies.DropHeld(tx, h); err != nil {
			return err
		}
		switch route := s.platforms[h.Platform].Route; {
		case gone:
		case len(ids) > 0:
			for _, id := range ids {
				if err := s.reply(tx, id, m); err != nil {
					return err
				}
			}
		case route != nil:
			if err := route(tx, m); err != nil {
				return fmt.Errorf("route a held reply: %w", err)
			}
		}
	}
	return nil
}

// planMessage puts the message whose reply a task waits for into the outbox.
func (s *Service) planMessage(tx *db.Tx, w Workflow, t Task) error {
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

// postKey returns the outbox key of the message of a task.
func postKey(id, taskID string) string { return Group + ":" + id + ":" + taskID }

// withdrawMessage withdraws the message of a task; the outbox then calls
// [Service.OnSent].
func (s *Service) withdrawMessage(tx *db.Tx, w Workflow, taskID string) error {
	t, _ := w.Task(taskID)
	p, ok := s.platforms[t.Wait.Platform]
	if !ok {
		return nil // nothing is sent there; if it comes back in time, see StillWanted
	}
	return p.Outbox.Withdraw(tx, postKey(w.ID, taskID))
}

// wake publishes the request that wakes the agent.
func (s *Service) wake(tx *db.Tx, w Workflow, e Wake) error {
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
func (s *Service) markDelivered(tx *db.Tx, w Workflow, taskID string) error {
	t, _ := w.Task(taskID)
	p, ok := s.platforms[t.Wait.Platform]
	if !ok || p.MarkDelivered == nil || t.Result == nil || t.Result.Message == nil || t.Wait.ChannelID != w.Resume.SessionID || t.Wait.Platform != w.Resume.Client {
		return nil
	}
	return p.MarkDelivered(tx, w.Resume.SessionID, t.Result.Message.MessageID)
}

// charge counts the request for the rule that led to the workflow, unless a person has
// taken part since, and reports whether the budget allows the request.
func (s *Service) charge(tx *db.Tx, w Workflow, command event.Event) (bool, error) {
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
func (s *Service) trigger(q db.Queryer, w Workflow, taskID string) (chat.Message, error) {
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

// OnMessage gives a person's message, in a conversation without replies, to the
// workflows that wait for it, in the transaction that makes it a request. It returns
// the messages that the request must begin with: the briefings of the workflows that
// continue in this conversation. Workflows of other conversations get requests of
// their own.
func (s *Service) OnMessage(tx *db.Tx, sessionID, messageID, content string) (briefings []chat.Message, err error) {
	ids, err := s.o.Waits.WaitingForMessage(tx, sessionID)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		in := MessagePosted{SessionID: sessionID, Message: HumanMessage{MessageID: messageID, Text: text.TruncateWith(content, maxMessage, "…"), At: tx.Now().UnixMilli()}}
		core := s.core
		core.Carry = func(tx *db.Tx, id string, w Workflow, e Effect) error {
			wake, is := e.(Wake)
			if !is || w.Resume.SessionID != sessionID {
				return s.carryOut(tx, id, w, e)
			}
			briefings = append(briefings, Briefing(w, wake.TaskID))
			if more := otherResults(w, wake.TaskID); more != "" {
				briefings = append(briefings, chat.Text(chat.User, strings.TrimSpace(more)))
			}
			return nil
		}
		_, err := s.decide(tx, core, id, in)
		if db.IsDamaged(err) {
			s.logDamaged(id, err)
			continue
		}
		if err != nil {
			return nil, err
		}
	}
	return briefings, nil
}

// logDamaged logs a workflow whose row cannot be read, so that the other workflows still
// receive the message or event.
func (s *Service) logDamaged(id string, err error) {
	s.o.Logger.Error("cannot read a waiting workflow", "workflow_id", id, "error", err)
}

// Mention returns the person whom the answer to a request of a workflow mentions, or
// "".
func (s *Service) Mention(q db.Queryer, requestID string) (string, error) {
	r, err := event.ParseRequestID(requestID)
	if err != nil || r.Surface != Surface {
		return "", nil
	}
	w, err := s.o.Table.Workflow(q, r.Session)
	if fault.KindOf(err) == fault.NotFound {
		return "", nil
	}
	return w.Resume.Mention, err
}

// OriginRequest returns the request of a person that a request goes back to: the origin
// of its workflow if a workflow made it, otherwise the request itself.
func (s *Service) OriginRequest(q db.Queryer, requestID string) (string, error) {
	for range maxOrigins {
		r, err := event.ParseRequestID(requestID)
		if err != nil || r.Surface != Surface {
			return requestID, nil
		}
		w, err := s.o.Table.Workflow(q, r.Session)
		if err != nil {
			return "", err
		}
		requestID = w.Origin.RequestID
	}
	return requestID, nil
}
