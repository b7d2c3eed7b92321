package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"

	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
)

// A voice message reaches a model that does not accept audio as the text of the transcription
// endpoint. The control has no endpoint: the model does not learn the text.
func TestAVoiceMessageIsTranscribed(t *testing.T) {
	t.Parallel()
	const spoken = "please water the plants"
	for name, configured := range map[string]bool{"with an endpoint": true, "control: without": false} {
		t.Run(name, func(t *testing.T) {
			var heard atomic.Int64
			endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				file, header, err := r.FormFile("file")
				if err != nil {
					t.Errorf("the call has no file: %v", err)
					return
				}
				if sound, _ := io.ReadAll(file); r.URL.Path != "/v1/audio/transcriptions" || string(sound) != "OggS sound" || filepath.Ext(header.Filename) != ".ogg" {
					t.Errorf("%s received %q as %s", r.URL.Path, sound, header.Filename)
				}
				heard.Add(1)
				fmt.Fprintf(w, `{"text":%q}`, spoken)
			}))
			defer endpoint.Close()
			model := newChatModel(t)
			model.letGo()
			d := e2e.NewDiscord(t, discordtest.Options{})
			if configured {
				d.Configure("\ntranscription: {url: " + endpoint.URL + "/v1}\n")
			}
			s := e2e.New(t, append(modelEnv(model.server.URL), d.Env()...)...)
			s.Restart()
			e2e.Eventually(t, answerWithin, "the bot is connected", func() bool { return d.Connected() > 0 })
			private := d.DM(d.Ada)
			asked := d.Say(private, d.Ada, "", discordtest.SayOptions{
				Files: []discordtest.File{{Name: "voice-message.ogg", ContentType: "audio/ogg", Data: []byte("OggS sound")}}, Rich: discordtest.Rich{Voice: true},
			})
			s.WaitEnded(e2e.RequestID(private, asked), answerWithin)
			if got := wasAsked(model.server, spoken); got != configured || (heard.Load() == 1) != configured {
				t.Errorf("the model was told the text: %t; the endpoint was called %d times", got, heard.Load())
			}
		})
	}
}
