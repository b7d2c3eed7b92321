package terminal

import (
	"time"

	"charm.land/bubbles/v2/textarea"

	"lilac/internal/foundation/event"
)

// Limits of what the model keeps.
const (
	// maxBlocks limits the blocks of a conversation; the oldest printed ones are dropped.
	maxBlocks = 4000
	// maxOutput limits the output of one tool, in bytes.
	maxOutput = 256 << 10
	// maxHistory limits the inputs that the up key recalls.
	maxHistory = 500
	// maxContent limits a message, in bytes, below the limit of the server.
	maxContent = 900 << 10
)

// kind says what a block is.
type kind int

const (
	kindUser kind = iota
	kindAnswer
	kindThinking
	kindTool
	kindNote
	kindError
	kindFile
	kindText // lines that Lilac itself shows, such as /help
	kindEnd  // the line below an answer
)

// block is a part of the conversation as the terminal shows it, in order.
type block struct {
	kind kind
	// request is the id of the request that it belongs to, or "".
	request string
	text    string
	// open reports that the block still changes, so it is not printed yet.
	open bool
	// id, name, output, and failed belong to tools; text is the tool's description.
	id, name, output string
	failed           bool
	since, until     time.Time
	memo             *memo
}

// run is the running request.
type run struct {
	id    string
	since time.Time
	// text is the answer so far. shown is what its finished blocks contain; it is a
	// prefix of text unless the server has taken text back.
	text, shown string
	// phase says what happens now, for the status line.
	phase string
	// events are lines about events that the answer has not reached yet.
	events []string
	// stopping reports that the user pressed Esc.
	stopping bool
}

// outgoing is a message that is sent but not part of the conversation yet.
type outgoing struct {
	ref                  int
	text                 string
	files                []string
	queue                event.Queue
	requestID, messageID string
	// dispatched reports that it is on its way, sent that the server accepted it.
	dispatched, sent bool
	// mine reports that it was typed here, as opposed to another client.
	mine bool
}

// question waits for an answer of a person: at a limit, to the approval of a call, or to
// a question of the agent. All have the same form, and the server says which answers count.
type question struct {
	request string
	// number counts the questions of the request from 1.
	number int
	text   string
	// details has the input of the call to approve.
	details  string
	options  []option
	selected int
}

// option is an answer to choose. reply is set for an answer in the agent's words.
type option struct{ label, answer, reply string }

// prompt is the input and what it recalls.
type prompt struct {
	area textarea.Model
	// pastes are long pasted texts, which the input shows as placeholders.
	pastes []string
	// history are earlier messages, oldest first. at is the recalled one, or
	// len(history); draft is what was typed before recalling.
	history []string
	at      int
	draft   string
}

// conversation is what the open conversation shows, and what happens in it.
type conversation struct {
	// now is the time of the newest tick.
	now time.Time

	session, title, model string
	modelOfServer         string

	blocks []block
	// printed counts the blocks that were printed above the changing part; partial counts
	// the lines of the next one that were.
	printed, partial int

	run    *run
	outbox []outgoing
	// applied are the ids of the newest messages that are part of the conversation. After
	// a broken connection, the stream may repeat events.
	applied []string
	// question is the open question, and more are further ones: those of background tasks.
	question *question
	more     []*question
}

// Model is the state of the terminal. The zero value is not usable; see [NewModel].
type Model struct {
	conversation
	painter
	server, version                   string
	opening, following, leaving, left bool

	// printing reports that lines are being printed, and late has lines to print first.
	printing bool
	late     []string
	// held is the frame from which lines may be printed again: after the alternate screen,
	// the terminal must show the main one first.
	held int

	lastRef int
	// inFlight is the reference of the message that is being sent, or 0. One is sent at a
	// time, so that none overtakes another.
	inFlight int
	prompt   prompt
	menu     menu
	overlay  overlay

	// notice is shown once, until the next key. outage says why no answer comes.
	notice, outage string
	lastHeard      time.Time
	checking       bool
	ticking        bool
}

// Busy reports whether an answer is expected.
func (m Model) Busy() bool { return m.run != nil || len(m.outbox) > 0 }

// overlay is the whole conversation on the alternate screen.
type overlay struct {
	open bool
	// wanted opens it when the lines that are being printed are on the main screen.
	wanted bool
	// up is the number of lines between the end and the last visible line.
	up int
}
