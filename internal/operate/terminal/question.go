package terminal

import (
	"encoding/json"

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

// stillAsks shows the question that was open when the conversation was opened.
func (c *conversation) stillAsks(request string, pause json.RawMessage) {
	var p transcript.Payload
	var stored struct{ Number int }
	if len(pause) == 0 || json.Unmarshal(pause, &p) != nil || json.Unmarshal(pause, &stored) != nil {
		return
	}
	p.RequestID, p.Pause = request, stored.Number
	c.question = ask(p)
}

// maxDetails limits the input of a call to approve, in characters. Ctrl+O shows all calls.
const maxDetails = 600
