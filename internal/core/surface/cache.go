package surface

import "lilac/internal/engine/db"

// MessageCache holds the messages of the platforms. Package store implements it, as
// well as [Directory]; packages that need a part declare that part. An unknown id is a
// fault.NotFound.
type MessageCache interface {
	// PutMessage inserts a message or a newer version of it; a version with a
	// smaller EditedAt than the cached one changes nothing. An empty RequestID keeps
	// the cached one. The session's read position does not move, because earlier
	// messages may be missing.
	PutMessage(tx *db.Tx, m Message) error
	// ReadUpTo moves the session's read position to a message, never back. Every
	// earlier message was received or is in a known gap.
	ReadUpTo(tx *db.Tx, m Message) error
	// MarkDeleted replaces a message with a tombstone without text and attachments.
	// It also works for a message that arrives later.
	MarkDeleted(tx *db.Tx, platform, channelID, messageID string, at int64) error
	Message(q db.Queryer, platform, channelID, messageID string) (Message, error)
	// IsOurs reports whether a message, deleted or not, is known to be our own.
	IsOurs(q db.Queryer, platform, channelID, messageID string) (bool, error)
	// Messages returns at most 200 messages of a channel that are not deleted,
	// newest first, before a message id ("" for the newest).
	Messages(q db.Queryer, platform, channelID, before string, limit int) ([]Message, error)
	// ReplyChain follows ReplyTo backward from a message to the first gap. It
	// returns at most depth messages, oldest first, ending with the message itself.
	ReplyChain(q db.Queryer, platform, channelID, messageID string, depth int) ([]Message, error)
	// SearchMessages returns the messages of the channels that contain the words of
	// the query, best first. The query is plain words, not a query language.
	SearchMessages(q db.Queryer, platform string, channelIDs []string, query string, limit int) ([]Message, error)
}

// Directory holds sessions and users. An unknown id is a fault.NotFound.
type Directory interface {
	PutSession(tx *db.Tx, s Session) error
	Session(q db.Queryer, platform, channelID string) (Session, error)
	// Sessions returns a platform's sessions, most recently used first.
	Sessions(q db.Queryer, platform string) ([]Session, error)
	// SessionsTitled returns a few dozen sessions with a title, with or without #,
	// ignoring case.
	SessionsTitled(q db.Queryer, platform, title string) ([]Session, error)

	PutUser(tx *db.Tx, platform string, u User) error
	User(q db.Queryer, platform, id string) (User, error)
	// UsersNamed returns the users with a name, ignoring case.
	UsersNamed(q db.Queryer, platform, name string) ([]User, error)
}
