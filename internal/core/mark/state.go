package mark

import "lilac/internal/foundation/event"

// The life of a mark:
//
//	(none) ── wanted ──> wanted ── shown ──> shown ── withdrawn ──> withdrawn ── removed ──> (none)
//	                       │ │                                        ^
//	                       │ └──────────── withdrawn ─────────────────┘ (removed unless it was never shown)
//	                       └── refused, or not shown in time ──> (none)

// noticeKey begins what a notice without a mark has instead of an emoji; the user's id follows.
const noticeKey = "notice:"

// Mark is a reaction of ours on a message. The zero Mark is none.
type Mark struct {
	Ref   event.MessageRef `json:"ref"`
	Emoji string           `json:"emoji"`
	// Wanted reports that people should see it, Shown that they may see it.
	Wanted bool `json:"wanted"`
	Shown  bool `json:"shown"`
	// Since is when it was wanted or withdrawn (Unix milliseconds).
	Since int64 `json:"since"`
	// RetryAt is when a failed call is repeated (Unix milliseconds).
	RetryAt  int64 `json:"retryAt,omitempty"`
	Failures int   `json:"failures,omitempty"`
	// Notice is sent to the user in private if the mark is refused, or if there is none (Emoji
	// then begins with noticeKey).
	Notice *Notice `json:"notice,omitempty"`
}

// Notice is a private message to a user.
type Notice struct {
	UserID string `json:"userId"`
	Text   string `json:"text"`
	// Due reports that the mark was refused, so that the notice is to be sent.
	Due bool `json:"due,omitempty"`
}

// Key identifies the mark in its table.
func (m Mark) Key() string {
	return m.Ref.Platform + "/" + m.Ref.ChannelID + "/" + m.Ref.MessageID + "/" + m.Emoji
}

// Empty reports whether there is nothing to store.
func (m Mark) Empty() bool { return !m.Wanted && !m.Shown }

// Pending reports whether the platform has to be called.
func (m Mark) Pending() bool { return m.Wanted != m.Shown || m.noticeDue() }

func (m Mark) noticeDue() bool { return m.Notice != nil && m.Notice.Due }

// Input is something that happened to a mark.
type Input interface{ isInput() }

// Wanted reports that people should see the mark.
type Wanted struct {
	Ref    event.MessageRef
	Emoji  string
	Notice *Notice
}

// Noticed reports that a user should get a notice without a mark.
type Noticed struct {
	Ref    event.MessageRef
	Notice Notice
}

// Withdrawn reports that people should no longer see the mark.
type Withdrawn struct{}

// Called is the outcome of calling the platform: to add the mark, to remove it, or
// to send its notice.
type Called struct {
	Added, Noticed bool
	Err            error
}

func (Wanted) isInput()    {}
func (Noticed) isInput()   {}
func (Withdrawn) isInput() {}
func (Called) isInput()    {}

// Effect is an effect of a decision. The types below are the closed set.
type Effect interface{ isEffect() }

// Lost reports that a mark could not be shown, nor its notice be sent if it has one.
type Lost struct {
	Err    error
	Notice *Notice
}

func (Lost) isEffect() {}
