package session

import (
	"maps"
	"slices"
	"strings"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
)

// Bounds of what a State remembers. The store knows the rest: message ids are
// unique there, and ended requests are rows.
const (
	maxEnded = 64
	maxSeen  = 128
)

// MaxWaiting is how many messages of a session are accepted and not taken yet:
// more than people write while they wait, and little enough for a state that is
// written anew with each of them. Who accepts messages refuses more; those
// that come past it, up to as many again, are kept all the same.
const MaxWaiting = 500

// Phase says whether the active run takes messages.
type Phase string

// The phases of an active run. A closed run is no longer active.
const (
	Accepting Phase = "accepting"
	// Closing is a run that was cancelled and has not stopped yet: what
	// arrives now is too late for it.
	Closing Phase = "closing"
)

// State is what the decider knows of a session. It is stored as JSON.
type State struct {
	// Epoch counts the owners that took the session. A write of an owner
	// carries the epoch it was started with; an older one is refused.
	Epoch  int64     `json:"epoch,omitempty"`
	Active *Active   `json:"active,omitempty"`
	Queue  []Waiting `json:"queue,omitempty"`
	// Ended are the requests that ended last, Seen the messages that came
	// last; oldest first, bounded.
	Ended []string `json:"ended,omitempty"`
	Seen  []string `json:"seen,omitempty"`
	// Raised says by how much a person has raised limits of the active request,
	// of the session, and of RaisedDay.
	Raised    map[Limit]int64 `json:"raised,omitempty"`
	RaisedDay string          `json:"raisedDay,omitempty"`
}

// Active is the request that runs.
type Active struct {
	RequestID string    `json:"requestId"`
	Client    string    `json:"client"`
	Phase     Phase     `json:"phase"`
	Reason    string    `json:"reason,omitempty"`
	Pending   []Pending `json:"pending,omitempty"`
	// Drained says that the process stopped in good order while this ran, so
	// that taking it up again is not charged as a recovery from a crash.
	Drained bool `json:"drained,omitempty"`
	// Paused is set while the request waits at a limit: nothing of it runs.
	Paused *Pause `json:"paused,omitempty"`
	// Asker is who may answer then, by the platform's user id; empty means
	// everybody in the session.
	Asker string `json:"asker,omitempty"`
	// Pauses counts them.
	Pauses int `json:"pauses,omitempty"`
}

// Pending is a message that was accepted and not applied yet.
type Pending struct {
	MessageID     string      `json:"messageId"`
	Queue         event.Queue `json:"queue"`
	Client        string      `json:"client"`
	ElseRequestID string      `json:"elseRequestId,omitempty"`
	// Author is the platform's user id of who wrote it, where that is known.
	Author string `json:"author,omitempty"`
}

// Waiting is a request that has not started, with the messages it starts with.
type Waiting struct {
	RequestID string    `json:"requestId"`
	Client    string    `json:"client"`
	Messages  []Pending `json:"messages"`
}

// Waiting counts the messages that were accepted and not applied yet.
func (s State) Waiting() (n int) {
	for _, w := range s.Queue {
		n += len(w.Messages)
	}
	if s.Active != nil {
		n += len(s.Active.Pending)
	}
	return n
}

// Idle reports whether nothing runs and nothing waits.
func (s State) Idle() bool { return s.Active == nil && len(s.Queue) == 0 }

func (s State) clone() State {
	s.Queue = slices.Clone(s.Queue)
	for i := range s.Queue {
		s.Queue[i].Messages = slices.Clone(s.Queue[i].Messages)
	}
	s.Ended, s.Seen = slices.Clone(s.Ended), slices.Clone(s.Seen)
	s.Raised = maps.Clone(s.Raised)
	if s.Active != nil {
		a := *s.Active
		a.Pending = slices.Clone(a.Pending)
		if a.Paused != nil {
			p := *a.Paused
			a.Paused = &p
		}
		s.Active = &a
	}
	return s
}

func (s State) runs(requestID string) bool {
	return s.Active != nil && s.Active.RequestID == requestID
}

// works reports that the request runs and does not wait at a limit.
func (s State) works(requestID string) bool { return s.runs(requestID) && s.Active.Paused == nil }

// Waits returns the pause in which a request waits for an answer, or nil.
func (s State) Waits() *Pause {
	if s.Active == nil {
		return nil
	}
	return s.Active.Paused
}

// Answers reports whether messages are the answer to the request that waits at
// a limit: then they are that request's, and nobody else's.
func (s State) Answers(messages []chat.Message) bool {
	return s.Waits() != nil && AnswerOf(messages) != NoAnswer && s.asks(AuthorOf(messages))
}

// asks reports whether the author is one whose answer counts.
func (s State) asks(author string) bool { return s.Active.Asker == "" || s.Active.Asker == author }

// raisedOn returns what counts on a day.
func (s State) raisedOn(day string) map[Limit]int64 {
	if s.RaisedDay == day {
		return s.Raised
	}
	return without(s.Raised, dayPrefix)
}

// without returns the limits whose name does not begin with prefix.
func without(raised map[Limit]int64, prefix string) map[Limit]int64 {
	out := maps.Clone(raised)
	maps.DeleteFunc(out, func(l Limit, _ int64) bool { return strings.HasPrefix(string(l), prefix) })
	return out
}

func (s State) waiting(requestID string) int {
	return slices.IndexFunc(s.Queue, func(w Waiting) bool { return w.RequestID == requestID })
}

func remember(list []string, id string, limit int) []string {
	list = append(list, id)
	if len(list) > limit {
		list = slices.Delete(list, 0, len(list)-limit)
	}
	return list
}
