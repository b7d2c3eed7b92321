package workflow

import (
	"context"
	"time"

	"lilac/internal/core/outbox"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/grant"
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

// HeldReply is a reply to a message that the agent may have sent, and whose id is not
// known yet.
type HeldReply struct {
	Platform, ChannelID, MessageID, ReplyTo string
}

// Inbox remembers which commands and events were handled.
type Inbox interface {
	Seen(tx *db.Tx, source, externalID string, value []byte) (prior []byte, seen bool, err error)
}

// Causes finds the causes of requests and events, and charges the rules that began
// them.
type Causes interface {
	// CauseOf returns what led to a request.
	CauseOf(q db.Queryer, requestID string) (Cause, error)
	// DepthOf returns the position of an event in its chain of causes.
	DepthOf(q db.Queryer, e event.EnvEvent) (int, error)
	// GrantOf returns what a request that an event causes may use.
	GrantOf(q db.Queryer, e event.EnvEvent) (grant.Grant, error)
	// Charge counts a request of a workflow for a rule. If it returns false, the
	// budget of the rule is used up, and the request must not be made.
	Charge(tx *db.Tx, p Payer, depth int, command event.Event) (bool, error)
	// EndChain records for a rule that a workflow ended a chain that the rule began.
	EndChain(tx *db.Tx, p Payer, depth int, workflowID string) error
}

// Matcher reports whether a task waits for an event. It returns when ctx ends.
type Matcher func(ctx context.Context, types []string, condition string) (bool, error)

// Platform connects workflows to a messaging platform.
type Platform struct {
	Outbox outbox.Outbox
	// Render returns a message of a person as the model reads it.
	Render func(q db.Queryer, m surface.Message) chat.Message
	// MarkDelivered records that the history of a session contains a message, so that a
	// reply to it does not quote it again. It may be nil.
	MarkDelivered func(tx *db.Tx, sessionID, messageID string) error
	// ResolveMentions replaces the names of people in a text with mentions.
	ResolveMentions func(q db.Queryer, text string) (out string, users []string)
	// Route gives a held reply that belongs to no workflow to the router.
	Route func(tx *db.Tx, m surface.Message) error
}
