package transcribe_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lilac/internal/foundation/fault"
	"lilac/internal/model/transcribe"
)

func TestRecordingBecomesText(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		answer string
		text   string
		kind   fault.Kind
	}{
		"JSON":          {200, `{"text":" Hello there. ","usage":{}}`, "Hello there.", ""},
		"text":          {200, "Hello there.\n", "Hello there.", ""},
		"silence":       {200, `{"text":""}`, "", ""},
		"no transcript": {200, `{"error":"no"}`, "", fault.Unavailable},
		"a web page":    {200, "<html>", "", fault.Unavailable},
		"refused":       {401, `{"error":{"message":"secret"}}`, "", fault.Unavailable},
		"not found":     {404, "File Not Found (/v1/audio/transcriptions)", "", fault.NotFound}, // whisper.cpp without --inference-path
		"redirected":    {302, "", "", fault.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				file, header, err := r.FormFile("file")
				if err != nil {
					t.Error(err)
					return
				}
				data, err := io.ReadAll(file)
				if err != nil || string(data) != "sound" || header.Filename != "recording.ogg" || r.FormValue("model") != "whisper-1" ||
					r.URL.Path != "/v1/audio/transcriptions" || r.Header.Get("Authorization") != "Bearer key" {
					t.Errorf("%s got %q as %s for %s", r.URL.Path, data, header.Filename, r.FormValue("model"))
				}
				if c.status == 302 {
					w.Header().Set("Location", "/elsewhere")
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.answer)
			}))
			defer server.Close()
			client := transcribe.Client{BaseURL: server.URL, Key: "key", Model: "whisper-1"}
			text, err := client.Transcribe(t.Context(), "voice-message.ogg", "audio/ogg; codecs=opus", []byte("sound"))
			if text != c.text || fault.KindOf(err) != c.kind && (err != nil || c.kind != "") {
				t.Errorf("text is %q, error %v", text, err)
			}
			if c.status == 404 && !strings.Contains(err.Error(), "Check transcription.url") {
				t.Errorf("the error does not say what to do: %v", err)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error repeats the answer: %v", err)
			}
		})
	}
}

func TestLargeRecordingIsNotSent(t *testing.T) {
	_, err := transcribe.Client{BaseURL: "http://127.0.0.1:1"}.Transcribe(t.Context(), "a.ogg", "audio/ogg", make([]byte, transcribe.MaxBytes+1))
	if fault.KindOf(err) != fault.TooLarge {
		t.Errorf("error is %v", err)
	}
}
