package session

import (
	"encoding/json"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// Session is one conversation as clients see it. Times are Unix milliseconds.
type Session struct {
	ID     string `json:"id"`
	Client string `json:"client"`
	Title  string `json:"title,omitempty"`
	Choice
	Filing
	CreatedAt int64 `json:"createdAt"`
	UpdatedAt int64 `json:"updatedAt"`
	// State is idle or running.
	State string `json:"state"`
	// ActiveRequest is the id of the active request, or "".
	ActiveRequest string `json:"activeRequest,omitempty"`
	// Paused is the open pause of the active request, or nil.
	Paused *Pause `json:"paused,omitempty"`
	// Branch says which conversation the session continues, or is nil.
	Branch *Branch `json:"branch,omitempty"`
}

// Filing says where people find a session in lists.
type Filing struct {
	// Pinned sessions are at the top, and Archived ones are only in a list of their own.
	Pinned   bool `json:"pinned,omitempty"`
	Archived bool `json:"archived,omitempty"`
	// Folder is the name of a folder, or "".
	Folder string `json:"folder,omitempty"`
}

// A ListFilter selects the sessions of a list.
type ListFilter string

// The filters: all sessions that are not archived, those of them that are pinned, and the archived
// ones.
const (
	ListActive   ListFilter = ""
	ListPinned   ListFilter = "pinned"
	ListArchived ListFilter = "archived"
)

// Branch is the point from which a session continues another one.
type Branch struct {
	// Of is the other session, which may have been deleted since, and At the message before
	// which the branch begins.
	Of string `json:"of"`
	At string `json:"at"`
	// FilesOf is the session in whose own workspace the branch works: the first one of the
	// conversation.
	FilesOf string `json:"filesOf"`
}

// TaskQuestion is the open question of a sub-agent's request. The people of the session that
// started the task answer it.
type TaskQuestion struct {
	// TaskID and Description are those of the task, and RequestID the request that waits.
	TaskID      string `json:"taskId"`
	Description string `json:"description"`
	RequestID   string `json:"requestId"`
	Paused      *Pause `json:"paused"`
}

// HistoryMessage is a message of a session's history: a ModelMessage with the
// additional fields id, requestId and createdAt.
type HistoryMessage struct {
	ID        string
	Seq       int64
	RequestID string
	CreatedAt int64
	Message   chat.Message
	// Damaged reports that the stored message is corrupt. In lists, Message then
	// contains the reason.
	Damaged bool
}

// Request is one unit of agent work as clients see it.
type Request struct {
	ID        string             `json:"id"`
	SessionID string             `json:"sessionId"`
	Client    string             `json:"client"`
	State     event.RequestState `json:"state"`
	Detail    string             `json:"detail,omitempty"`
	// ErrorKind is the error kind of a failed request.
	ErrorKind fault.Kind `json:"errorKind,omitempty"`
	CreatedAt int64      `json:"createdAt"`
	StartedAt int64      `json:"startedAt,omitempty"`
	EndedAt   int64      `json:"endedAt,omitempty"`
	// WokenBy is the id of the event that triggered the request.
	WokenBy    string     `json:"wokenBy,omitempty"`
	Steps      int        `json:"steps"`
	Recoveries int        `json:"recoveries,omitempty"`
	Usage      chat.Usage `json:"usage"`
	// CachedShare is the share of the input tokens that was read from the provider's cache,
	// between 0 and 1.
	CachedShare float64 `json:"cachedShare,omitempty"`
	// Model is that of the last model call.
	Model string `json:"model,omitempty"`
	// Notes are the lines below the answer: which model continued for another one, and why.
	Notes string `json:"notes,omitempty"`
}

// Damaged is the state of a request with a corrupt row in lists. Only the ID and
// Detail of such a request are set; Detail contains the reason.
const Damaged event.RequestState = "damaged"

// AwaitsAnswer reports whether the request waits for an answer to its detail.
func (r Request) AwaitsAnswer() bool { return r.Detail != "" && r.StartedAt > 0 && !r.State.Ended() }

// Story is a request with all its records.
type Story struct {
	Request
	// Messages are the messages of the request in order; the first one triggered it.
	Messages []StoryMessage `json:"messages"`
	Entries  []StoryEntry   `json:"entries"`
}

// StoryMessage is a message of a request.
type StoryMessage struct {
	MessageID string      `json:"messageId"`
	Queue     event.Queue `json:"queue"`
	State     MailState   `json:"state"`
	// EventID is the id of the command that contained it.
	EventID   string `json:"eventId"`
	CreatedAt int64  `json:"createdAt"`
	Text      string `json:"text"`
}

// File is a file in the output of a request.
type File struct {
	SessionID string `json:"-"`
	RequestID string `json:"requestId"`
	// ID is unique within the request.
	ID        string `json:"fileId"`
	CreatedAt int64  `json:"createdAt"`
	Filename  string `json:"filename"`
	MimeType  string `json:"mimeType"`
	Bytes     int64  `json:"bytes"`
	// Blob is the reference to the content.
	Blob string `json:"-"`
}

// SearchResult is a message that matches a search.
type SearchResult struct {
	SessionID    string `json:"sessionId"`
	SessionTitle string `json:"sessionTitle,omitempty"`
	MessageID    string `json:"messageId"`
	RequestID    string `json:"requestId"`
	// Role is user or assistant; system for a damaged message.
	Role      string `json:"role"`
	CreatedAt int64  `json:"createdAt"`
	// Excerpt is the text around the first match, or the reason why a damaged
	// message cannot be read.
	Excerpt string `json:"excerpt"`
	Damaged bool   `json:"damaged,omitempty"`
	// Row is the position of the message among all messages.
	Row int64 `json:"-"`
}

// EntryDamaged is the kind of a corrupt record; its Detail contains the reason.
const EntryDamaged = "damaged"

// StoryEntry is one record of a request's journal.
type StoryEntry struct {
	Seq  int64 `json:"seq"`
	At   int64 `json:"at"`
	Step int   `json:"step"`
	// Kind is queued, started, input, model, model_failed, model_switched, tool_start,
	// tool_end, call, memory, recovered, compacted, paused, resumed, approved, end; in a story
	// also [EntryDamaged].
	Kind   string          `json:"kind"`
	Detail string          `json:"detail,omitempty"`
	Data   json.RawMessage `json:"data,omitempty"`
}

// Span is a span of time, both ends included, in Unix milliseconds. A zero end is open.
type Span struct{ From, Until int64 }
