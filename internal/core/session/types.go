package session

import (
	"encoding/json"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// Session is one conversation as clients see it. Times are Unix milliseconds.
type Session struct {
	ID        string `json:"id"`
	Client    string `json:"client"`
	Title     string `json:"title,omitempty"`
	CreatedAt int64  `json:"createdAt"`
	UpdatedAt int64  `json:"updatedAt"`
	// State is idle or running.
	State string `json:"state"`
	// ActiveRequest is the request that runs, if one does.
	ActiveRequest string `json:"activeRequest,omitempty"`
	// Paused is the question that the request waits with, if it does.
	Paused *Pause `json:"paused,omitempty"`
}

// HistoryMessage is a message of a session's history: the ModelMessage with
// the fields id, requestId and createdAt beside its own.
type HistoryMessage struct {
	ID        string
	Seq       int64
	RequestID string
	CreatedAt int64
	Message   chat.Message
	// Damaged says that the message cannot be believed: Message says why, in a
	// list for people.
	Damaged bool
}

// Request is one unit of agent work as clients see it.
type Request struct {
	ID        string             `json:"id"`
	SessionID string             `json:"sessionId"`
	Client    string             `json:"client"`
	State     event.RequestState `json:"state"`
	Detail    string             `json:"detail,omitempty"`
	// ErrorKind is what sort of trouble a failed request ended with.
	ErrorKind fault.Kind `json:"errorKind,omitempty"`
	CreatedAt int64      `json:"createdAt"`
	StartedAt int64      `json:"startedAt,omitempty"`
	EndedAt   int64      `json:"endedAt,omitempty"`
	// WokenBy is the id of the event that started it.
	WokenBy    string     `json:"wokenBy,omitempty"`
	Steps      int        `json:"steps"`
	Recoveries int        `json:"recoveries,omitempty"`
	Usage      chat.Usage `json:"usage"`
	Model      string     `json:"model,omitempty"`
}

// Damaged is the state that a list gives a request whose row is damaged. Of such
// a request its id is known and, in Detail, what is wrong.
const Damaged event.RequestState = "damaged"

// Asks reports whether the request waits at a limit for an answer to its detail.
func (r Request) AwaitsAnswer() bool { return r.Detail != "" && r.StartedAt > 0 && !r.State.Ended() }

// Story is a request with everything that happened to it, in order.
type Story struct {
	Request
	// Messages are what came into it, in order; the first woke it.
	Messages []StoryMessage `json:"messages"`
	Entries  []StoryEntry   `json:"entries"`
}

// StoryMessage is a message that a request was given.
type StoryMessage struct {
	MessageID string      `json:"messageId"`
	Queue     event.Queue `json:"queue"`
	State     MailState   `json:"state"`
	// EventID is the command that brought it.
	EventID   string `json:"eventId"`
	CreatedAt int64  `json:"createdAt"`
	Text      string `json:"text"`
}

// File is a file that a request has given to people.
type File struct {
	SessionID string `json:"-"`
	RequestID string `json:"requestId"`
	// ID names it within the request.
	ID        string `json:"fileId"`
	CreatedAt int64  `json:"createdAt"`
	Filename  string `json:"filename"`
	MimeType  string `json:"mimeType"`
	Bytes     int64  `json:"bytes"`
	// Blob refers to the bytes.
	Blob string `json:"-"`
}

// SearchResult is a message that a search found.
type SearchResult struct {
	SessionID    string `json:"sessionId"`
	SessionTitle string `json:"sessionTitle,omitempty"`
	MessageID    string `json:"messageId"`
	RequestID    string `json:"requestId"`
	// Role is user or assistant, or system of one that is damaged.
	Role      string `json:"role"`
	CreatedAt int64  `json:"createdAt"`
	// Excerpt is what stands around the first word that was found, or why a
	// damaged one cannot be read.
	Excerpt string `json:"excerpt"`
	Damaged bool   `json:"damaged,omitempty"`
	// Row is its place among all messages.
	Row int64 `json:"-"`
}

// EntryDamaged is the kind of a record that cannot be believed; its detail says
// why.
const EntryDamaged = "damaged"

// StoryEntry is one record of a request's journal.
type StoryEntry struct {
	Seq  int64 `json:"seq"`
	At   int64 `json:"at"`
	Step int   `json:"step"`
	// Kind is queued, started, input, model, model_failed, tool_start,
	// tool_end, call, recovered, compacted, paused, resumed, end; in a story
	// also [EntryDamaged].
	Kind   string          `json:"kind"`
	Detail string          `json:"detail,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}
