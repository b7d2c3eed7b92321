package e2e_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// What the model on Discord says: before its tool, and at the end.
const (
	lookingText = "I look at it. "
	endText     = "That is all there is."
	wholeText   = lookingText + "\n\n" + endText
)

// chatModel looks with a tool whenever somebody has spoken, then waits until it
// is let go, then ends.
type chatModel struct {
	server *llmtest.Server
	hold   chan struct{}

	mu   sync.Mutex
	seen []string // the last message of a person, at each call
}

func newChatModel(t testing.TB) *chatModel {
	m := &chatModel{hold: make(chan struct{})}
	m.server = llmtest.New(t, m.answer)
	t.Cleanup(m.letGo)
	return m
}

// letGo lets every answer end, now and later.
func (m *chatModel) letGo() {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.hold:
	default:
		close(m.hold)
	}
}

// waits makes answers wait again until they are let go.
func (m *chatModel) waits() {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.hold:
		m.hold = make(chan struct{})
	default:
	}
}

func (m *chatModel) answer(r llmtest.Request) llmtest.Script {
	m.mu.Lock()
	m.seen = append(m.seen, lastOfPerson(r))
	hold := m.hold
	m.mu.Unlock()
	if len(r.Messages[len(r.Messages)-1].Results) == 0 {
		return llmtest.Script{Text: llmtest.Words(lookingText), Calls: []llmtest.Call{{ID: fmt.Sprintf("call-%d", r.N), Name: "glob", Input: `{"pattern":"*.md"}`}}}
	}
	<-hold
	return llmtest.Script{Text: llmtest.Words(endText)}
}

func lastOfPerson(r llmtest.Request) string {
	for _, m := range slices.Backward(r.Messages) {
		if m.Role == "user" && m.Text != "" && len(m.Results) == 0 {
			// A system message within the conversation precedes it in the same message.
			if _, text, merged := strings.Cut(m.Text, "</system>\n\n"); merged {
				return text
			}
			return m.Text
		}
	}
	return ""
}

// heard is what the model was last told by a person, at each call.
func (m *chatModel) heard() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.seen)
}

func (m *chatModel) wasTold(text string) bool {
	return slices.ContainsFunc(m.heard(), func(s string) bool { return strings.Contains(s, text) })
}

// onDiscord starts a server that is connected to a fake Discord.
func onDiscord(t *testing.T, bus e2e.Engine, modelURL string, extra ...string) (*e2e.Server, *e2e.Discord) {
	t.Helper()
	d := e2e.NewDiscord(t, discordtest.Options{}, extra...)
	s := e2e.New(t, slices.Concat(bus(t), modelEnv(modelURL), d.Env())...)
	s.Restart()
	// What is said before a bot was ever there is not for it.
	e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return d.Connected() > 0 })
	return s, d
}

// waitTaken waits until the runner has a message for a request.
func waitTaken(t *testing.T, s *e2e.Server, requestID, messageID string) {
	t.Helper()
	e2e.Eventually(t, answerWithin, "the runner has the message", func() bool {
		var story struct{ Messages []struct{ MessageID string } }
		s.Request("GET", "/requests/"+requestID, nil, &story)
		return slices.ContainsFunc(story.Messages, func(m struct{ MessageID string }) bool { return m.MessageID == messageID })
	})
}

// wasAsked reports whether a text stood in any call of a model.
func wasAsked(model *llmtest.Server, text string) bool {
	return slices.ContainsFunc(model.Requests(), func(r llmtest.Request) bool { return strings.Contains(string(r.Body), text) })
}
