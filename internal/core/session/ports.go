package session

import (
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
)

// Tables are the tables of the runner. In each of them an unknown id is a
// fault.NotFound and a damaged row is a fault for which [db.IsDamaged] holds.
type Tables struct {
	Sessions SessionTable
	States   StateTable
	Mailbox  MailboxTable
	History  HistoryTable
	Files    FileTable
	Requests RequestTable
	Journal  JournalTable
	Spending SpendingTable
}

// SessionTable holds the conversations.
type SessionTable interface {
	Session(q db.Queryer, id string) (Session, error)
	CreateSession(tx *db.Tx, s Session) error
	SetTitle(tx *db.Tx, id, title string) error
	SetChoice(tx *db.Tx, id string, c Choice) error
}

// StateTable holds the runner's state of each session.
type StateTable interface {
	// State returns the zero State for a session that has none.
	State(q db.Queryer, sessionID string) (State, error)
	// SaveState also updates the session's row: its state, active request and
	// pause.
	SaveState(tx *db.Tx, sessionID string, s State) error
	// Unfinished lists the sessions with an active or queued request.
	Unfinished(q db.Queryer) ([]string, error)
}

// MailboxTable holds the messages that were sent to sessions.
type MailboxTable interface {
	// ClaimAccepted removes the note that the message was accepted, and reports
	// whether there was one. A message with a note must not create its session
	// again: somebody deleted it meanwhile.
	ClaimAccepted(tx *db.Tx, sessionID, messageID string) (accepted bool, err error)
	// PutMail returns false and changes nothing if the message is there already.
	PutMail(tx *db.Tx, m Mail) (fresh bool, err error)
	Mail(q db.Queryer, sessionID, messageID string) (Mail, error)
	HasMail(q db.Queryer, sessionID, messageID string) (bool, error)
	MarkMail(tx *db.Tx, sessionID, messageID, requestID string, state MailState) error
}

// HistoryTable holds the messages that the model sees, and their summaries.
type HistoryTable interface {
	// AppendHistory appends a message and returns its sequence number. If the
	// session has a message with that ID, it changes nothing and returns the
	// number of that one.
	AppendHistory(tx *db.Tx, sessionID string, m HistoryMessage) (seq int64, err error)
	HasHistory(q db.Queryer, sessionID, id string) (bool, error)
	Conversation(q db.Queryer, sessionID string) (Conversation, error)
	AddCompaction(tx *db.Tx, c Compaction) error
	// BeginConversation begins a new conversation with the message that gets a
	// sequence number. Earlier messages are kept, but no longer part of the
	// conversation.
	BeginConversation(tx *db.Tx, sessionID string, seq int64) error
}

// FileTable lists the files that requests have output.
type FileTable interface {
	// PutFile returns false and changes nothing if the file's ID is there already.
	PutFile(tx *db.Tx, f File) (fresh bool, err error)
	// Files lists the files of some of a session's requests, oldest first.
	Files(q db.Queryer, sessionID string, requestIDs []string) ([]File, error)
}

// RequestTable holds the requests.
type RequestTable interface {
	CreateRequest(tx *db.Tx, r Request) error
	Request(q db.Queryer, id string) (Request, error)
	SaveRequest(tx *db.Tx, r Request) error
}

// JournalTable holds the records of each request.
type JournalTable interface {
	Record(tx *db.Tx, requestID string, e Entry) error
	Journal(q db.Queryer, requestID string) ([]StoryEntry, error)
}

// SpendingTable sums consumption per day ("2006-01-02") and per session.
type SpendingTable interface {
	AddSpent(tx *db.Tx, day, sessionID string, s Spent) error
	SpentOn(q db.Queryer, day string) (Spent, error)
	SpentIn(q db.Queryer, sessionID string) (Spent, error)
}

// MailState is the state of a message in the mailbox.
type MailState string

// The states of a mailbox row.
const (
	MailWaiting MailState = "waiting"
	MailApplied MailState = "applied"
	// MailMoved also waits, but for another request than it was sent to.
	MailMoved     MailState = "moved"
	MailDiscarded MailState = "discarded"
)

// Mail is a message in a session's mailbox.
type Mail struct {
	SessionID, MessageID, RequestID string
	Queue                           event.Queue
	State                           MailState
	// EventID is the id of the command that contained it.
	EventID   string
	CreatedAt int64
	Messages  []chat.Message
}

// Compaction replaces the messages of a session's history before KeptFrom by a
// summary.
type Compaction struct {
	SessionID, RequestID string
	Summary              chat.Message
	KeptFrom             int64
	CreatedAt            int64
}

// Conversation is the input of a request: the newest summary, if there is one, and
// the history after it.
type Conversation struct {
	Summary *chat.Message
	// KeptFrom is the first sequence number that the summary does not cover.
	KeptFrom int64
	Messages []HistoryMessage
}

// Entry is a journal record to write; Data is encoded as JSON.
type Entry struct {
	At   int64
	Step int
	Kind string
	Data any
}
