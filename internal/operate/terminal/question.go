package terminal

import (
	"encoding/json"
	"fmt"
	"slices"

	"lilac/internal/foundation/text"
	"lilac/internal/operate/transcript"
)

// maxOptions limits the answers to choose; the keys 1 to 9 select them.
const maxOptions = 9

// ask returns the question of a paused request.
func ask(p transcript.Payload) *question {
	q := &question{request: p.RequestID, number: p.Pause, text: clean(p.Question)}
	switch p.Kind {
	case "":
		q.options = []option{{label: "Continue", answer: "continue"}, {label: "Stop", answer: "stop"}}
	case "approval":
		q.options = []option{{label: "Allow once", answer: "once"}, {label: "Always allow here", answer: "always"}, {label: "Refuse", answer: "no"}}
		if p.Call != nil {
			q.details = text.TruncateRunes(text.SingleLine(p.Call.Tool+" "+p.Call.Input), maxDetails)
		}
	default:
		for _, choice := range p.Choices[:min(len(p.Choices), maxOptions)] {
			q.options = append(q.options, option{label: text.SingleLine(choice), answer: "reply", reply: choice})
		}
	}
	return q
}

// maxMore limits the further questions that are kept; the page shows all.
const maxMore = 20

// asked shows a question, or keeps it until the one that is shown is answered.
func (c *conversation) asked(q *question) {
	if c.question == nil || c.question.request == q.request {
		c.question = q
		return
	}
	c.more = append(slices.DeleteFunc(slices.Clone(c.more), func(o *question) bool { return o.request == q.request }), q)
	c.more = c.more[max(0, len(c.more)-maxMore):]
}

// settled removes the question of a request, and shows the next one.
func (c *conversation) settled(request string) {
	c.more = slices.DeleteFunc(slices.Clone(c.more), func(o *question) bool { return o.request == request })
	if c.question == nil || c.question.request != request {
		return
	}
	c.question = nil
	if len(c.more) > 0 {
		c.question, c.more = c.more[0], c.more[1:]
	}
}

// stillAsks shows a question that was open when the conversation was opened.
func (c *conversation) stillAsks(open OpenQuestion) {
	var p transcript.Payload
	var stored struct{ Number int }
	if json.Unmarshal(open.Pause, &p) != nil || json.Unmarshal(open.Pause, &stored) != nil {
		return
	}
	p.RequestID, p.Pause = open.Request, stored.Number
	if open.Task != "" {
		p.Question = fmt.Sprintf("The task “%s” asks: %s", text.SingleLine(open.Task), p.Question)
	}
	c.asked(ask(p))
}

// maxDetails limits the input of a call to approve, in characters. Ctrl+O shows all calls.
const maxDetails = 600
