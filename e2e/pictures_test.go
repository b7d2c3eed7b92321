package e2e_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// The model sees a picture that it reads, in the next call and in all later ones, also after
// a kill and when the file is gone. The journal and the history have a reference only.
func TestTheModelSeesAPictureThatItReads(t *testing.T) {
	t.Parallel()
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewRGBA(image.Rect(0, 0, 40, 30))); err != nil {
		t.Fatal(err)
	}
	encoded := base64.StdEncoding.EncodeToString(picture.Bytes())
	var mu sync.Mutex
	var bodies []string
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		mu.Lock()
		bodies = append(bodies, string(r.Body))
		mu.Unlock()
		if strings.Contains(r.Messages[len(r.Messages)-1].Text, "look") && !strings.Contains(string(r.Body), encoded) {
			return llmtest.Script{Calls: []llmtest.Call{{ID: "c", Name: "read", Input: `{"path":"a.png"}`}}}
		}
		return llmtest.Say("I see it.")
	})
	last := func() string {
		mu.Lock()
		defer mu.Unlock()
		return bodies[len(bodies)-1]
	}
	s := e2e.Start(t, append(modelEnv(model.URL), e2e.Configured(t, `{models: {openai/test-model: {images: true}}}`)...)...)
	session := s.NewSession()
	file := filepath.Join(s.Workspace(session), "a.png")
	if err := os.WriteFile(file, picture.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	a := s.Prompt(session, "look at a.png", event.Prompt)
	if end := s.WaitEnded(a.RequestID, answerWithin); end.State != "done" || end.Steps != 2 || !strings.Contains(last(), encoded) {
		t.Fatalf("ended as %s after %d steps; the last call lacks the picture: %v", end.State, end.Steps, !strings.Contains(last(), encoded))
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	s.Restart()
	b := s.Prompt(session, "and now?", event.Prompt)
	if end := s.WaitEnded(b.RequestID, answerWithin); end.State != "done" || !strings.Contains(last(), encoded) {
		t.Errorf("after a kill, ended as %s (%s); the call lacks the picture: %v", end.State, end.Detail, !strings.Contains(last(), encoded))
	}
	var story json.RawMessage
	s.Request("GET", "/requests/"+a.RequestID, nil, &story)
	if strings.Contains(string(story), encoded) || !strings.Contains(string(story), "blob:sha256:") {
		t.Errorf("the story has the bytes of the picture, or no reference: %.3000s", story)
	}
}
