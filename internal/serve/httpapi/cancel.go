package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
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
	}{Success: true, SessionID: r.PathValue("id"), Message: "Nothing runs in this session now; what it has accepted and not begun is stopped."}
	id := newID()
	err = a.DB.Update(r.Context(), func(tx *db.Tx) error {
		s, err := a.Store.Session(tx, r.PathValue("id"))
		if err != nil {
			return err
		}
		target, client, err := a.cancelTarget(tx, s, in.RequestID, in.CancelQueued)
		if errors.Is(err, errOver) {
			answer.RequestID, answer.Message = in.RequestID, "This request is over already."
			return nil
		}
		if err != nil {
			return err
		}
		if target == "" {
			// What was accepted a moment ago may not have come to the runner yet.
			answer.RequestID = in.RequestID
			return a.stopLater(r.Context(), tx, id, event.UserStopPayload{
				SessionID: s.ID, RequestID: in.RequestID, Client: s.Client, CancelQueued: in.CancelQueued, Reason: in.Reason,
			})
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

// stopLater lets the stop take the way that the prompts of the session take,
// behind those that were accepted before.
func (a *api) stopLater(ctx context.Context, tx *db.Tx, id string, stop event.UserStopPayload) error {
	payload, err := json.Marshal(stop)
	if err != nil {
		return fmt.Errorf("encode stop: %w", err)
	}
	_, err = environment.PublishTraced(tx, a.Store, event.EnvEvent{
		ID:       "user_stop:" + id,
		Type:     event.UserStop,
		Metadata: event.EnvMetadata{TriggerSessionID: stop.SessionID, Source: "user"},
		Payload:  payload,
	}, event.TraceParent(ctx))
	return err
}

// errOver says that the request to stop has ended.
var errOver = errors.New("the request is over")

// cancelTarget finds the request to stop: the one that was named, else what
// runs, else (when the queue is to be emptied too) the first that waits. It is
// "" when there is none, or none yet of the id that was named.
func (a *api) cancelTarget(tx *db.Tx, s session.Session, named string, queued bool) (id, client string, err error) {
	switch {
	case named != "":
		story, err := a.Store.Story(tx, named)
		if parts, bad := event.ParseRequestID(named); fault.KindOf(err) == fault.NotFound && bad == nil && parts.Surface == s.Client && parts.Session == s.ID {
			return "", "", nil
		}
		if err != nil {
			return "", "", err
		}
		if story.SessionID != s.ID {
			return "", "", &fault.Error{Kind: fault.NotFound, Field: "requestId", Message: "This session has no such request."}
		}
		if story.State.Ended() {
			return "", "", errOver
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
