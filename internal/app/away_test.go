package app

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/telemetry/health"
	"lilac/internal/testkit/effort"
)

// After the database file is moved away, prompts are rejected, because the next start would
// not find them, and /readyz says what to do. Work continues once the file is back.
func TestADatabaseThatIsMovedAwayIsToldAndTakesNothing(t *testing.T) {
	effort.SkipSlow(t)
	t.Parallel()
	r := start(t, "model: demo\n")
	session := r.newSession()
	prompt := func() (int, string) { return r.post("/sessions/"+session+"/prompt", `{"content":"hello"}`) }
	path := filepath.Join(r.p.Config.DataDir, "lilac.db")
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if code, body := prompt(); code != http.StatusServiceUnavailable || !strings.Contains(body, `"retryable":true`) || !strings.Contains(body, "removed or moved") {
		t.Errorf("a prompt is answered %d %s", code, body)
	}
	r.eventually("readiness says what to do", func() bool {
		part := r.part("writer")
		return part.Status == health.Failed && strings.Contains(part.Message, "restore a backup") && !strings.Contains(part.Message, r.home)
	})
	if err := os.Rename(path+".away", path); err != nil {
		t.Fatal(err)
	}
	r.eventually("it is ready again", func() bool { return r.ready().Ready })
	if code, body := prompt(); code != http.StatusOK {
		t.Errorf("control: a prompt is answered %d %s", code, body)
	}
}
