package httpapi

import (
	"net/http"

	"lilac/internal/core/session"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
)

// listedRequest is a request with what tells it from the others of its session.
type listedRequest struct {
	session.Request
	Asked string `json:"asked,omitempty"`
}

func (a *api) listRequests(w http.ResponseWriter, r *http.Request) error {
	if err := a.needSessions(); err != nil {
		return err
	}
	if err := onlyQuery(r, "session_id", "limit", "before"); err != nil {
		return err
	}
	limit, err := limitOf(r)
	if err != nil {
		return err
	}
	out := struct {
		Requests []listedRequest `json:"requests"`
		Next     string          `json:"next,omitempty"`
	}{Requests: []listedRequest{}}
	err = a.DB.Read(r.Context(), func(q db.Queryer) error {
		found, err := a.Store.Requests(q, r.URL.Query().Get("session_id"), limit+1, r.URL.Query().Get("before"))
		if err != nil {
			return err
		}
		found, out.Next = pageOf(found, limit, func(r session.Request) string { return session.PageToken(r.CreatedAt, r.ID) })
		for _, one := range found {
			asked, err := a.Store.Asked(q, one)
			if err != nil {
				return err
			}
			out.Requests = append(out.Requests, listedRequest{one, asked})
		}
		return nil
	})
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, out)
}

func (a *api) getRequest(w http.ResponseWriter, r *http.Request) error {
	if err := a.needSessions(); err != nil {
		return err
	}
	var story session.Story
	err := a.DB.Read(r.Context(), func(q db.Queryer) (err error) {
		story, err = a.Store.Story(q, r.PathValue("id"))
		return err
	})
	if err != nil {
		return err
	}
	if story.Entries == nil {
		story.Entries = []session.StoryEntry{}
	}
	if story.Messages == nil {
		story.Messages = []session.StoryMessage{}
	}
	return writeJSON(w, http.StatusOK, story)
}

func (a *api) listDeadLetters(w http.ResponseWriter, r *http.Request) error {
	if err := onlyQuery(r, "limit", "before"); err != nil {
		return err
	}
	limit, err := limitOf(r)
	if err != nil {
		return err
	}
	letters, err := a.Bus.DeadLetters(r.Context(), r.URL.Query().Get("before"), limit)
	if err != nil {
		return err
	}
	if letters == nil {
		letters = []bus.DeadLetter{}
	}
	return writeJSON(w, http.StatusOK, struct {
		DeadLetters []bus.DeadLetter `json:"deadLetters"`
	}{letters})
}

func (a *api) getDeadLetter(w http.ResponseWriter, r *http.Request) error {
	letter, err := a.Bus.DeadLetter(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, letter)
}

func (a *api) replayDeadLetter(w http.ResponseWriter, r *http.Request) error {
	if err := a.Bus.Replay(r.Context(), r.PathValue("id")); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, struct {
		Success bool   `json:"success"`
		ID      string `json:"id"`
		Message string `json:"message"`
	}{true, r.PathValue("id"), "Handed to its group again."})
}

func (a *api) dropDeadLetter(w http.ResponseWriter, r *http.Request) error {
	if err := a.Bus.Drop(r.Context(), r.PathValue("id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
