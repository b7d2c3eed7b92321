package terminal

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"lilac/internal/operate/client"
)

// A request asks right after the first call of a conversation that is opened. The question is in the
// answer of the next call, because the stream after the messages need not have it.
func TestAQuestionThatIsAskedWhileAConversationIsOpenedIsShown(t *testing.T) {
	asks := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer := `{"id":"s1","activeRequest":"r1"}`
		switch {
		case r.URL.Path == "/sessions/s1/messages" && asks:
			answer = `{"cursor":"after the question","running":["r1"]}`
		case r.URL.Path == "/sessions/s1/messages":
			answer = `{"cursor":"before the question","running":["r1"]}`
		case asks:
			answer = `{"id":"s1","activeRequest":"r1","paused":{"number":1,"kind":"question","question":"Which color?"}}`
		}
		asks = true
		_, _ = io.WriteString(w, answer)
	}))
	defer server.Close()
	c, err := client.Connect(client.Options{Addr: server.URL, Token: "token"})
	if err != nil {
		t.Fatal(err)
	}
	s := &service{ctx: t.Context(), o: Options{Server: c}}
	if got := s.open("s1"); got.Err != nil || got.Cursor != "before the question" || len(got.Questions) != 1 || got.Questions[0].Request != "r1" {
		t.Errorf("got %+v, want the question of r1", got)
	}
}
