package relay

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"slices"
	"time"

	"lilac/internal/core/outbox"
	"lilac/internal/core/surface"
	"lilac/internal/foundation/event"
)

// The life of a relay:
//
//	         reply started            output ended, and
//	(none) ───────────────> live ─── every message settled ───> finished
//	  │                      │                                     ^  ^
//	  │ request ended        │ the platform refuses                │  │
//	  │                      v                                     │  │
//	  │                    given up ── messages closed, or 24 h ───┘  │
//	  └───────────────────────────────────────────────────────────────┘
//
// The life of a message:
//
//	           sent                 deleted by somebody, or refused
//	planned ──────────> sent ──────────────────────────────────────> lost
//	 ^ │  │              │                                            ^
//	 │ │  │              │ takes no more edits: a copy replaces it    │
//	 │ │  └──────────────┼── refused (without files: planned again) ──┘
//	 │ v withdrawn or    │
//	 │ unsent  expired   │
//	 └─┴─────────────────┘

// Row is the stored state of a request's relay.
type Row struct {
	RequestID string `json:"requestId"`
	SessionID string `json:"sessionId"`
	Platform  string `json:"platform"`
	// ReplyTo is the message that asked, "" for none.
	ReplyTo string `json:"replyTo,omitempty"`
	// Mention is the user that the answer mentions first, "" for none.
	Mention string `json:"mention,omitempty"`
	// Asker is the user who asked first, "" if nobody did. StartedAt is when the answer
	// began (Unix milliseconds).
	Asker     string `json:"asker,omitempty"`
	StartedAt int64  `json:"startedAt,omitempty"`
	// Started reports that the output is to be shown, Finished that it is.
	Started  bool      `json:"started,omitempty"`
	Finished bool      `json:"finished,omitempty"`
	Cuts     []Cut     `json:"cuts,omitempty"`
	Messages []Message `json:"messages,omitempty"`
	// Questions are the questions to people, in order.
	Questions []Question `json:"questions,omitempty"`
	End       *End       `json:"end,omitempty"`
	// Reason explains why the relay gave up: nothing can be shown any more. Reported says
	// that people were told.
	Reason   string `json:"reason,omitempty"`
	Reported bool   `json:"reported,omitempty"`
}

// Partly reports whether people see a part of the output.
func (r Row) Partly() bool {
	return slices.ContainsFunc(r.Messages, func(m Message) bool { return m.State == MessageSent })
}

// MessageState is the state of a message.
type MessageState string

// The states of a message.
const (
	MessagePlanned MessageState = "planned"
	MessageSent    MessageState = "sent"
	// MessageUnsent was not sent in time and is planned again.
	MessageUnsent MessageState = "unsent"
	// MessageLost could not be sent, or was deleted by somebody.
	MessageLost MessageState = "lost"
)

// Message is a message that shows a part of the output.
type Message struct {
	Key   string       `json:"key"`
	State MessageState `json:"state"`
	// ID is the platform's id of a sent message.
	ID string `json:"id,omitempty"`
	// Refused is the reason why its files were not sent, "" if they were.
	Refused string `json:"refused,omitempty"`
	// Pinged are the users that it notified when it was sent. Edits notify nobody.
	Pinged []string `json:"pinged,omitempty"`
	// Files are the ids of the binaries that belong to it.
	Files []string `json:"files,omitempty"`
	// Copies counts how often it was sent again: because the platform accepted no
	// more edits, or no messages for too long.
	Copies int `json:"copies,omitempty"`
	// Old is the id of the previous copy until that is deleted.
	Old string `json:"old,omitempty"`
	// Shown is the fingerprint of the [View] that it shows, "" while an edit is in
	// flight.
	Shown string `json:"shown,omitempty"`
}

func (r Row) message(key string) (Message, bool) {
	i := slices.IndexFunc(r.Messages, func(m Message) bool { return m.Key == key })
	if i < 0 {
		return Message{}, false
	}
	return r.Messages[i], true
}

// set replaces a message, or adds it.
func (r *Row) set(m Message) {
	r.Messages = slices.Clone(r.Messages)
	if i := slices.IndexFunc(r.Messages, func(o Message) bool { return o.Key == m.Key }); i >= 0 {
		r.Messages[i] = m
		return
	}
	r.Messages = append(r.Messages, m)
}

// outboxKey returns the key of the outbox row that sends a message.
func (r Row) outboxKey(m Message) string {
	return fmt.Sprintf("%s:%s:%s~%d", HookName, r.RequestID, m.Key, m.Copies)
}

// plannedKeys returns the keys of the outbox rows that may be unfinished.
func (r Row) plannedKeys() (keys []string) {
	for _, m := range r.Messages {
		if m.State == MessagePlanned {
			keys = append(keys, r.outboxKey(m))
		}
	}
	return keys
}

// made returns the facts about the messages that rendering depends on.
func (r Row) made() Made {
	made := Made{Messages: map[string]bool{}, Files: map[string]string{}, Refused: map[string]string{}}
	for _, m := range r.Messages {
		made.Messages[m.Key] = true
		for _, id := range m.Files {
			if made.Files[id] = m.Key; m.Refused != "" {
				made.Refused[id] = m.Refused
			}
		}
	}
	return made
}

// State is the stored row together with the pace of its follower.
type State struct {
	Row  Row
	Pace Pace
}

// Pace is the part of the state that a follower keeps in memory. A restart resets
// it, which at worst repeats an edit or restarts a wait.
type Pace struct {
	// Edited is the time of the last edit or new message, Typed of the last typing
	// indicator.
	Edited, Typed time.Time
	// Ended is when the end of the request became known.
	Ended time.Time
	// Recalled reports that the output was completed from the request's journal.
	Recalled bool
	// Stopped reports that a silent request was cancelled.
	Stopped bool
	// Failures counts the failed edits in a row, and RetryAt is when the platform
	// is called again.
	Failures int
	RetryAt  time.Time
	// GaveUp is when the relay gave up.
	GaveUp time.Time
}

// Input is something that happened to a relay.
type Input interface{ isInput() }

// ReplyStarted reports that the runner answers the request.
type ReplyStarted struct{ ReplyTo, Mention, Asker string }

// RequestEnded reports that the request ended.
type RequestEnded struct {
	State  event.RequestState
	Detail string
}

// QuestionAsked reports that the request waits for an answer.
type QuestionAsked struct{ Question Question }

// QuestionAnswered reports that it waits no longer. Outcome is for people.
type QuestionAnswered struct {
	Pause   int
	Outcome string
}

// Moved reports that the output continues below another message.
type Moved struct{ Cut Cut }

// RowFinished reports that the outbox row of a message is final.
type RowFinished struct {
	Key     string
	Row     outbox.Row
	Message surface.Message
}

// Checked reports how much of the output the follower has read.
type Checked struct {
	// TextLength is the length of the text in bytes.
	TextLength int64
	// Complete reports that the output's last event was read. Delayed reports that
	// the rest cannot be read now, Unreadable that it never can.
	Complete, Delayed, Unreadable bool
}

// Recalled is the outcome of reading the output from the request's journal.
type Recalled struct {
	// Complete reports that the output's last event had been read before.
	Complete bool
	Err      error
}

// Rendered has the messages that people should see.
type Rendered struct {
	// Basis is the row from which the views were rendered.
	Basis Row
	Views []View
	// Ended reports that the output has ended.
	Ended bool
	// After is the key of the message that this pass edited last, "" at its start.
	After string
	// MaxText is the longest message in UTF-16 units.
	MaxText int
	// Interval is the shortest time between two edits of an answer.
	Interval time.Duration
	// PingAfter is how long an answer may take before its end notifies the users who
	// asked; 0 means that it never does. Askers are these users, if Ended.
	PingAfter time.Duration
	Askers    []Asker
}

// Asker is a user whose message an answer answers.
type Asker struct {
	UserID string
	// AskedAt is when the first message of the user was accepted (Unix milliseconds).
	AskedAt int64
}

// EditDone is the outcome of an edit.
type EditDone struct {
	Edit  Edit
	Ended bool
	Err   error
}

// DeleteDone is the outcome of a deletion.
type DeleteDone struct {
	Delete Delete
	Ended  bool
	Err    error
}

// Attended reports how long a running request has been silent.
type Attended struct {
	Heard     time.Time
	IdleLimit time.Duration
	// Visible reports that people see a part of the answer, Typing that the
	// platform shows a typing indicator.
	Visible, Typing bool
}

// PauseChecked reports whether a silent request waits for a person's reply.
type PauseChecked struct{ Paused bool }

func (ReplyStarted) isInput()     {}
func (RequestEnded) isInput()     {}
func (QuestionAsked) isInput()    {}
func (QuestionAnswered) isInput() {}
func (Moved) isInput()            {}
func (RowFinished) isInput()      {}
func (Checked) isInput()          {}
func (Recalled) isInput()         {}
func (Rendered) isInput()         {}
func (EditDone) isInput()         {}
func (DeleteDone) isInput()       {}
func (Attended) isInput()         {}
func (PauseChecked) isInput()     {}

// Effect is an effect of a decision. The types below are the closed set.
// [Service] carries out Plan, Resend, Announce, Withdraw, Refuse, and Cancel in the
// transaction; the follower carries out the others after it.
type Effect interface{ isEffect() }

// Plan plans a message in the outbox.
type Plan struct {
	Message Message
	View    View
}

// Resend plans a message again, without its files.
type Resend struct {
	Message Message
	Send    surface.Send
}

// Announce publishes that a message shows the output.
type Announce struct {
	Row     outbox.Row
	Message surface.Message
}

// Withdraw withdraws the planned messages.
type Withdraw struct{}

// Refuse reports that the platform refuses the answer, so that nobody sees it, or only a part
// of it.
type Refuse struct{}

// Cancel cancels the request.
type Cancel struct{ Reason string }

// Recall reads the output from the request's journal. Complete reports that the
// output's last event was read.
type Recall struct{ Complete bool }

// Show renders the output and compares it with the messages.
type Show struct{ Ended bool }

// Edit edits a message.
type Edit struct {
	Message Message
	View    View
}

// Delete deletes a message, or its old copy.
type Delete struct{ Message Message }

// CheckPause finds out whether the request waits for a person.
type CheckPause struct{}

// ShowTyping shows the typing indicator.
type ShowTyping struct{}

// Wait lets the follower rest, until something happens or the time has passed.
type Wait struct{ For time.Duration }

// Report logs an error of the platform. Retry reports that the call is repeated.
type Report struct {
	MessageID string
	Err       error
	Retry     bool
}

func (Plan) isEffect()       {}
func (Resend) isEffect()     {}
func (Announce) isEffect()   {}
func (Withdraw) isEffect()   {}
func (Refuse) isEffect()     {}
func (Cancel) isEffect()     {}
func (Recall) isEffect()     {}
func (Show) isEffect()       {}
func (Edit) isEffect()       {}
func (Delete) isEffect()     {}
func (CheckPause) isEffect() {}
func (ShowTyping) isEffect() {}
func (Wait) isEffect()       {}
func (Report) isEffect()     {}

// fingerprint identifies what an edit of a message can change.
func (v View) fingerprint() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%s\x00%t %t%s", v.Text, v.Stop, v.Bare, v.Question.fingerprint()))
	return base64.RawStdEncoding.EncodeToString(sum[:12])
}
