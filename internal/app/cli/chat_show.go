package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

// streamPayload holds the fields of the stream's events that the terminal
// shows.
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
	Filename  string           `json:"filename"`
	Bytes     int64            `json:"bytes"`
	Path      string           `json:"path"`
	URL       string           `json:"url"`
}

// show prints an event of the session's stream.
func (t *talk) show(e event.EnvEvent) {
	var p streamPayload
	if err := json.Unmarshal(e.Payload, &p); err != nil {
		return // an event of a shape that the terminal does not show
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
				t.noteLocked("your message was taken into the running answer")
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
		t.unprinted = fmt.Errorf("print answer: %w", err)
	}
	t.midline = !strings.HasSuffix(s, "\n")
}

func (t *talk) toolLocked(p streamPayload) {
	if !t.terminal {
		return // only the answer goes into a pipe
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
		_ = json.Unmarshal(p.Error, &reason) // without a reason the name must do
		t.noteLocked(p.Name + " failed " + reason)
	}
}

// fileLocked says where a file is that the agent gives. It is no part of the
// answer, so it does not go into a pipe.
func (t *talk) fileLocked(p streamPayload) {
	where := cmp.Or(p.Path, t.server.Addr()+p.URL)
	line := fmt.Sprintf("  · file %s (%d bytes): %s\n", oneLine(p.Filename), p.Bytes, oneLine(where))
	if !t.terminal {
		fmt.Fprint(t.cli.err, line)
		return
	}
	fmt.Fprint(t.cli.out, t.newLineLocked(), line)
}

// pausedLocked handles a request that asks whether to go on beyond a limit. The
// question is in its text; who said one thing and waits is told how to answer,
// also when it is a request before his that asks.
func (t *talk) pausedLocked(p streamPayload) {
	switch {
	case t.ended != nil && p.RequestID == t.mine:
		t.ended[p.RequestID] = unanswered(p.Question, p.RequestID)
	case t.ended != nil:
		t.waitingLocked(unanswered(p.Question, p.RequestID))
	case t.terminal && p.Again:
		t.noteLocked(p.Question)
	}
}

func unanswered(question, requestID string) error {
	return fault.New(fault.LimitReached, "%s Use: lilac requests continue %s", question, requestID)
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
	if p.Cancelled {
		err = fault.New(fault.Cancelled, "the answer was stopped")
	}
	if t.ended != nil {
		t.ended[p.RequestID] = err
		return
	}
	if err != nil {
		t.noteLocked(err.Error())
	}
	if t.terminal {
		fmt.Fprint(t.cli.out, "› ")
	}
	select {
	case t.done <- struct{}{}:
	default: // the one that waits has not looked yet
	}
}

func streamFault(p streamPayload) error {
	var w fault.Wire
	if err := json.Unmarshal(p.Error, &w); err != nil || w.Message == "" {
		return fault.New(fault.Internal, "the request failed")
	}
	return fault.FromWire(w)
}
