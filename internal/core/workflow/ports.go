package workflow

import (
	"context"
	"time"

	"lilac/internal/core/outbox"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
)

// Table keeps the workflows. Package store implements it.
type Table interface {
	// Workflow returns a fault.NotFound for an unknown id.
	Workflow(q db.Queryer, id string) (Workflow, error)
	// SaveWorkflow also keeps when the workflow is due and what its tasks wait
	// for.
	SaveWorkflow(tx *db.Tx, w Workflow) error
	// Workflows lists the newest first, older than the one with the id before. An
	// empty session means all; waiting omits those that have ended. A workflow
	// that cannot be read is in the list as Damaged.
	Workflows(q db.Queryer, sessionID string, waiting bool, limit int, before string) ([]Workflow, error)
	// CountWaiting counts the workflows that wait for a session, and for all.
	CountWaiting(q db.Queryer, sessionID string) (inSession, inAll int, err error)
	// DueWorkflows lists the ids of the workflows that are due by a time, the one
	// that is due first in front. NextDue returns when the first is due, in Unix
	// milliseconds, zero for never.
	DueWorkflows(q db.Queryer, now time.Time, limit int) ([]string, error)
	NextDue(q db.Queryer) (int64, error)
}

// Waits finds workflows by what their tasks wait for. Package store implements
// it.
type Waits interface {
	// WhoseReply lists the workflows with a task that waits or waited for a reply
	// to a message.
	WhoseReply(q db.Queryer, platform, channelID, messageID string) ([]string, error)
	// AwaitsSending reports whether a task waits for a reply to a message in the
	// channel whose id is not known yet.
	AwaitsSending(q db.Queryer, platform, channelID string) (bool, error)
	// WaitingForMessage lists the workflows that wait for the next message of a
	// conversation.
	WaitingForMessage(q db.Queryer, sessionID string) ([]string, error)
	// WaitingForEvents lists the workflows that wait for events of a session, or
	// of any session if it is "".
	WaitingForEvents(q db.Queryer, sessionID string) ([]string, error)
}

// Replies keeps replies that may turn out to belong to a workflow. Package store
// implements it.
type Replies interface {
	HoldReply(tx *db.Tx, h HeldReply) error
	// HeldReplies lists the replies of a channel in order.
	HeldReplies(q db.Queryer, platform, channelID string) ([]HeldReply, error)
	DropHeld(tx *db.Tx, h HeldReply) error
}

// HeldReply is a reply to a message that may be ours and about to be known.
type HeldReply struct {
	Platform, ChannelID, MessageID, ReplyTo string
}

// Inbox remembers which commands were handled.
type Inbox interface {
	Seen(tx *db.Tx, source, externalID string, value []byte) (prior []byte, seen bool, err error)
}

// Causes knows what causes what, and which rule pays for it.
type Causes interface {
	// CauseOf is what led to a request.
	CauseOf(q db.Queryer, requestID string) (Cause, error)
	// DepthOf is the place of an event among those that set each other off.
	DepthOf(q db.Queryer, e event.EnvEvent) (int, error)
	// Spend counts for a rule a request that a workflow makes. It is false if
	// the rule must not spend any more, so that the request must not be made.
	Charge(tx *db.Tx, p Payer, depth int, command event.Event) (bool, error)
	// EndChain notes for a rule that a workflow ended a chain that it began.
	EndChain(tx *db.Tx, p Payer, depth int, workflowID string) error
}

// Matcher tells whether an event is what a task waits for, before ctx ends.
type Matcher func(ctx context.Context, types []string, condition string) (bool, error)

// Platform is what a workflow needs of a place where people talk.
type Platform struct {
	Outbox outbox.Outbox
	// Read is how the model reads a message of a person.
	Render func(q db.Queryer, m surface.Message) chat.Message
	// Told remembers that a session's history holds a message, nil remembers
	// nothing. Without it a reply to that message would tell it again.
	MarkDelivered func(tx *db.Tx, sessionID, messageID string) error
	// Rewrite turns names in a text of ours into mentions.
	ResolveMentions func(q db.Queryer, text string) (out string, users []string)
	// Route gives a reply that turned out to be nobody's to the router.
	Route func(tx *db.Tx, m surface.Message) error
}
