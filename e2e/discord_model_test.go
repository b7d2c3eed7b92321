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

// The model's texts on Discord: before its tool call, and at the end.
const (
	lookingText = "I look at it. "
	endText     = "That is all there is."
	wholeText   = lookingText + "\n\n" + endText
)

// chatModel calls a tool after each message of a user, then waits until it is released, then ends
// its answer.
type chatModel struct {
	server *llmtest.Server
	hold   chan struct{}

	mu   sync.Mutex
	seen []string // the last message of a user, for each call
}

func newChatModel(t testing.TB) *chatModel {
	m := &chatModel{hold: make(chan struct{})}
	m.server = llmtest.New(t, m.answer)
	t.Cleanup(m.letGo)
	return m
}

// letGo releases every answer, now and later.
func (m *chatModel) letGo() {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case <-m.hold:
	default:
		close(m.hold)
	}
}

// waits makes answers wait again until they are released.
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
			// A system message within the conversation is merged into the start of the next
			// message.
			if _, text, merged := strings.Cut(m.Text, "</system>\n\n"); merged {
				return text
			}
			return m.Text
		}
	}
	return ""
}

// heard returns the last message of a user, for each model call.
func (m *chatModel) heard() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.seen)
}

func (m *chatModel) wasTold(text string) bool {
	return slices.ContainsFunc(m.heard(), func(s string) bool { return strings.Contains(s, text) })
}

// answerTo reports whether a message is the whole answer to another one.
func answerTo(asked string) func(discordtest.Message) bool {
	return func(m discordtest.Message) bool { return m.ReplyTo == asked && e2e.Finished(wholeText)(m) }
}

// onDiscord starts a server that is connected to a fake Discord.
func onDiscord(t *testing.T, bus e2e.Engine, modelURL string, extra ...string) (*e2e.Server, *e2e.Discord) {
	t.Helper()
	d := e2e.NewDiscord(t, discordtest.Options{}, extra...)
	s := e2e.New(t, slices.Concat(bus(t), modelEnv(modelURL), d.Env())...)
	s.Restart()
	// The bot ignores messages from before its first connection.
	e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return d.Connected() > 0 })
	return s, d
}

// waitTaken waits until the runner has taken a message into a request.
func waitTaken(t *testing.T, s *e2e.Server, requestID, messageID string) {
	t.Helper()
	e2e.Eventually(t, answerWithin, "the runner has the message", func() bool {
		var story struct{ Messages []struct{ MessageID string } }
		s.Request("GET", "/requests/"+requestID, nil, &story)
		return slices.ContainsFunc(story.Messages, func(m struct{ MessageID string }) bool { return m.MessageID == messageID })
	})
}

// wasAsked reports whether any call of the model contained a text.
func wasAsked(model *llmtest.Server, text string) bool {
	return slices.ContainsFunc(model.Requests(), func(r llmtest.Request) bool { return strings.Contains(string(r.Body), text) })
}
