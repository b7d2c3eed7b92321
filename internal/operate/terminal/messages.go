package terminal

import (
	"encoding/json"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/operate/transcript"
)

// The messages of [Update], besides Bubble Tea's own (keys, pastes, sizes).
type (
	// Opened is the result of [Open] and [Create].
	Opened struct {
		Session, Title, Model string
		Cursor                string
		History               []transcript.Entry
		// Questions are the open ones: that of its own request, and those of background tasks.
		Questions []OpenQuestion
		Err       error
	}
	// OpenQuestion is the open pause of a request, as JSON. Task is the background task that
	// asks, or "".
	OpenQuestion struct {
		Request, Task string
		Pause         json.RawMessage
	}
	// Recalled has messages of the newest conversation, oldest first, for the up key.
	Recalled struct{ Texts []string }
	// Streamed is an event of the conversation.
	Streamed struct {
		Session string
		Event   event.EnvEvent
	}
	// StreamEnded reports that the conversation is not followed any more.
	StreamEnded struct {
		Session string
		Err     error
	}
	// Sent is the result of [Send].
	Sent struct {
		Ref                  int
		RequestID, MessageID string
		Files                []string
		Err                  error
	}
	// Done is the result of an effect. Note is shown if it is not empty.
	Done struct {
		Note string
		Err  error
	}
	// Chosen is the result of [Choose].
	Chosen struct {
		Model string
		Err   error
	}
	// Listed has the items of a menu, or the lines to show.
	Listed struct {
		What  string
		Items []Item
		Text  string
		Err   error
	}
	// Found has the files that continue a path.
	Found struct {
		Prefix string
		Names  []string
	}
	// Outage says why no answer comes; "" means that the server is well.
	Outage struct{ Reason string }
	// Tick is the time.
	Tick struct{ At time.Time }
	// Printed reports that the lines of [Print] are on the terminal.
	Printed struct{}
)

// Effect is something that the service does for [Update].
type Effect interface{ isEffect() }

// The effects.
type (
	// Open loads a conversation.
	Open struct{ Session string }
	// Create creates a conversation.
	Create struct{}
	// Follow follows the events of a conversation from now on, instead of those of
	// another one.
	Follow struct{ Session, Cursor string }
	// Recall loads earlier messages.
	Recall struct{}
	// Send sends a message with the files that it mentions.
	Send struct {
		Ref     int
		Session string
		Text    string
		Queue   event.Queue
	}
	// Stop stops a request.
	Stop struct{ Session, Request string }
	// Answer answers a question.
	Answer struct {
		Request string
		Number  int
		Answer  string
		Reply   string
	}
	// Choose chooses the model of a conversation; "" is the configured one.
	Choose struct{ Session, Model, Effort string }
	// List loads sessions, models, rules, or tasks.
	List struct{ What, Session string }
	// Find lists the files whose path begins with a prefix.
	Find struct{ Prefix string }
	// Export writes the conversation to a file of this machine.
	Export struct{ Session, Title, Path string }
	// Copy copies text to the clipboard of the user's terminal.
	Copy struct{ Text string }
	// Print prints lines above the changing part.
	Print struct{ Lines []string }
	// Check asks the server why no answer comes.
	Check struct{}
	// Wait sends a [Tick] after a time.
	Wait struct{ For time.Duration }
	// Suspend stops the process until the shell continues it.
	Suspend struct{}
	// Leave ends the program.
	Leave struct{}
)

func (Open) isEffect()    {}
func (Create) isEffect()  {}
func (Follow) isEffect()  {}
func (Recall) isEffect()  {}
func (Send) isEffect()    {}
func (Stop) isEffect()    {}
func (Answer) isEffect()  {}
func (Choose) isEffect()  {}
func (List) isEffect()    {}
func (Find) isEffect()    {}
func (Export) isEffect()  {}
func (Copy) isEffect()    {}
func (Print) isEffect()   {}
func (Check) isEffect()   {}
func (Wait) isEffect()    {}
func (Suspend) isEffect() {}
func (Leave) isEffect()   {}
