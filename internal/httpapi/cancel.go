package httpapi

import (
	"fmt"
	"net/http"

	"lilac/internal/db"
	"lilac/internal/event"
	"lilac/internal/fault"
	"lilac/internal/session"
)

// maxReason keeps a reason a sentence.
const maxReason = 500

func (a *api) cancel(w http.ResponseWriter, r *http.Request) error {
	if err := a.needSessions(); err != nil {
		return err
	}
	body, err := readBody(w, r, maxBody)
	if err != nil {
		return err
	}
	var in struct {
		RequestID    string `json:"requestId"`
		CancelQueued bool   `json:"cancelQueued"`
		Reason       string `json:"reason"`
	}
	if err := decode(body, &in, true); err != nil {
		return err
	}
	if len(in.Reason) > maxReason {
		return fault.InvalidField("reason", "A reason has at most %d bytes.", maxReason)
	}
	answer := struct {
		Success   bool   `json:"success"`
		SessionID string `json:"sessionId"`
		RequestID string `json:"requestId,omitempty"`
		Message   string `json:"message"`
	}{Success: true, SessionID: r.PathValue("id"), Message: "Nothing runs in this session."}
	id := newID()
	err = a.DB.Update(r.Context(), func(tx *db.Tx) error {
		s, err := a.Store.Session(tx, r.PathValue("id"))
		if err != nil {
			return err
		}
		target, client, err := a.cancelTarget(tx, s, in.RequestID, in.CancelQueued)
		if err != nil || target == "" {
			return err
		}
		ev, err := event.New(event.Meta{ID: "cancel:" + id, Time: tx.Now(), Headers: event.RequestHeaders(target, s.ID, client)},
			event.RequestCancel{Reason: in.Reason, CancelQueued: in.CancelQueued})
		if err != nil {
			return err
		}
		answer.RequestID, answer.Message = target, "Stopping"
		return tx.Publish(ev)
	})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, answer)
}

// cancelTarget finds the request to stop: the one that was named, else what
// runs, else (when the queue is to be emptied too) the first that waits.
func (a *api) cancelTarget(tx *db.Tx, s session.Session, named string, queued bool) (id, client string, err error) {
	switch {
	case named != "":
		story, err := a.Store.Story(tx, named)
		if err != nil {
			return "", "", err
		}
		if story.SessionID != s.ID {
			return "", "", &fault.Error{Kind: fault.NotFound, Field: "requestId", Message: "This session has no such request."}
		}
		return named, story.Client, nil
	case s.ActiveRequest != "":
		return s.ActiveRequest, s.Client, nil
	case !queued:
		return "", "", nil
	}
	recent, err := a.Store.Requests(tx, s.ID, defaultLimit, "")
	if err != nil {
		return "", "", fmt.Errorf("list requests: %w", err)
	}
	for _, req := range recent {
		if req.State == event.StateQueued {
			id, client = req.ID, req.Client
		}
	}
	return id, client, nil
}
