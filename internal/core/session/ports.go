package session

import (
	"encoding/json"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// MailState says what became of a message in the mailbox.
type MailState string

// The states of a mailbox row.
const (
	MailWaiting MailState = "waiting"
	MailApplied MailState = "applied"
	// MailMoved waits, too, but for another request than it was sent to.
	MailMoved     MailState = "moved"
	MailDiscarded MailState = "discarded"
)

// Mail is a message in a session's mailbox.
type Mail struct {
	SessionID, MessageID, RequestID string
	Queue                           event.Queue
	State                           MailState
	// EventID is the command that brought it.
	EventID   string
	CreatedAt int64
	Messages  []chat.Message
}

// Compaction stands for the messages of a session's history before KeptFrom.
type Compaction struct {
	SessionID, RequestID string
	Summary              chat.Message
	KeptFrom             int64
	CreatedAt            int64
}

// Conversation is what a request starts with: the newest summary, if there is
// one, and the history behind it.
type Conversation struct {
	Summary *chat.Message
	// KeptFrom is the first sequence number that the summary does not stand for.
	KeptFrom int64
	Messages []HistoryMessage
}

// Entry is a journal record as it is written; Data is encoded as JSON.
type Entry struct {
	At   int64
	Step int
	Kind string
	Data any
}

// Store is what the runner needs of the tables. An unknown id is a
// fault.NotFound, a damaged row a fault.
type Store interface {
	Session(q db.Queryer, id string) (Session, error)
	CreateSession(tx *db.Tx, s Session) error
	SetTitle(tx *db.Tx, id, title string) error

	// State returns the zero State for a session that has none.
	State(q db.Queryer, sessionID string) (State, error)
	// SaveState also shows in the session's row what runs.
	SaveState(tx *db.Tx, sessionID string, s State) error
	// Unfinished lists the sessions in which something runs or waits.
	Unfinished(q db.Queryer) ([]string, error)

	// Take notes that the runner has a message, and reports whether the session was
	// promised it: such a one does not make a session that was deleted meanwhile.
	Take(tx *db.Tx, sessionID, messageID string) (promised bool, err error)
	// PutMail returns false, and changes nothing, for a message that was there.
	PutMail(tx *db.Tx, m Mail) (fresh bool, err error)
	Mail(q db.Queryer, sessionID, messageID string) (Mail, error)
	HasMail(q db.Queryer, sessionID, messageID string) (bool, error)
	MarkMail(tx *db.Tx, sessionID, messageID, requestID string, state MailState) error

	// AppendHistory appends a message whose ID the session does not have yet,
	// and returns its sequence number; appending it again returns the first.
	AppendHistory(tx *db.Tx, sessionID string, m HistoryMessage) (seq int64, err error)
	HasHistory(q db.Queryer, sessionID, id string) (bool, error)
	Conversation(q db.Queryer, sessionID string) (Conversation, error)
	AddCompaction(tx *db.Tx, c Compaction) error

	// PutFile notes a file that a request has given. It returns false, and
	// changes nothing, for an ID that was there.
	PutFile(tx *db.Tx, f File) (fresh bool, err error)
	// Files lists the files that requests of a session have given, in their order.
	Files(q db.Queryer, sessionID string, requestIDs []string) ([]File, error)

	CreateRequest(tx *db.Tx, r Request) error
	Request(q db.Queryer, id string) (Request, error)
	SaveRequest(tx *db.Tx, r Request) error

	Record(tx *db.Tx, requestID string, e Entry) error
	Journal(q db.Queryer, requestID string) ([]StoryEntry, error)

	// AddSpent counts for a day, "2006-01-02", and for a session.
	AddSpent(tx *db.Tx, day, sessionID string, s Spent) error
	SpentOn(q db.Queryer, day string) (Spent, error)
	SpentIn(q db.Queryer, sessionID string) (Spent, error)
}

// The journal's kinds of entries.
const (
	kindQueued      = "queued"
	kindStarted     = "started"
	kindInput       = "input"
	kindModel       = "model"
	kindModelFailed = "model_failed"
	kindToolStart   = "tool_start"
	kindToolEnd     = "tool_end"
	kindRecovered   = "recovered"
	kindCompacted   = "compacted"
	kindPaused      = "paused"
	kindResumed     = "resumed"
	kindEnd         = "end"
)

// What the entries hold.
type (
	queuedEntry struct {
		// TraceParent outlives a crash here, so that the trace goes on too.
		TraceParent string `json:"traceParent,omitempty"`
	}
	inputEntry struct {
		MessageID string      `json:"messageId"`
		Queue     event.Queue `json:"queue"`
		Offset    int64       `json:"offset"`
	}
	modelEntry struct {
		Message     chat.Message `json:"message"`
		Usage       chat.Usage   `json:"usage"`
		Stop        string       `json:"stop"`
		Interrupted bool         `json:"interrupted,omitempty"`
		Offset      int64        `json:"offset"`
		ModelMS     int64        `json:"modelMs"`
		Model       string       `json:"model,omitempty"`
	}
	failedEntry struct {
		Error   string `json:"error"`
		DelayMS int64  `json:"delayMs"`
	}
	toolEntry struct {
		ToolCallID string          `json:"toolCallId"`
		Name       string          `json:"name"`
		Args       json.RawMessage `json:"args,omitempty"`
		Display    string          `json:"display,omitempty"`
		Result     *chat.Part      `json:"result,omitempty"`
		OK         *bool           `json:"ok,omitempty"`
	}
	recoveredEntry struct {
		Recovery int   `json:"recovery"`
		Charged  bool  `json:"charged"`
		Offset   int64 `json:"offset"`
	}
	compactedEntry struct {
		KeptFrom int64 `json:"keptFrom"`
	}
	resumedEntry struct {
		Pause  int    `json:"pause"`
		Answer Answer `json:"answer"`
	}
	endEntry struct {
		State  event.RequestState `json:"state"`
		Detail string             `json:"detail,omitempty"`
		// ErrorKind goes with the state failed.
		ErrorKind fault.Kind `json:"errorKind,omitempty"`
		// Cause is for the operator's eyes.
		Cause string `json:"cause,omitempty"`
		// Quiet says that the end needs no words on a platform.
		Quiet bool `json:"quiet,omitempty"`
		// Notice is what was said without a model: no other entry has it.
		Notice string `json:"notice,omitempty"`
	}
)
