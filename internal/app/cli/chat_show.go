package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"lilac/internal/core/session"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

// streamPayload holds the fields of events that the terminal shows.
type streamPayload struct {
	RequestID string           `json:"requestId"`
	Content   string           `json:"content"`
	Offset    int              `json:"offset"`
	Name      string           `json:"name"`
	Display   string           `json:"display"`
	Args      json.RawMessage  `json:"args"`
	Status    event.ToolStatus `json:"status"`
	OK        *bool            `json:"ok"`
	Error     json.RawMessage  `json:"error"`
	Cancelled bool             `json:"cancelled"`
	Queue     event.Queue      `json:"queue"`
	Message   string           `json:"message"`
	Question  string           `json:"question"`
	Again     bool             `json:"again"`
	Kind      string           `json:"kind"`
	Choices   []string         `json:"choices"`
	Filename  string           `json:"filename"`
	Bytes     int64            `json:"bytes"`
	Path      string           `json:"path"`
	URL       string           `json:"url"`
	Notes     []string         `json:"notes"`
}

// show prints an event of the session's stream.
func (t *talk) show(e event.EnvEvent) {
	var p streamPayload
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return // the terminal does not show events of this form
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked, t.heard = false, true
	switch e.Type {
	case event.StreamStart:
		t.running = p.RequestID
		t.screen = screen{}
	case event.StreamText:
		if t.terminal {
			t.printLocked(t.screen.Delta(p.Offset, p.Content))
		}
	case event.StreamToolCall:
		t.toolLocked(p)
	case event.StreamFile:
		t.fileLocked(p)
	case event.SessionMessageApplied:
		if p.Queue == event.Steer || p.Queue == event.Interrupt || p.Queue == event.FollowUp {
			if t.terminal {
				t.noteLocked("your message was added to the answer in progress")
			}
		}
	case event.SessionPaused:
		t.pausedLocked(p)
	case event.StreamCompleted:
		t.finishLocked(p, nil)
	case event.StreamError:
		t.finishLocked(p, streamFault(p))
	case "stream.gap":
		t.noteLocked(p.Message)
	}
}

func (t *talk) printLocked(s string) {
	if s == "" {
		return
	}
	if _, err := fmt.Fprint(t.cli.out, text.Sanitize(s)); err != nil {
		t.printErr = fmt.Errorf("print answer: %w", err)
	}
	t.midline = !strings.HasSuffix(s, "\n")
}

func (t *talk) toolLocked(p streamPayload) {
	if !t.terminal {
		return // a pipe gets only the answer
	}
	switch {
	case p.Status == event.ToolStart:
		what := p.Display
		if what == "" {
			what = strings.TrimSpace(p.Name + " " + string(p.Args))
		}
		t.noteLocked(what)
	case p.Status == event.ToolEnd && p.OK != nil && !*p.OK:
		var reason string
		_ = json.Unmarshal(p.Error, &reason) // the name is enough without a reason
		t.noteLocked(p.Name + " failed " + reason)
	}
}

// fileLocked prints where to find a file that the agent sent. It is not part of the
// answer, so a pipe does not get it.
func (t *talk) fileLocked(p streamPayload) {
	where := cmp.Or(p.Path, t.server.Addr()+p.URL)
	line := fmt.Sprintf("  · file %s (%d bytes): %s\n", oneLine(p.Filename), p.Bytes, oneLine(where))
	if !t.terminal {
		fmt.Fprint(t.cli.err, line)
		return
	}
	fmt.Fprint(t.cli.out, t.newLineLocked(), line)
}

// pausedLocked handles a paused request. At a limit, the answer's text contains the
// question. A command that waits for one answer prints how to continue, also if
// an earlier request is the paused one.
func (t *talk) pausedLocked(p streamPayload) {
	switch {
	case t.ended != nil && p.RequestID == t.mine:
		t.ended[p.RequestID] = unanswered(p)
	case t.ended != nil:
		t.waitingLocked(unanswered(p))
	case t.terminal && (p.Again || p.Kind != ""):
		t.noteLocked(p.Question)
		for i, choice := range p.Choices {
			t.noteLocked(fmt.Sprintf("%d. %s", i+1, choice))
		}
	}
}

func unanswered(p streamPayload) error {
	use := "continue " + p.RequestID
	switch p.Kind {
	case string(session.ForApproval):
		use = "answer " + p.RequestID + " once"
	case string(session.ForReply):
		use = "answer " + p.RequestID + " \"…\""
	}
	return fault.New(fault.LimitReached, "%s Use: lilac requests %s", p.Question, use)
}

// finishLocked prints the end of a request.
func (t *talk) finishLocked(p streamPayload, err error) {
	if p.RequestID == t.running {
		t.running = ""
	}
	switch {
	case t.terminal && p.Content != "":
		t.printLocked(t.screen.End(p.Content))
	case !t.terminal && p.RequestID == t.mine:
		t.printLocked(p.Content)
	}
	fmt.Fprint(t.cli.out, t.newLineLocked())
	for _, note := range p.Notes {
		if t.terminal {
			t.noteLocked(note)
		}
	}
	if p.Cancelled {
		err = fault.New(fault.Cancelled, "the answer was stopped")
	}
	if t.ended != nil {
		t.ended[p.RequestID] = err
		return
	}
	if err != nil {
		t.noteLocked(fault.Plain(err))
	}
	if t.terminal {
		fmt.Fprint(t.cli.out, "› ")
	}
	select {
	case t.done <- struct{}{}:
	default: // a notification is already pending
	}
}

func streamFault(p streamPayload) error {
	var w fault.Wire
	if err := json.Unmarshal(p.Error, &w); err != nil || w.Message == "" {
		return fault.New(fault.Internal, "the request failed")
	}
	return fault.FromWire(w)
}
