package app

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"lilac/internal/foundation/fault"
	"lilac/internal/operate/config"
)

// A stop signal during the start ends the program without an error, at every point of the
// start. In the control, the start fails for another reason, which must be reported.
func TestAStopDuringTheStartIsNoFailure(t *testing.T) {
	home := t.TempDir()
	cfg, _, err := config.Load(config.Source{Getenv: func(name string) string {
		return map[string]string{"HOME": home, "LILAC_ADDR": "127.0.0.1:0"}[name]
	}})
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Config: cfg, Stdout: io.Discard, Logger: slog.New(slog.DiscardHandler), Version: "test"}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := Run(stopped, o); err != nil {
		t.Errorf("before anything was built: %v", err)
	}
	p, err := build(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.run(stopped); err != nil {
		t.Errorf("after all was built: %v", err)
	}
	if err := p.close(); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.DataDir, "lilac.db"), []byte("this is no database at all"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Run(stopped, o); fault.KindOf(err) != fault.Conflict {
		t.Errorf("control: with a damaged database: %v", err)
	}
}

// At a stop, event streams end, and open requests get their usual responses.
func TestAStopEndsStreamsAndLetsWritesFinish(t *testing.T) {
	s := newSurroundings(t, "", says("Well."))
	s.p.web.stopping()
	if code, body := s.post("/sessions/s1/prompt", `{"content":"hello"}`); code != http.StatusOK {
		t.Errorf("a prompt is answered %d %s", code, body)
	}
	for _, path := range []string{"/events", "/bus/env/tail"} {
		if code, _ := s.get(path, testToken); code != http.StatusOK { // returns when the stream has ended
			t.Errorf("control: %s is answered %d", path, code)
		}
	}
}
