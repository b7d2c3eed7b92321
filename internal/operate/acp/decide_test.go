package acp_test

import (
	"encoding/json"
	"strings"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/operate/acp"
)

// told renders effects as one line each.
func told(effects []acp.Effect) (lines []string) {
	for _, effect := range effects {
		switch effect := effect.(type) {
		case acp.Show:
			u := effect.Update
			switch {
			case u.AgentMessageChunk != nil && u.AgentMessageChunk.Content.Text != nil:
				lines = append(lines, "text "+strings.TrimSpace(u.AgentMessageChunk.Content.Text.Text))
			case u.AgentMessageChunk != nil && u.AgentMessageChunk.Content.ResourceLink != nil:
				lines = append(lines, "link "+u.AgentMessageChunk.Content.ResourceLink.Name)
			case u.AgentThoughtChunk != nil:
				lines = append(lines, "thought "+u.AgentThoughtChunk.Content.Text.Text)
			case u.ToolCall != nil:
				lines = append(lines, "tool "+string(u.ToolCall.Kind)+" "+string(u.ToolCall.Status)+" "+u.ToolCall.Title)
			case u.ToolCallUpdate != nil:
				line := "change " + string(*u.ToolCallUpdate.Status)
				for _, c := range u.ToolCallUpdate.Content {
					line += " " + c.Content.Content.Text.Text
				}
				lines = append(lines, line)
			case u.SessionInfoUpdate != nil:
				lines = append(lines, "title "+*u.SessionInfoUpdate.Title)
			}
		case acp.Ask:
			line := "ask " + effect.Question.Text
			for _, o := range effect.Question.Options {
				line += " [" + o.Name + "=" + string(o.Answer) + o.Reply + "]"
			}
			lines = append(lines, line)
		case acp.Answered:
			lines = append(lines, "answered")
		case acp.End:
			lines = append(lines, strings.TrimSpace("end "+effect.Request+" "+string(effect.Reason)+" "+effect.Failure))
		}
	}
	return lines
}

func TestWhatTheEditorIsTold(t *testing.T) {
	type e struct{ typ, payload string }
	start := e{"stream.start", `{"requestId":"r"}`}
	for name, c := range map[string]struct {
		events []e
		want   string
	}{
		"an answer in pieces": {
			[]e{start, {"stream.reasoning", `{"requestId":"r","content":"hm"}`}, {"stream.text", `{"requestId":"r","offset":0,"content":"Hel"}`}, {"stream.text", `{"requestId":"r","offset":3,"content":"lo"}`}, {"stream.completed", `{"requestId":"r","content":"Hello"}`}},
			"thought hm|text Hel|text lo|end r end_turn",
		},
		"a lost piece comes with the end": {
			[]e{start, {"stream.text", `{"requestId":"r","offset":0,"content":"Hel"}`}, {"stream.completed", `{"requestId":"r","content":"Hello"}`}},
			"text Hel|text lo|end r end_turn",
		},
		"an answer that begins again with the same text is sent once": {
			[]e{start, {"stream.text", `{"requestId":"r","offset":0,"content":"One\nTwo"}`}, {"stream.text", `{"requestId":"r","offset":0,"content":"One"}`}, {"stream.text", `{"requestId":"r","offset":3,"content":"\nTwo three"}`}},
			"text One\nTwo|text three",
		},
		"an answer that was taken back continues after a note": {
			[]e{start, {"stream.text", `{"requestId":"r","offset":0,"content":"One\nTwo"}`}, {"stream.text", `{"requestId":"r","offset":4,"content":"Three"}`}},
			"text One\nTwo|text *The answer was taken back to here, and continues:*|text Three",
		},
		"an answer that is shorter than what was sent": {
			[]e{start, {"stream.text", `{"requestId":"r","offset":0,"content":"One two"}`}, {"stream.completed", `{"requestId":"r","content":"One"}`}},
			"text One two|text *The end of this text was taken back.*|end r end_turn",
		},
		"a request that was never followed": {
			[]e{{"stream.completed", `{"requestId":"r","content":"Hello","notes":["A note."]}`}},
			"text Hello|text *A note.*|end r end_turn",
		},
		"a tool is announced once": {
			[]e{start, {"stream.tool_call", `{"requestId":"r","toolCallId":"c","name":"bash","args":{"command":"ls"},"status":"start"}`}, {"stream.tool_call", `{"requestId":"r","toolCallId":"c","name":"bash","status":"end","ok":true,"output":"a b"}`}, {"stream.tool_call", `{"requestId":"r","toolCallId":"d","name":"edit","status":"end","ok":false,"error":"no"}`}},
			"tool execute in_progress bash ls|change completed a b|tool edit failed edit",
		},
		"the output of another request is not this one's": {
			[]e{start, {"stream.text", `{"requestId":"other","offset":0,"content":"x"}`}, {"stream.tool_call", `{"requestId":"other","toolCallId":"c","name":"bash","status":"start"}`}},
			"",
		},
		"a stopped request": {
			[]e{start, {"stream.completed", `{"requestId":"r","content":"Hel","cancelled":true}`}},
			"text Hel|end r cancelled",
		},
		"a failed request": {
			[]e{start, {"stream.error", `{"requestId":"r","content":"","error":{"kind":"unavailable","message":"Nobody answers."}}`}},
			"end r end_turn Nobody answers.",
		},
		"a limit": {
			[]e{start, {"session.paused", `{"requestId":"r","pause":1,"question":"Continue?"}`}, {"session.paused", `{"requestId":"r","pause":1,"question":"Continue?","again":true}`}, {"session.resumed", `{"requestId":"r","pause":1,"answer":"continue"}`}},
			"ask Continue? [Continue=continue] [Stop=stop]|answered",
		},
		"an approval": {
			[]e{start, {"session.paused", `{"requestId":"r","pause":2,"kind":"approval","question":"May it?","call":{"tool":"bash","input":"{}"}}`}, {"stream.completed", `{"requestId":"r","content":"","cancelled":true}`}},
			"ask May it? [Allow once=once] [Always allow here=always] [Refuse=no]|answered|end r cancelled",
		},
		"a choice": {
			[]e{start, {"session.paused", `{"requestId":"r","pause":1,"kind":"question","question":"Which?","choices":["a","b"]}`}},
			"ask Which? [a=replya] [b=replyb]",
		},
		"a question for a text": {
			[]e{start, {"session.paused", `{"requestId":"r","pause":1,"kind":"question","question":"Which?"}`}},
			"ask Which?",
		},
		"a task that ended, a title, and a file": {
			[]e{{"background_task.completed", `{"description":"the tests"}`}, {"session.updated", `{"title":"Dogs"}`}, {"stream.file", `{"requestId":"r","filename":"a.txt","url":"/files/1"}`}},
			"text *The task “the tests” finished*|title Dogs|link a.txt",
		},
		"events of another form": {[]e{{"stream.text", `[]`}, {"session.paused", `7`}, {"webhook.received", `{}`}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var s acp.State
			var all []string
			for _, one := range c.events {
				var effects []acp.Effect
				s, effects = acp.Decide(s, event.EnvEvent{Type: event.Type(one.typ), Payload: json.RawMessage(one.payload)})
				all = append(all, told(effects)...)
			}
			if got := strings.Join(all, "|"); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// Whatever the stream takes back, the editor never misses the end of the answer, and text
// that it has is not sent again without a note.
func FuzzTheEditorHasTheWholeAnswer(f *testing.F) {
	f.Add("One\nTwo", uint8(4), "Three", "One\nThree")
	f.Add("", uint8(0), "a", "b")
	f.Fuzz(func(t *testing.T, first string, offset uint8, second, full string) {
		var s acp.State
		sent := ""
		apply := func(typ event.Type, payload any) {
			raw, err := json.Marshal(payload)
			if err != nil {
				t.Skip()
			}
			var effects []acp.Effect
			s, effects = acp.Decide(s, event.EnvEvent{Type: typ, Payload: raw})
			for _, e := range effects {
				if show, ok := e.(acp.Show); ok && show.Update.AgentMessageChunk != nil {
					sent += show.Update.AgentMessageChunk.Content.Text.Text
				}
			}
		}
		text := func(offset int, content string) {
			apply(event.StreamText, map[string]any{"requestId": "r", "offset": offset, "content": content})
		}
		first, second, full = strings.ToValidUTF8(first, ""), strings.ToValidUTF8(second, ""), strings.ToValidUTF8(full, "")
		apply(event.StreamStart, map[string]any{"requestId": "r"})
		text(0, first)
		text(int(offset), second)
		apply(event.StreamCompleted, map[string]any{"requestId": "r", "content": full})
		last := full[strings.LastIndexByte(full, '\n')+1:]
		if !strings.HasPrefix(sent, full) && !strings.HasSuffix(sent, last) && !strings.HasSuffix(sent, "taken back.*\n\n") {
			t.Errorf("the editor has %q at the end of %q", sent, full)
		}
	})
}
