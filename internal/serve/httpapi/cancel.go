package httpapi

import (
	"errors"
	"fmt"
	"net/http"

	"lilac/internal/core/account"
	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/prompting"
)

// maxReason limits a reason to about a sentence, in bytes.
const maxReason = 500

// cancels stops requests.
type cancels struct {
	people   people
	db       *db.DB
	inbox    environment.Inbox
	sessions *sessions
	requests *requests
}

type cancelBody struct {
	RequestID    string `json:"requestId,omitempty"`
	CancelQueued bool   `json:"cancelQueued,omitempty"`
	Reason       string `json:"reason,omitempty"`
}

type cancelled struct {
	Success   bool   `json:"success"`
	SessionID string `json:"sessionId"`
	RequestID string `json:"requestId,omitempty"`
	Message   string `json:"message"`
}

func (c *cancels) cancel(r *http.Request, in cancelBody) (answer cancelled, err error) {
	if len(in.Reason) > maxReason {
		return answer, fault.InvalidField("reason", "A reason has at most %d bytes.", maxReason)
	}
	answer = cancelled{Success: true, SessionID: r.PathValue("id"), Message: "Nothing is running in this session. Accepted messages that have not started are stopped."}
	id := newID()
	err = c.db.Update(r.Context(), func(tx *db.Tx) error {
		s, err := c.sessions.table.Session(tx, r.PathValue("id"))
		if err != nil {
			return err
		}
		if err := c.people.note(tx, r.Context(), account.Action{Kind: "cancel", SessionID: s.ID, Subject: in.RequestID}); err != nil {
			return err
		}
		target, client, err := c.target(tx, s, in.RequestID, in.CancelQueued)
		if fault.KindOf(err) == fault.NotFound && viewerID(r.Context()) != "" { // whether it exists elsewhere is hidden
			err = fault.New(fault.NotFound, noRequest, in.RequestID)
		}
		if errors.Is(err, errEnded) {
			answer.RequestID, answer.Message = in.RequestID, "This request has already ended."
			return nil
		}
		if err != nil {
			return err
		}
		if target == "" {
			// A prompt that was accepted a moment ago may not have reached the runner.
			// The stop follows it on the same topic and lane.
			answer.RequestID = in.RequestID
			return prompting.Publish(r.Context(), tx, c.inbox, event.UserStop, id, s.ID, sourceUser, event.UserStopPayload{
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
	return answer, err
}

// errEnded means that the request to stop has ended.
var errEnded = errors.New("the request has ended")

// target finds the request to stop: the named one, else the running one, else
// (if queued is set) the first one in the queue. It returns "" if there is none,
// or if the named one has not reached the runner.
func (c *cancels) target(tx *db.Tx, s session.Session, named string, queued bool) (id, client string, err error) {
	switch {
	case named != "":
		story, err := c.requests.table.Story(tx, named)
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
			return "", "", errEnded
		}
		return named, story.Client, nil
	case s.ActiveRequest != "":
		return s.ActiveRequest, s.Client, nil
	case !queued:
		return "", "", nil
	}
	recent, err := c.requests.table.Requests(tx, s.ID, defaultLimit, "")
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
