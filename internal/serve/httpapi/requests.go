package httpapi

import (
	"context"
	"net/http"

	"lilac/internal/core/account"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// RequestTable stores requests and their journals.
type RequestTable interface {
	// Requests lists the newest first, before the request id or page token before;
	// an empty session means all. A request with a damaged row is session.Damaged.
	Requests(q db.Queryer, sessionID string, limit int, before string) ([]session.Request, error)
	// Asked returns the beginning of the message that started a request, or "" if no
	// person did.
	Asked(q db.Queryer, r session.Request) (string, error)
	Request(q db.Queryer, id string) (session.Request, error)
	Story(q db.Queryer, requestID string) (session.Story, error)
	// Consumed lists what the newest requests since a time (Unix milliseconds) have used.
	Consumed(q db.Queryer, since int64, limit int) ([]session.Consumed, error)
	// Running lists the running requests; an empty session means all.
	Running(q db.Queryer, sessionID string) ([]session.Request, error)
}

// requests serves requests and takes answers to the questions that they pause at.
type requests struct {
	people   people
	seen     SeenTable // nil on a server without accounts
	db       *db.DB
	table    RequestTable
	accepted AcceptedTable
	sessions *sessions
}

// listedRequest is a request with the message that distinguishes it in a list.
type listedRequest struct {
	session.Request
	Asked string `json:"asked,omitempty"`
}

type requestList struct {
	Requests []listedRequest `json:"requests"`
	Next     string          `json:"next,omitempty"`
}

func (s *requests) list(r *http.Request) (out requestList, err error) {
	limit, err := limitOf(r)
	if err != nil {
		return out, err
	}
	out.Requests = []listedRequest{}
	err = s.db.Read(r.Context(), func(q db.Queryer) error {
		found, err := s.page(q, viewerID(r.Context()), r.URL.Query().Get("session_id"), limit+1, r.URL.Query().Get("before"))
		if err != nil {
			return err
		}
		found, out.Next = pageOf(found, limit, func(r session.Request) string { return session.PageToken(r.CreatedAt, r.ID) })
		for _, one := range found {
			asked, err := s.table.Asked(q, one)
			if err != nil {
				return err
			}
			out.Requests = append(out.Requests, listedRequest{one, asked})
		}
		return nil
	})
	return out, err
}

// page lists the requests that a person may see; "" may see all of them.
func (s *requests) page(q db.Queryer, person, sessionID string, limit int, before string) ([]session.Request, error) {
	if person != "" {
		return s.seen.Requests(q, person, sessionID, limit, before)
	}
	return s.table.Requests(q, sessionID, limit, before)
}

// noRequest is the message for a request that does not exist, or that the caller may not see.
const noRequest = "There is no request %q."

// subject returns the conversation of the request in the path.
func (s *requests) subject() subject {
	return subject{missing: noRequest, in: "id", of: func(r *http.Request) (string, error) { return s.sessionOf(r.Context(), r.PathValue("id")) }}
}

// sessionOf returns the session of a request, also of one that has not reached the runner.
func (s *requests) sessionOf(ctx context.Context, requestID string) (sessionID string, err error) {
	if err := s.sessions.available(); err != nil {
		return "", err
	}
	err = s.db.Read(ctx, func(q db.Queryer) error {
		found, err := s.table.Request(q, requestID)
		sessionID = found.SessionID
		if fault.KindOf(err) != fault.NotFound {
			return err
		}
		early, known, errEarly := s.early(q, requestID)
		if errEarly != nil || known {
			sessionID, err = early.SessionID, errEarly
		}
		return err
	})
	if fault.KindOf(err) == fault.NotFound {
		err = fault.New(fault.NotFound, noRequest, requestID)
	}
	return sessionID, err
}

func (s *requests) get(r *http.Request) (story session.Story, err error) {
	err = s.db.Read(r.Context(), func(q db.Queryer) (err error) {
		story, err = s.table.Story(q, r.PathValue("id"))
		if fault.KindOf(err) == fault.NotFound {
			if early, known, errEarly := s.early(q, r.PathValue("id")); errEarly != nil || known {
				story, err = early, errEarly
			}
		}
		return err
	})
	if story.Entries == nil {
		story.Entries = []session.StoryEntry{}
	}
	if story.Messages == nil {
		story.Messages = []session.StoryMessage{}
	}
	return story, err
}

// early returns the request of a prompt that was accepted and has not reached the runner. It
// is queued, for a few milliseconds or as long as the bus is unavailable.
func (s *requests) early(q db.Queryer, requestID string) (story session.Story, known bool, err error) {
	id, err := event.ParseRequestID(requestID)
	if err != nil || s.accepted == nil {
		return story, false, nil
	}
	at, known, err := s.accepted.AcceptedAt(q, id.Session, id.Specific)
	if err != nil || !known {
		return story, false, err
	}
	story.Request = session.Request{ID: requestID, SessionID: id.Session, Client: id.Surface, State: event.StateQueued, CreatedAt: at}
	return story, true, nil
}

type pauseAnswer struct {
	Success   bool           `json:"success"`
	RequestID string         `json:"requestId"`
	Pause     int            `json:"pause"`
	Answer    session.Answer `json:"answer"`
}

// answerBody is the answer to the question of a request.
type answerBody struct {
	// Pause is the number of the question; 0 means the one that is open.
	Pause  int            `json:"pause,omitempty"`
	Answer session.Answer `json:"answer,omitempty"`
	Reply  string         `json:"reply,omitempty"`
}

// answer returns the function that answers the question of a paused request with a word. It
// does the same as the word in the conversation, but cannot be taken for anything else. If
// one question gets several answers, the first counts.
func (s *requests) answer(word session.Answer) func(*http.Request, struct{}) (pauseAnswer, error) {
	return func(r *http.Request, _ struct{}) (pauseAnswer, error) {
		return s.reply(r, answerBody{Answer: word})
	}
}

// reply answers the question of a paused request.
func (s *requests) reply(r *http.Request, in answerBody) (pauseAnswer, error) {
	if in.Answer == "" && in.Reply != "" {
		in.Answer = session.Replied
	}
	out := pauseAnswer{Success: true, RequestID: r.PathValue("id"), Answer: in.Answer}
	by := callerOf(r.Context())
	err := s.db.Update(r.Context(), func(tx *db.Tx) error {
		story, err := s.table.Story(tx, out.RequestID)
		if err != nil {
			return err
		}
		row, err := s.sessions.table.Session(tx, story.SessionID)
		if err != nil {
			return err
		}
		open := session.OpenQuestion{RequestID: story.ID, SessionID: row.ID, Client: story.Client}
		if row.ActiveRequest == story.ID {
			open.Pause = row.Paused
		}
		p, err := session.AnswerPause(tx, open, session.PauseAnswer{Pause: in.Pause, Answer: in.Answer, Reply: in.Reply, By: by.Person(), Name: answererName(by)})
		out.Pause = p.Number
		if err != nil {
			return err
		}
		return s.people.note(tx, r.Context(), account.Action{Kind: "answer", SessionID: row.ID, Subject: story.ID, Detail: string(in.Answer)})
	})
	return out, err
}

// answererName is the name that people see beside an answer; the operator's is "".
func answererName(c account.Caller) string {
	if !c.HasAccount() {
		return ""
	}
	return c.Name
}
