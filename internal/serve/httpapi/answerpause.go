package httpapi

import (
	"fmt"
	"net/http"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// answer says continue or stop to a request that waits at a limit. It is the
// same as saying so in the conversation, except that it can be meant for
// nothing else: of several answers to one question the first counts.
func (a *api) answer(said session.Answer) handler {
	return func(w http.ResponseWriter, r *http.Request) error {
		if err := a.needSessions(); err != nil {
			return err
		}
		body, err := readBody(w, r, maxBody)
		if err != nil {
			return err
		}
		if err := decode(body, &struct{}{}, true); err != nil {
			return err
		}
		var paused session.Pause
		err = a.DB.Update(r.Context(), func(tx *db.Tx) error {
			story, err := a.Store.Story(tx, r.PathValue("id"))
			if err != nil {
				return err
			}
			s, err := a.Store.Session(tx, story.SessionID)
			if err != nil {
				return err
			}
			if s.Paused == nil || s.ActiveRequest != story.ID {
				return &fault.Error{Kind: fault.Conflict, Code: "not_paused", Message: "This request does not wait for an answer."}
			}
			paused = *s.Paused
			id := fmt.Sprintf("answer:%s:%d", story.ID, paused.Number)
			ev, err := event.New(event.Meta{ID: id, Time: tx.Now(), Headers: event.RequestHeaders(story.ID, s.ID, story.Client)}, event.RequestMessage{
				Queue: event.Steer, MessageID: id, AnswersPause: paused.Number,
				Messages: []chat.Message{chat.Text(chat.User, string(said))},
			})
			if err != nil {
				return err
			}
			return tx.Publish(ev)
		})
		if err != nil {
			return err
		}
		return writeJSON(w, http.StatusOK, struct {
			Success   bool           `json:"success"`
			RequestID string         `json:"requestId"`
			Pause     int            `json:"pause"`
			Answer    session.Answer `json:"answer"`
		}{true, r.PathValue("id"), paused.Number, said})
	}
}
