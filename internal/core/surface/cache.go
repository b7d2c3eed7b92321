package surface

import "lilac/internal/engine/db"

// Cache is what is remembered of the platforms; package store keeps it. An
// unknown id is a fault.NotFound.
type Cache interface {
	// PutMessage inserts a message or takes a newer state of it: one with a
	// smaller EditedAt than the cached changes nothing. An empty RequestID
	// keeps the cached one. The session's read position stays: not everything
	// before the message need have been heard.
	PutMessage(tx *db.Tx, m Message) error
	// ReadUpTo moves the session's read position to a message, never back, when
	// everything before it was heard or is a gap that is known.
	ReadUpTo(tx *db.Tx, m Message) error
	// MarkDeleted keeps the row, without its text and attachments, and makes one
	// for a message that may still come: it stays deleted.
	MarkDeleted(tx *db.Tx, platform, channelID, messageID string, at int64) error
	Message(q db.Queryer, platform, channelID, messageID string) (Message, error)
	// IsOurs reports whether a message, deleted or not, is known to be our own.
	IsOurs(q db.Queryer, platform, channelID, messageID string) (bool, error)
	// Messages lists what a channel holds that is not deleted, newest first,
	// before a message id ("" from the newest); at most 200.
	Messages(q db.Queryer, platform, channelID, before string, limit int) ([]Message, error)
	// ReplyChain follows ReplyTo from a message backwards: oldest first, the
	// message itself last, at most depth of them, up to the first gap.
	ReplyChain(q db.Queryer, platform, channelID, messageID string, depth int) ([]Message, error)
	// SearchMessages finds words in the texts of the given channels, best
	// first. The query is plain words, never a query language.
	SearchMessages(q db.Queryer, platform string, channelIDs []string, query string, limit int) ([]Message, error)

	PutSession(tx *db.Tx, s Session) error
	Session(q db.Queryer, platform, channelID string) (Session, error)
	// Sessions lists a platform's sessions, the last used first.
	Sessions(q db.Queryer, platform string) ([]Session, error)
	// SessionsTitled lists those of a title, with or without #, ignoring case;
	// at most some dozens.
	SessionsTitled(q db.Queryer, platform, title string) ([]Session, error)

	PutUser(tx *db.Tx, platform string, u User) error
	User(q db.Queryer, platform, id string) (User, error)
	// UsersNamed finds people by a name, ignoring case.
	UsersNamed(q db.Queryer, platform, name string) ([]User, error)
}
