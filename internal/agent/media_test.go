package agent_test

import (
	"encoding/json"
	"strings"
	"testing"

	"lilac/internal/agent"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
)

func written(messages []chat.Message) string {
	out, _ := json.Marshal(messages) // messages always marshal
	return string(out)
}

// A picture that a provider refuses stays in the history; the conversation must
// not be refused with it for ever.
func TestMediaThatAProviderRefusesAreReplacedByTheirNames(t *testing.T) {
	refused := fault.New(fault.Invalid, "Could not process image.")
	letter := chat.Part{Type: chat.TypeFile, Data: []byte(`"aGVsbG8="`), MediaType: "text/plain", Filename: "letter.txt"}
	picture := chat.Part{Type: chat.TypeImage, Data: []byte(`"iVBORw0KGgo="`), Filename: "scan.png"}
	for name, c := range map[string]struct {
		parts  []chat.Part
		script []reply
		kind   fault.Kind
		asked  int
	}{
		"a picture":              {[]chat.Part{letter, picture}, []reply{{err: refused}, say("Hi"), say("more")}, "", 2},
		"it was not the picture": {[]chat.Part{picture}, []reply{{err: refused}, {err: refused}, say("Hi")}, fault.Invalid, 2},
		"there is none":          {[]chat.Part{letter}, []reply{{err: refused}, say("Hi")}, fault.Invalid, 1},
		"it is another trouble":  {[]chat.Part{picture}, []reply{{err: fault.New(fault.Denied, "No.")}, say("Hi")}, fault.Denied, 1},
	} {
		t.Run(name, func(t *testing.T) {
			m, h := &model{script: c.script}, newHost()
			in := question()
			in.Messages = append(in.Messages, chat.Message{Role: chat.User, Parts: c.parts})
			before := written(in.Messages)
			out := agent.Run(t.Context(), agent.Config{Model: m}, in, all(h))
			if fault.KindOf(out.Err) != c.kind && (c.kind != "" || out.Err != nil) || len(m.asked) != c.asked {
				t.Errorf("%d calls: %v", len(m.asked), out.Err)
			}
			last := written(m.asked[len(m.asked)-1].Messages)
			if c.asked == 2 && (strings.Contains(last, "iVBORw0KGgo=") || !strings.Contains(last, "scan.png")) {
				t.Errorf("the picture is not named only: %s", last)
			}
			if strings.Contains(before, "letter.txt") != strings.Contains(last, "aGVsbG8=") {
				t.Errorf("the text is gone: %s", last)
			}
			if written(in.Messages) != before {
				t.Error("the history was changed")
			}
		})
	}
}
