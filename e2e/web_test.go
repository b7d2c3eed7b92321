package e2e_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
)

// A command of the agent searches the web with the configured service, and reads only pages of the
// hosts that are allowed.
func TestACommandSearchesTheWeb(t *testing.T) {
	needsCommands(t)
	t.Parallel()
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/search" || r.FormValue("format") != "json" || r.FormValue("q") != "lilac release" {
			http.Error(w, "bad request", http.StatusBadRequest)
			return
		}
		_, _ = io.WriteString(w, `{"results":[{"title":"The news","url":"https://docs.example.com/news","content":"It is out."}]}`)
	}))
	t.Cleanup(service.Close)
	model, told := commandModel(t, func() string {
		return `tools web.search --query="lilac release" --count=3; tools web.fetch --url=https://elsewhere.example.com/?secret; echo "exit code $?"`
	})
	s := e2e.Start(t, append(modelEnv(model.URL), e2e.Configured(t, fmt.Sprintf(`{web: {hosts: [docs.example.com], search: {provider: searxng, url: %q}}}`, service.URL))...)...)
	s.WaitEnded(s.Prompt(s.NewSession(), "go", event.Prompt).RequestID, answerWithin)
	has(t, <-told, "The news", "https://docs.example.com/news", "It is out.", "has not allowed pages of elsewhere.example.com", "exit code 3")
}
