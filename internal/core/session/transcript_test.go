package session_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/model/llm"
)

// fakeTranscriber counts its calls; without a text, it fails.
type fakeTranscriber struct {
	text  string
	calls int
}

func (f *fakeTranscriber) Transcribe(_ context.Context, _, _ string, recording []byte) (string, bool, error) {
	f.calls++
	if f.text == "" || string(recording) != "sound" {
		return "", true, errors.New("no")
	}
	return f.text, true, nil
}

// A recording becomes text once. The history keeps the recording, and the model gets the same
// text again after a restart, also when the first attempt failed.
func TestVoiceMessageIsTranscribedOnce(t *testing.T) {
	const transcript = "[Transcript of the recording voice-message.ogg; it may contain errors]\nBuy milk."
	for name, c := range map[string]struct {
		mediaType   string
		hears       bool // the model hears recordings
		transcriber *fakeTranscriber
		want        string
	}{
		"transcribed":               {"audio/ogg", false, &fakeTranscriber{text: "Buy milk."}, transcript},
		"heard, but not the format": {"audio/ogg", true, &fakeTranscriber{text: "Buy milk."}, transcript},
		"heard":                     {"audio/mpeg", true, &fakeTranscriber{text: "Buy milk."}, ""},
		"failed":                    {"audio/ogg", false, &fakeTranscriber{}, "(The recording voice-message.ogg could not be transcribed:"},
		"control":                   {"audio/ogg", false, nil, ""}, // nobody transcribes, so the adapter decides
	} {
		t.Run(name, func(t *testing.T) {
			recording := chat.Part{Type: chat.TypeFile, Data: json.RawMessage(`"blob:sha256:ab"`), MediaType: c.mediaType, Filename: "voice-message.ogg"}
			var calls [][]chat.Message
			do := func(_ context.Context, req llm.Request, _ func(string)) (chat.Message, error) {
				calls = append(calls, req.Messages)
				return chat.Text(chat.Assistant, fmt.Sprint("answer ", len(calls))), nil
			}
			dir := t.TempDir()
			start := func() *rig {
				r := newRig(t, rigOptions{dir: dir, do: do, change: func(o *session.Options) {
					o.Blobs = fakeBlobs("sound")
					if c.transcriber != nil {
						o.Transcriber = c.transcriber
					}
				}})
				r.model.hears = c.hears
				return r
			}
			r := start()
			r.send("web:s1:r1", "m1", event.Prompt, "", func(m *event.RequestMessage) {
				m.Messages = []chat.Message{{Role: chat.User, Parts: []chat.Part{chat.TextPart("listen"), recording}}}
			})
			r.waitForEnd("web:s1:r1")
			r.stop()
			r = start()
			r.send("web:s1:r2", "m2", event.Prompt, "and?")
			r.waitForEnd("web:s1:r2")
			if c.transcriber != nil && c.want != "" && c.transcriber.calls != 1 {
				t.Errorf("transcribed %d times", c.transcriber.calls)
			}
			for i, messages := range calls {
				got := messages[0].Parts[1]
				if c.want == "" && got.Type != chat.TypeFile || c.want != "" && (got.Type != chat.TypeText || !strings.HasPrefix(got.Text, c.want)) {
					t.Errorf("call %d got %+v", i+1, got)
				}
			}
			r.read(func(q db.Queryer) error {
				conv, err := r.store.History.Conversation(q, sid)
				if err == nil && conv.Messages[0].Message.Parts[1].Filename != recording.Filename {
					t.Errorf("the history has %+v", conv.Messages[0].Message.Parts[1])
				}
				return err
			})
		})
	}
}
