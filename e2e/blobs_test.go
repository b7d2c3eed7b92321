package e2e_test

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
	"lilac/internal/testkit/s3test"
)

// seesPicture is a model that counts its calls with a picture.
func seesPicture(t *testing.T, picture []byte) (url string, seen *atomic.Int64) {
	seen = &atomic.Int64{}
	encoded := []byte(base64.StdEncoding.EncodeToString(picture))
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		if bytes.Contains(r.Body, encoded) {
			seen.Add(1)
		}
		return llmtest.Say("I see.")
	})
	return model.URL, seen
}

func promptWithPicture(s *e2e.Server, session string, picture []byte) (status int, request string) {
	var out e2e.Accepted
	status = s.Request("POST", "/sessions/"+session+"/prompt", map[string]any{
		"content": "look", "queue": event.Prompt,
		"attachments": []any{map[string]any{"filename": "p.png", "mimeType": "image/png", "dataBase64": base64.StdEncoding.EncodeToString(picture)}},
	}, &out)
	return status, out.RequestID
}

// The process that takes over has the picture that people sent to the other one, on another
// machine: its data directory is another one. Without a bucket, it has not.
func TestTheFilesAreWhereBothProcessesAre(t *testing.T) {
	t.Parallel()
	picture := drawing(t)
	for name, inBucket := range map[string]bool{"in a bucket": true, "control: in the data directory": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, seen := seesPicture(t, picture)
			env := append(e2e.Postgres(t), append(modelEnv(url), e2e.Configured(t, `{models: {openai/test-model: {images: true}}}`)...)...)
			if inBucket {
				env = append(env, s3test.Start(t).Env("lilac")...)
			}
			first := e2e.Start(t, env...)
			session := first.NewSession()
			code, request := promptWithPicture(first, session, picture)
			if code != http.StatusOK {
				t.Fatalf("the picture was answered %d", code)
			}
			first.WaitEnded(request, answerWithin)
			second := startStandby(t, env...)
			first.Terminate(effort.Within(takesOverAfterStop))
			second.WaitReady()
			second.WaitEnded(second.Prompt(session, "look again", event.Prompt).RequestID, answerWithin)
			if n := seen.Load(); (n == 2) != inBucket {
				t.Errorf("%d of 2 calls had the picture", n)
			}
		})
	}
}

// While the bucket is away, a file is refused with the reason, text is answered, and /readyz says
// why. When it is back, the files of the data directory from before it was configured are in it.
func TestABucketThatIsAway(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	picture := drawing(t)
	url, _ := seesPicture(t, picture)
	bucket := s3test.Start(t)
	s := e2e.Start(t, modelEnv(url)...)
	session := s.NewSession()
	_, request := promptWithPicture(s, session, picture)
	s.WaitEnded(request, answerWithin)
	s.Kill()
	s.Restart(bucket.Env("")...)
	e2e.Eventually(t, answerWithin, "the picture is in the bucket", func() bool { return len(bucket.Keys()) == 1 })

	bucket.Fail(-1, http.StatusInternalServerError)
	if code, _ := promptWithPicture(s, session, append(picture, 0)); code != http.StatusServiceUnavailable {
		t.Errorf("a file was answered %d", code)
	}
	s.WaitEnded(s.Prompt(session, "text", event.Prompt).RequestID, answerWithin)
	says := func(what string) bool {
		_, body := s.Get("/readyz")
		return strings.Contains(body, what)
	}
	e2e.Eventually(t, answerWithin, "/readyz says why", func() bool { return says("Lilac cannot read from the bucket the-bucket") })
	bucket.Fail(0, 0)
	e2e.Eventually(t, answerWithin, "/readyz is well", func() bool { return !says("Lilac cannot read from the bucket") })
	if code, _ := promptWithPicture(s, session, append(picture, 0)); code != http.StatusOK {
		t.Errorf("after the bucket was back, the file was answered %d", code)
	}
}
