package session

import (
	"strings"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

// maxTitle is the maximum length of a title made from a message, in runes.
const maxTitle = 60

// message applies a cmd.request.message.
func (c *change) message(e event.Event, p event.RequestMessage) error {
	if p.MessageID == "" {
		p.MessageID = e.ID
	}
	if p.Queue == "" {
		p.Queue = event.Prompt
	}
	switch {
	case !p.Queue.Valid():
		return bus.Permanent(fault.InvalidField("queue", "%q is not a queue mode.", p.Queue))
	case len(p.Messages) == 0:
		return bus.Permanent(fault.InvalidField("messages", "The command contains no message."))
	}
	h := e.Headers
	accepted, err := c.tables.Mailbox.ClaimAccepted(c.tx, c.sessionID, p.MessageID)
	if err != nil {
		return err
	}
	if _, err := c.session(); accepted && fault.KindOf(err) == fault.NotFound {
		c.svc.opt.Logger.Warn("message dropped: its session was deleted", "session_id", c.sessionID, "request_id", h.RequestID(), "message_id", p.MessageID)
		return nil
	}
	if err := c.ensureSession(h.RequestID(), h.Client()); err != nil {
		return err
	}
	seen, err := c.tables.Mailbox.HasMail(c.tx, c.sessionID, p.MessageID)
	if err != nil {
		return err
	}
	unusable, err := c.unusableRequests(h.RequestID(), p.ElseRequestID, event.ElseRequest(h.RequestID(), p.MessageID))
	if err != nil {
		return err
	}
	used, err := c.usedOfPausedLimit()
	if err != nil {
		return err
	}
	c.mail = &Mail{
		SessionID: c.sessionID, MessageID: p.MessageID, RequestID: h.RequestID(), Queue: p.Queue, State: MailWaiting,
		EventID: e.ID, CreatedAt: c.now(), Messages: p.Messages,
	}
	answer, reply, by := c.answerIn(p)
	return c.decide(Message{
		MessageID: p.MessageID, RequestID: h.RequestID(), Client: h.Client(), Queue: p.Queue,
		ElseRequestID: p.ElseRequestID, AnyActive: p.AnyActive, Duplicate: seen, Unusable: unusable,
		Rule: p.Rule, Author: AuthorOf(p.Messages), Answer: answer, Reply: reply, By: by, AnswersPause: p.AnswersPause, Grant: p.Grant, Agent: p.Agent, Used: used, NoSlot: c.svc.atCapacity(),
	})
}

// answerIn returns how a message reads as an answer to the open pause.
func (c *change) answerIn(p event.RequestMessage) (answer Answer, reply, by string) {
	pause := c.state.OpenPause()
	if pause == nil {
		return NoAnswer, "", ""
	}
	answer, reply = pause.Read(p.Messages)
	if p.AnswersPause != 0 && p.Answer != "" {
		answer = Answer(p.Answer)
	}
	if by = p.AnsweredBy; by == "" && len(p.Messages) > 0 {
		by, _ = QuestionOf(p.Messages[0])
	}
	return answer, reply, by
}

// unusableRequests returns those of the requests that have ended, are damaged or
// belong to another session.
func (c *change) unusableRequests(ids ...string) (out []string, err error) {
	for _, id := range ids {
		if id == "" {
			continue
		}
		r, err := c.request(id)
		switch {
		case fault.KindOf(err) == fault.NotFound:
		case db.IsDamaged(err):
			out = append(out, id)
		case err != nil:
			return nil, err
		case r.State.Ended() || r.SessionID != c.sessionID:
			out = append(out, id)
		}
	}
	return out, nil
}

// ensureSession creates the session if it does not exist.
func (c *change) ensureSession(requestID, client string) error {
	_, err := c.session()
	if fault.KindOf(err) != fault.NotFound {
		return err
	}
	v := Session{ID: c.sessionID, Client: client, CreatedAt: c.now(), UpdatedAt: c.now(), State: "idle"}
	v.Title = c.svc.opt.Surfaces.Title(c.tx, client, c.sessionID)
	if err := c.tables.Sessions.CreateSession(c.tx, v); err != nil {
		return err
	}
	return c.announce(event.SessionCreated, requestID, "session.created:"+c.sessionID, v)
}

// setTitle makes the first words of the messages the title of a session that has none.
func (c *change) setTitle(requestID string, messages []chat.Message) error {
	v, err := c.session()
	if err != nil || v.Title != "" {
		return err
	}
	for _, m := range messages {
		if m.Role != chat.User {
			continue
		}
		title := TitleOf(m.Text())
		if title == "" {
			continue
		}
		if err := c.tables.Sessions.SetTitle(c.tx, c.sessionID, title); err != nil {
			return err
		}
		v.Title, v.UpdatedAt, v.State, v.ActiveRequest = title, c.now(), "running", requestID
		c.row = &v
		return c.announce(event.SessionUpdated, requestID, "session.updated:"+c.sessionID+":title:"+requestID, v)
	}
	return nil
}

// TitleOf returns the title of a session that begins with a message.
func TitleOf(s string) string {
	words := text.SingleLine(s)
	runes := []rune(words)
	if len(runes) <= maxTitle {
		return words
	}
	return strings.TrimSpace(string(runes[:maxTitle-1])) + "…"
}
