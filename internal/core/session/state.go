package session

import (
	"maps"
	"slices"
	"strings"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/grant"
)

// The states of a request:
//
//	from                 event                                 to
//	(new)                a message, nothing active, a free slot  running
//	(new)                a message, otherwise                    queued
//	(new)                a message, too many are waiting         failed
//	queued               it is first and a slot is free          running
//	queued               cancel; the active run drops it         cancelled
//	queued               its row is damaged                      failed
//	running              the first delta is published            streaming
//	running, streaming   nothing left to do                      done
//	running, streaming   cancel                                  cancelled
//	running, streaming   error; it stopped the program too often failed
//	running, streaming   a limit is reached                      (paused)
//	(paused)             the answer "continue"                   running, streaming
//	(paused)             the answer "stop"; cancel               cancelled
//	(paused)             nobody answers in time                  failed
//
// Paused is not a published state: the request keeps the state running or
// streaming, and [Active.Paused] is set.
//
// The phases of the active run:
//
//	accepting ─── cancel ──► closing ─── the run has stopped ──► (closed)
//	    └───────── nothing left to do, error, "stop" ──────────────► (closed)
//
// An accepting run applies messages. A message for a closing run is too late and
// becomes a prompt. A closed run is no longer active.

// Bounds of the lists in a State. The tables know older entries: message ids are
// unique there, and ended requests have rows.
const (
	maxEnded = 64
	maxSeen  = 128
	// maxEvents bounds the events that a queued request handles together.
	maxEvents = 50
)

// MaxWaiting is how many messages may wait in a session: more than people write
// while they wait for an answer, and few enough for a state that is rewritten
// with each of them. Callers that accept messages refuse more; the runner itself
// keeps up to twice as many, so that a race between callers loses nothing.
const MaxWaiting = 500

// Phase reports whether the active run applies messages.
type Phase string

// The phases of an active run.
const (
	Accepting Phase = "accepting"
	// Closing is the phase of a run that was cancelled and has not stopped yet.
	Closing Phase = "closing"
)

// State is the decider's state of one session. It is stored as JSON.
type State struct {
	// Epoch counts the runs (owners) of the session. A run's write carries the
	// epoch in which it started; a write with a stale epoch is refused.
	Epoch  int64           `json:"epoch,omitempty"`
	Active *Active         `json:"active,omitempty"`
	Queue  []QueuedRequest `json:"queue,omitempty"`
	// Ended are the ids of the last requests that ended, Seen those of the last
	// messages; oldest first, bounded.
	Ended []string `json:"ended,omitempty"`
	Seen  []string `json:"seen,omitempty"`
	// Stopped reports that somebody stopped a request since the last one that is done: the
	// next run tells the model.
	Stopped bool `json:"stopped,omitempty"`
	// Raised is by how much people have raised limits of the active request, of
	// the session, and of the day RaisedDay.
	Raised    map[Limit]int64 `json:"raised,omitempty"`
	RaisedDay string          `json:"raisedDay,omitempty"`
	// Standing are the approvals that hold for all requests of the session.
	Standing []Standing `json:"standing,omitempty"`
}

// Active is the active request.
type Active struct {
	RequestID string           `json:"requestId"`
	Client    string           `json:"client"`
	Phase     Phase            `json:"phase"`
	Reason    string           `json:"reason,omitempty"`
	Pending   []PendingMessage `json:"pending,omitempty"`
	// Drained reports that the process shut down cleanly during the run, so
	// resuming it does not count as a recovery from a crash.
	Drained bool `json:"drained,omitempty"`
	// Paused is set while the request waits for an answer; it has no run then.
	Paused *Pause `json:"paused,omitempty"`
	// Asker is the platform's id of the user who may answer a pause; if empty,
	// everybody in the session may.
	Asker string `json:"asker,omitempty"`
	// Pauses counts the pauses of the request.
	Pauses int `json:"pauses,omitempty"`
	// Approvals are the calls of running commands that need an approval.
	Approvals []CallApproval `json:"approvals,omitempty"`
	// Forms are the questions of programs to people during calls, with the answers.
	Forms []CallForm `json:"forms,omitempty"`
	// Rules are the rules whose events the request handles.
	Rules []string `json:"rules,omitempty"`
	// Recovery is set after an unclean stop of the process; see recovery.go.
	Recovery Recovery `json:"recovery,omitzero"`
}

// PendingMessage is a message that was accepted and not applied yet.
type PendingMessage struct {
	MessageID     string      `json:"messageId"`
	Queue         event.Queue `json:"queue"`
	Client        string      `json:"client"`
	ElseRequestID string      `json:"elseRequestId,omitempty"`
	// Author is the platform's user id of the author, if known.
	Author string `json:"author,omitempty"`
	// Grant restricts the request that the message is applied to.
	Grant grant.Grant `json:"grant,omitempty"`
	// Agent is the configured agent that the message asks for, or "".
	Agent string `json:"agent,omitempty"`
	// Rule is the rule that delivers an event with the message, or "".
	Rule string `json:"rule,omitempty"`
}

// QueuedRequest is a request that has not started, with its first messages.
type QueuedRequest struct {
	RequestID string           `json:"requestId"`
	Client    string           `json:"client"`
	Messages  []PendingMessage `json:"messages"`
	// Rule is the rule whose events are its only messages, or "".
	Rule string `json:"rule,omitempty"`
}

// WaitingMessages counts the messages that were accepted and not applied yet.
func (s State) WaitingMessages() (n int) {
	for _, w := range s.Queue {
		n += len(w.Messages)
	}
	if s.Active != nil {
		n += len(s.Active.Pending)
	}
	return n
}

// Idle reports whether no request is active or queued.
func (s State) Idle() bool { return s.Active == nil && len(s.Queue) == 0 }

func (s State) clone() State {
	s.Queue = slices.Clone(s.Queue)
	for i := range s.Queue {
		s.Queue[i].Messages = slices.Clone(s.Queue[i].Messages)
	}
	s.Ended, s.Seen = slices.Clone(s.Ended), slices.Clone(s.Seen)
	s.Raised, s.Standing = maps.Clone(s.Raised), slices.Clone(s.Standing)
	if s.Active != nil {
		a := *s.Active
		a.Pending, a.Rules = slices.Clone(a.Pending), slices.Clone(a.Rules)
		a.Approvals, a.Forms = slices.Clone(a.Approvals), slices.Clone(a.Forms)
		if a.Paused != nil {
			p := *a.Paused
			a.Paused = &p
		}
		s.Active = &a
	}
	return s
}

func (s State) isActive(requestID string) bool {
	return s.Active != nil && s.Active.RequestID == requestID
}

// AskerOf returns the person whose message a request answers, "" if the request is not
// the active one or nobody asked.
func (s State) AskerOf(requestID string) string {
	if !s.isActive(requestID) {
		return ""
	}
	return s.Active.Asker
}

// isWorking reports whether the request is active and has a run.
func (s State) isWorking(requestID string) bool {
	return s.isActive(requestID) && s.Active.Paused == nil && s.Active.Recovery.Turn != Waiting
}

// OpenPause returns the pause of the active request, or nil.
func (s State) OpenPause() *Pause {
	if s.Active == nil {
		return nil
	}
	return s.Active.Paused
}

// IsAnswer reports whether messages of the operator answer the open pause. Such messages
// belong to the paused request, whichever request they name.
func (s State) IsAnswer(messages []chat.Message) bool {
	p := s.OpenPause()
	if p == nil {
		return false
	}
	answer, _ := p.Read(messages)
	return answer != NoAnswer && (p.Kind == ForApproval || s.acceptsAnswerOf(AuthorOf(messages)))
}

// acceptsAnswerOf reports whether the author may answer the open pause.
func (s State) acceptsAnswerOf(author string) bool {
	return s.Active.Asker == "" || s.Active.Asker == author
}

// raisedOn returns the raised limits that are in force on a day.
func (s State) raisedOn(day string) map[Limit]int64 {
	if s.RaisedDay == day {
		return s.Raised
	}
	return withoutPrefix(s.Raised, dayPrefix)
}

// withoutPrefix returns the limits whose names do not start with prefix.
func withoutPrefix(raised map[Limit]int64, prefix string) map[Limit]int64 {
	out := maps.Clone(raised)
	maps.DeleteFunc(out, func(l Limit, _ int64) bool { return strings.HasPrefix(string(l), prefix) })
	return out
}

// promptWaits reports whether a queued request has a message that is no event.
func (s State) promptWaits() bool {
	return slices.ContainsFunc(s.Queue, func(w QueuedRequest) bool { return w.Rule == "" })
}

// eventsIndex returns the index of the queued request that an event of a rule joins, or -1.
func (s State) eventsIndex(rule string) int {
	return slices.IndexFunc(s.Queue, func(w QueuedRequest) bool {
		return rule != "" && w.Rule == rule && len(w.Messages) < maxEvents
	})
}

func (s State) queueIndex(requestID string) int {
	return slices.IndexFunc(s.Queue, func(w QueuedRequest) bool { return w.RequestID == requestID })
}

func appendBounded(list []string, id string, limit int) []string {
	list = append(list, id)
	if len(list) > limit {
		list = slices.Delete(list, 0, len(list)-limit)
	}
	return list
}
