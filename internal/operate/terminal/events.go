package terminal

import (
	"strings"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/transcript"
)

// wokenBy shows environment events that wake the agent as one quiet line.
func (c *conversation) wokenBy(t event.Type, p transcript.Payload) {
	family, what, _ := strings.Cut(string(t), ".")
	switch {
	case family == "background_task":
		if words := transcript.TaskEnds(); words[what] != "" {
			c.note(transcript.TaskEnded(p.Description, words[what]))
		}
	case family == "session":
		if t == event.SessionUpdated && p.Title != "" {
			c.title = text.SingleLine(p.Title)
		}
	case t == event.RuleStopped || family == "stream" || family == "tool" || t == event.UserStop:
	default:
		c.note("Event " + text.SingleLine(string(t)))
	}
}

// maxEvents limits the lines about events that wait.
const maxEvents = 50

// note shows a line about an event. The running request handles it when its answer is
// complete, so the line waits until then.
func (c *conversation) note(line string) {
	if c.run == nil || len(c.run.events) >= maxEvents {
		c.add(block{kind: kindNote, text: line})
		return
	}
	r := c.current(c.run.id)
	r.events = append(r.events[:len(r.events):len(r.events)], line)
}

func (c *conversation) flushEvents() {
	if c.run == nil || len(c.run.events) == 0 {
		return
	}
	c.closeAnswer()
	r := c.current(c.run.id)
	for _, line := range r.events {
		c.add(block{kind: kindNote, text: line})
	}
	r.events = nil
}
