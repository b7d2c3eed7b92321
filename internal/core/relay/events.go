package relay

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"

	"lilac/internal/core/outbox"
	"lilac/internal/core/surface"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

func (s *Service) handle(ctx context.Context, d bus.Delivery) error {
	if d.Headers.Client() != s.platform() {
		return nil
	}
	payload, err := event.Decode(d.Event)
	if err != nil {
		return bus.Permanent(err)
	}
	return s.o.DB.Update(ctx, func(tx *db.Tx) error {
		if err := d.Ack(tx); err != nil {
			return err
		}
		in, err := s.input(tx, d, payload)
		if err != nil || in == nil {
			return err
		}
		id := d.Headers.RequestID()
		row, err := s.o.Table.Relay(tx, s.platform(), id)
		if fault.KindOf(err) == fault.NotFound {
			row, err = Row{RequestID: id, SessionID: d.Headers.SessionID(), Platform: s.platform()}, nil
		}
		if err == nil {
			_, _, err = s.core.ApplyTo(tx, id, State{Row: row}, in)
		}
		return err
	})
}

// input returns the input of an event, or nil if the event is of no interest.
func (s *Service) input(tx *db.Tx, d bus.Delivery, payload event.Payload) (Input, error) {
	switch p := payload.(type) {
	case event.RequestReply:
		mention, err := s.o.Requests.Mention(tx, d.Headers.RequestID())
		if err != nil {
			return nil, fmt.Errorf("find the user to mention: %w", err)
		}
		askers, err := s.o.Requests.Askers(tx, d.Headers.RequestID())
		if err != nil {
			return nil, fmt.Errorf("find the user who asked: %w", err)
		}
		asker := ""
		if len(askers) > 0 {
			asker = askers[0].UserID
		}
		return ReplyStarted{ReplyTo: replyTarget(d.Headers.RequestID(), s.platform()), Mention: mention, Asker: asker}, nil
	case event.RequestLifecycle:
		if in := questionInput(p); in != nil {
			return in, nil
		}
		return RequestEnded{State: p.State, Detail: p.Detail}, nil
	case event.SurfaceReanchor:
		cut := Cut{ID: d.ID, MessageID: p.MessageID, Offset: -1, Inherit: p.InheritReplyTo}
		if p.ReplyTo != nil {
			cut.ReplyTo = p.ReplyTo.MessageID
		}
		return Moved{cut}, nil
	}
	return nil, nil
}

// replyTarget returns the message that a request's id names, or "". The specific
// part of the id is a message's id only if it is a number.
func replyTarget(requestID, platform string) string {
	r, err := event.ParseRequestID(requestID)
	if err != nil || r.Surface != platform || strings.Trim(r.Specific, "0123456789") != "" {
		return ""
	}
	return r.Specific
}

// OnSent records the outcome of a message. The outbox calls it for the rows that
// a relay planned.
func (s *Service) OnSent(tx *db.Tx, r outbox.Row, m surface.Message) error {
	key := r.Key[strings.LastIndexByte(r.Key, ':')+1:]
	key, _, _ = strings.Cut(key, "~")
	row, err := s.o.Table.Relay(tx, s.platform(), r.RequestID)
	if err != nil {
		return err
	}
	if _, ok := row.message(key); !ok {
		return fmt.Errorf("record message %s: its relay has no such message", r.Key)
	}
	_, _, err = s.core.ApplyTo(tx, r.RequestID, State{Row: row}, RowFinished{Key: key, Row: r, Message: m})
	return err
}

// inTransaction reports whether carry carries out an effect.
func inTransaction(e Effect) bool {
	switch e.(type) {
	case Plan, Resend, Announce, Withdraw, Refuse, Cancel:
		return true
	default:
		return false
	}
}

// carry carries out the effects that belong to the transaction.
func (s *Service) carry(tx *db.Tx, _ string, state State, e Effect) error {
	row := state.Row
	switch e := e.(type) {
	case Plan:
		files, err := decodeFiles(e.View.Files)
		if err != nil {
			return err
		}
		return s.plan(tx, row, e.Message, surface.Send{ChannelID: row.SessionID, Content: s.content(row.RequestID, e.View), ReplyTo: e.View.ReplyTo, Files: files})
	case Resend:
		return s.plan(tx, row, e.Message, e.Send)
	case Announce:
		return s.announce(tx, e.Row, e.Message)
	case Withdraw:
		for _, key := range row.plannedKeys() {
			if err := s.o.Outbox.Withdraw(tx, key); err != nil { // calls OnSent
				return fmt.Errorf("withdraw %s: %w", key, err)
			}
		}
		return nil
	case Refuse:
		if s.o.Refused == nil {
			return nil
		}
		askers, err := s.o.Requests.Askers(tx, row.RequestID)
		if err != nil {
			return fmt.Errorf("find the users who asked: %w", err)
		}
		return s.o.Refused(tx, row, askers)
	case Cancel:
		return s.publish(tx, "relay-cancel:"+row.RequestID, row.RequestID, row.SessionID, event.RequestCancel{Reason: e.Reason})
	case Recall, Show, Edit, Delete, CheckPause, ShowTyping, Wait, Report:
		return nil // carried out by the follower
	default:
		return fmt.Errorf("unknown effect %T", e)
	}
}

func (s *Service) plan(tx *db.Tx, row Row, m Message, send surface.Send) error {
	return s.o.Outbox.Plan(tx, outbox.Row{Key: row.outboxKey(m), RequestID: row.RequestID, SessionID: row.SessionID, Send: send})
}

func (s *Service) content(requestID string, v View) surface.Content {
	c := surface.Content{Text: v.Text, PingUsers: v.Users}
	if !s.o.Adapter.Capabilities().Buttons {
		return c
	}
	if v.Question != nil {
		c.Buttons = v.Question.buttons(requestID)
	}
	if v.Stop && (v.Question == nil || !v.Question.inText()) {
		c.Buttons = append(c.Buttons, surface.Button{ID: "stop:" + requestID, Label: "Stop", Danger: true})
	}
	return c
}

func decodeFiles(binaries []event.BinaryOutput) (files []surface.File, err error) {
	for _, b := range binaries {
		file := surface.File{Name: b.Filename, MimeType: b.MimeType, Blob: b.Blob}
		if b.Blob == "" {
			if file.Data, err = base64.StdEncoding.DecodeString(b.DataBase64); err != nil {
				return nil, fmt.Errorf("decode file %s: %w", b.BinaryID, err)
			}
		}
		files = append(files, file)
	}
	return files, nil
}

// announce caches a message of ours and publishes that it shows the output.
func (s *Service) announce(tx *db.Tx, r outbox.Row, m surface.Message) error {
	m.Platform, m.ChannelID, m.ID, m.RequestID, m.FromSelf = s.platform(), r.Send.ChannelID, r.MessageID, r.RequestID, true
	if m.CreatedAt == 0 {
		m.CreatedAt = tx.Now().UnixMilli()
	}
	if err := s.o.Cache.PutMessage(tx, m); err != nil {
		return fmt.Errorf("cache our message: %w", err)
	}
	return s.publish(tx, "created:"+r.Key, r.RequestID, r.SessionID, event.SurfaceMessageCreated{MsgRef: m.Ref()})
}

func (s *Service) publish(tx *db.Tx, id, requestID, sessionID string, p event.Payload) error {
	e, err := event.New(event.Meta{ID: id, Time: tx.Now(), Headers: event.RequestHeaders(requestID, sessionID, s.platform())}, p)
	if err != nil {
		return err
	}
	return tx.Publish(e)
}
