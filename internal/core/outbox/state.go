package outbox

import "lilac/internal/core/surface"

// State is the state of a row.
//
//	             due                  the platform accepted it
//	planned ──────────────> sending ─────────────────────────> sent
//	 ^ │  │                  │ │  │
//	 │ │  │   not accepted   │ │  │  refused
//	 │ │  │ <────────────────┘ │  └──────────────────────────> failed
//	 │ │  │                    │                                ^  ^
//	 │ │  └── withdrawn, or    │ crash, or outcome not known    │  │
//	 │ │      too many attempts│                                │  │
//	 │ │        ───────────────┼────────────────────────────────┘  │
//	 │ │ too old               v                  cannot search    │
//	 │ └──────> expired <── unknown ────────────────────────────────┘
//	 │           too old       │ └──── found ──> sent
//	 └─────────────────────────┘ not found
type State string

// The states of a row. Rows in the states Planned, Sending, and Unknown are
// unfinished.
const (
	Planned State = "planned"
	Sending State = "sending"
	Sent    State = "sent"
	Unknown State = "unknown"
	Failed  State = "failed"
	Expired State = "expired"
)

// Final reports whether the row is finished.
func (s State) Final() bool { return s == Sent || s == Failed || s == Expired }

// Row is an outgoing message.
type Row struct {
	// Key names the logical message ("relay:<request>:<n>"), never an attempt.
	// Planning a key again changes nothing.
	Key      string
	Platform string
	Send     surface.Send
	State    State
	// MessageID is the platform's id of a sent row.
	MessageID string
	// RequestID and SessionID are the request and session that it is sent for.
	RequestID, SessionID string
	// Attempts counts calls and is incremented before each call. Excused counts
	// those that failed because the platform was unavailable.
	Attempts, Excused int
	// CreatedAt, ExpiresAt, SendingAt (the last call), and NotBefore (the next call
	// or search) are Unix milliseconds. Nothing is sent after ExpiresAt.
	CreatedAt, ExpiresAt, SendingAt, NotBefore int64
	// Reason explains to a person why a row failed.
	Reason string
	// Withdrawn reports that the row must not be sent again.
	Withdrawn bool
	// Unsure reports that an expired row may have been sent.
	Unsure bool
}

// Input is something that happened to a row.
type Input interface{ isInput() }

// Due reports that a worker has picked the row. The worker sends Due again when
// a decision has no effect and the row is unfinished.
type Due struct {
	// Unwanted reports that the owner of a planned row no longer wants it sent.
	Unwanted bool
}

// Called is the outcome of a call: the message, or the error.
type Called struct {
	Message surface.Message
	Err     error
}

// Found is the outcome of a search for the row's nonce.
type Found struct {
	Message surface.Message
	Found   bool
	Err     error
}

// Withdrawn reports that the owner withdraws the row.
type Withdrawn struct{}

func (Due) isInput()       {}
func (Called) isInput()    {}
func (Found) isInput()     {}
func (Withdrawn) isInput() {}

// Effect is an effect of a decision. The types below are the closed set.
type Effect interface{ isEffect() }

// Call sends the row to the platform, after the transaction has committed.
type Call struct{}

// Search asks the platform whether an earlier call created the message.
type Search struct{}

// Wait lets the worker stop until a time (Unix milliseconds).
type Wait struct{ Until int64 }

// Finish calls the owner's hook: the row has become final. Message is the
// platform's message of a sent row.
type Finish struct{ Message surface.Message }

func (Call) isEffect()   {}
func (Search) isEffect() {}
func (Wait) isEffect()   {}
func (Finish) isEffect() {}
