package discord

import (
	"encoding/json"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
)

// Tables are the parts of the store that the adapter uses. All of them must be
// set; [TablesOf] sets them to one value.
type Tables struct {
	Messages     MessageTable
	Channels     ChannelTable
	Inbox        Inbox
	Gateway      GatewayTable
	Gaps         GapTable
	Sends        SendTable
	Interactions InteractionTable
}

// TablesOf returns Tables whose parts are all t.
func TablesOf[T interface {
	MessageTable
	ChannelTable
	Inbox
	GatewayTable
	GapTable
	SendTable
	InteractionTable
}](t T) Tables {
	return Tables{Messages: t, Channels: t, Inbox: t, Gateway: t, Gaps: t, Sends: t, Interactions: t}
}

// MessageTable caches messages and their authors; the methods are those of
// [surface.MessageCache] and [surface.Directory].
type MessageTable interface {
	PutMessage(tx *db.Tx, m surface.Message) error
	ReadUpTo(tx *db.Tx, m surface.Message) error
	MarkDeleted(tx *db.Tx, platform, channelID, messageID string, at int64) error
	Message(q db.Queryer, platform, channelID, messageID string) (surface.Message, error)
	IsOurs(q db.Queryer, platform, channelID, messageID string) (bool, error)
	Messages(q db.Queryer, platform, channelID, before string, limit int) ([]surface.Message, error)
	PutUser(tx *db.Tx, platform string, u surface.User) error
}

// ChannelTable caches channels; the first three methods are those of
// [surface.Directory].
type ChannelTable interface {
	PutSession(tx *db.Tx, s surface.Session) error
	Session(q db.Queryer, platform, channelID string) (surface.Session, error)
	Sessions(q db.Queryer, platform string) ([]surface.Session, error)
	// ForgetSession removes a deleted channel and its threads from the lookup by
	// title, so that another channel can have the name.
	ForgetSession(tx *db.Tx, platform, channelID string) error
	// ForgetMissing does the same for every channel of a server that is not
	// listed in channelIDs.
	ForgetMissing(tx *db.Tx, platform, guildID string, channelIDs []string) error
	// Uncached returns the given servers of which no channel is cached, and the
	// given channels that are not cached.
	Uncached(q db.Queryer, guildIDs, channelIDs []string) (guilds, channels []string, err error)
}

// Inbox makes deliveries idempotent.
type Inbox interface {
	// Seen inserts a pair of source and external id; seen reports whether it was
	// there already.
	Seen(tx *db.Tx, source, externalID string, value []byte) (prior []byte, seen bool, err error)
}

// GatewayTable stores the gateway session.
type GatewayTable interface {
	// Gateway returns the zero value before the first connection.
	Gateway(q db.Queryer) (GatewayState, error)
	SaveGateway(tx *db.Tx, g GatewayState) error
}

// GapTable stores which parts of channel histories were missed.
type GapTable interface {
	// OpenGap records a gap. Two gaps of one channel are merged: the earlier
	// beginning and the later end count.
	OpenGap(tx *db.Tx, g Gap) error
	// Gaps returns at most limit gaps.
	Gaps(q db.Queryer, limit int) ([]Gap, error)
	// CloseGap removes the part that was read, unless the gap was opened again
	// since it was listed.
	CloseGap(tx *db.Tx, read Gap) error
	// AwaitedMessages returns the messages of a channel to which a workflow
	// awaits a reply.
	AwaitedMessages(q db.Queryer, channelID string) (messageIDs []string, err error)
}

// SendTable finds messages of the bot by their nonces and in the outbox.
type SendTable interface {
	// PutNonce records which message a nonce created, and removes records from
	// before forget. Times are Unix milliseconds.
	PutNonce(tx *db.Tx, channelID, nonce, messageID string, at, forget int64) error
	// NonceMessage returns the message's id, or a fault.NotFound.
	NonceMessage(q db.Queryer, channelID, nonce string) (messageID string, err error)
	// PlannedSend returns the unfinished send with a nonce, or a fault.NotFound.
	PlannedSend(q db.Queryer, channelID, nonce string) (surface.Send, error)
	// AnsweredRequest returns the request whose answer the nonce's message
	// shows, "" if the message is not an answer.
	AnsweredRequest(q db.Queryer, channelID, nonce string) (requestID string, err error)
	// IsPlanned reports whether the outbox created the message, or is about to
	// create it with the nonce.
	IsPlanned(q db.Queryer, channelID, messageID, nonce string) (bool, error)
}

// InteractionTable stores interactions until they are answered.
type InteractionTable interface {
	PutInteraction(tx *db.Tx, i PendingInteraction) error
	// Interactions returns at most limit rows, oldest first. Readable rows are
	// returned together with an error about damaged ones.
	Interactions(q db.Queryer, limit int) ([]PendingInteraction, error)
	DeleteInteraction(tx *db.Tx, id string) error
}

// GatewayState survives restarts.
type GatewayState struct {
	// Account is a hash of the token. State of another account is discarded.
	Account string `json:"account"`
	// ShardState is that of the first connection, MoreShards of the others.
	ShardState
	MoreShards []ShardState `json:"moreShards,omitempty"`
	Self       surface.User `json:"self"`
	// ApplicationID identifies the bot's application.
	ApplicationID string `json:"applicationId,omitempty"`
	// Commands is a hash of the commands that are registered with Discord.
	Commands string `json:"commands,omitempty"`
	// Budget limits new gateway sessions.
	Budget IdentifyBudget `json:"budget"`
}

// ShardState has the position of one connection, which survives restarts.
type ShardState struct {
	// SessionID, ResumeURL and Sequence resume the gateway session after the
	// last stored event.
	SessionID string `json:"sessionId,omitempty"`
	ResumeURL string `json:"resumeUrl,omitempty"`
	Sequence  int64  `json:"sequence,omitempty"`
	// HeardAt is the time of the last stored event (Unix milliseconds).
	HeardAt int64 `json:"heardAt,omitempty"`
}

// shards returns the states of all connections.
func (g GatewayState) shards() []ShardState {
	return append([]ShardState{g.ShardState}, g.MoreShards...)
}

// withShards replaces the states of all connections, of which there is at least one.
func (g GatewayState) withShards(all []ShardState) GatewayState {
	g.ShardState, g.MoreShards = all[0], all[1:]
	return g
}

// Gap is a part of a channel's history that the gateway did not deliver.
type Gap struct {
	ChannelID string `json:"channelId"`
	// After is the last message before the gap, Until the last message in it. An
	// empty Until means the newest message; an empty After, that no message is
	// missing.
	After string `json:"after,omitempty"`
	Until string `json:"until,omitempty"`
	// Threads is the time (Unix milliseconds) since which threads of the channel
	// may have been archived without an event; 0 if there are none.
	Threads int64 `json:"threads,omitempty"`
	// Opened counts how often the gap was opened since it was last closed.
	Opened int `json:"opened"`
}

// Messages returns the part of the gap in the channel itself.
func (g Gap) Messages() Gap { g.Threads = 0; return g }

// Archived returns the part of the gap in the channel's archived threads.
func (g Gap) Archived() Gap { g.After, g.Until = "", ""; return g }

// PendingInteraction is a command or button press that is not answered yet.
type PendingInteraction struct {
	// ID is Discord's interaction id.
	ID string `json:"id"`
	// RequestID is the request to stop, fixed when the interaction arrived; ""
	// if it stops nothing.
	RequestID string `json:"request,omitempty"`
	// Reply is the text to show once the action is done; "" before.
	Reply string `json:"said,omitempty"`
	// Payload is the interaction as Discord sent it.
	Payload json.RawMessage `json:"told"`
}
