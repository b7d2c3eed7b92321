package e2e_test

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// hostConfig gives the model a window that two long messages fill.
const hostConfig = "models: {openai/test-model: {contextTokens: 64000, maxOutputTokens: 4000, images: true, temperature: 0.5}}\ncompactAt: 0.3\n"

// converser is the model of a conversation that has everything: a tool, two tools at once,
// thinking, a picture, a message during the run, a stop, a failure, and a compaction. It answers
// by the last message.
type converser struct {
	// held gets a value when a call waits for release; a call hangs until it is stopped.
	held, release chan struct{}
}

func (c *converser) answer(r llmtest.Request) llmtest.Script {
	if strings.Contains(string(r.Body), "You summarise the older part") {
		return llmtest.Say("A person said much.")
	}
	thought := llmtest.Script{Reasoning: []string{"hm"}, Usage: llmtest.Usage{Input: 100, Output: 10}}
	call := func(n int) llmtest.Script {
		for i := range n {
			thought.Calls = append(thought.Calls, llmtest.Call{ID: fmt.Sprintf("call%05d", 10*r.N+i), Name: "glob", Input: fmt.Sprintf(`{"pattern":"*%d"}`, i)})
		}
		return thought
	}
	last := r.Messages[len(r.Messages)-1]
	asks := func(text string) bool { return len(last.Results) == 0 && strings.Contains(last.Text, text) }
	switch {
	case asks("look"): // maybe merged with the message that was stopped before
	case asks("use a tool"):
		return call(1)
	case asks("use two tools"):
		thought.Text = []string{"I look."}
		return call(2)
	case asks("wait"):
		c.held <- struct{}{}
		<-c.release
		return call(1)
	case asks("hang"):
		c.held <- struct{}{}
		return llmtest.Script{Text: []string{"I was about "}, Hang: true}
	case asks("fail"):
		return llmtest.Script{Status: 403, ErrorType: "permission_error", ErrorMessage: "The fake does not want to."}
	}
	thought.Text = llmtest.Words(fmt.Sprintf("Answer %d.", r.N))
	return thought
}

// TestTheProgramTalksToEveryHost has one conversation of ten turns with each dialect, through the
// program. The host may refuse each kind of thing once; Lilac learns from it, and nothing is
// refused twice, also after a kill. Only what a host refused may change earlier messages.
func TestTheProgramTalksToEveryHost(t *testing.T) {
	effort.SkipDetail(t)
	for _, host := range llmtest.Hosts {
		t.Run(host.Name, func(t *testing.T) {
			t.Parallel()
			c := &converser{held: make(chan struct{}), release: make(chan struct{})}
			model := llmtest.New(t, c.answer, func(o *llmtest.Options) { o.Host = &host })
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file, []byte(hostConfig), 0o600); err != nil {
				t.Fatal(err)
			}
			s := e2e.Start(t, append(modelEnv(model.URL), "LILAC_CONFIG="+file)...)
			session := s.NewSession()
			ends := func(requestID string, want event.RequestState) {
				t.Helper()
				if end := s.WaitEnded(requestID, answerWithin); end.State != string(want) {
					t.Fatalf("a request ended as %s: %s\nrefused: %s", end.State, end.Detail, strings.Join(model.Refused(), "\n"))
				}
			}
			ask := func(text string, want event.RequestState) {
				t.Helper()
				ends(s.Prompt(session, text, event.Prompt).RequestID, want)
			}
			ask("hello", event.StateDone)
			ask("use a tool", event.StateDone)
			ask("use two tools", event.StateDone)

			steered := s.Prompt(session, "wait", event.Prompt)
			<-c.held
			s.Prompt(session, "a steer", event.Steer)
			s.Prompt(session, "another steer", event.Steer)
			close(c.release)
			ends(steered.RequestID, event.StateDone)

			stopped := s.Prompt(session, "hang", event.Prompt)
			<-c.held
			s.Cancel(session)
			ends(stopped.RequestID, event.StateCancelled)
			s.Kill()
			s.Restart()
			var accepted e2e.Accepted
			picture := map[string]any{"content": "look", "attachments": []any{map[string]any{"filename": "a.png", "mimeType": "image/png", "dataBase64": base64.StdEncoding.EncodeToString(onePixel)}}}
			if code := s.Request("POST", "/sessions/"+session+"/prompt", picture, &accepted); code != 200 {
				t.Fatalf("the prompt with a picture was answered with %d", code)
			}
			ends(accepted.RequestID, event.StateDone)
			ask("fail", event.StateFailed)
			ask("use a tool again", event.StateDone)
			ask(long, event.StateDone)
			compacted := s.Prompt(session, long+" once more", event.Prompt)
			ends(compacted.RequestID, event.StateDone)
			if story := s.Story(compacted.RequestID); !slices.ContainsFunc(story.Entries, func(e e2e.Entry) bool { return e.Kind == "compacted" }) {
				t.Error("the conversation was not compacted")
			}

			thinks := host.ReasoningDelta("") != nil
			requests := model.Requests()
			if back := strings.Contains(string(requests[3].Body), `"hm"`); back != thinks {
				t.Errorf("the thinking is sent back: %v", back)
			}
			kinds := map[string]bool{}
			for _, refusal := range model.Refused() {
				kind := llmtest.RefusalKind(refusal)
				if kinds[kind] {
					t.Errorf("refused twice: %s", refusal)
				}
				kinds[kind] = true
			}
			t.Logf("%d calls, %d refused", model.Count(), len(model.Refused()))
		})
	}
}
