package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"lilac/internal/core/webhook"
)

// HookSecret signs the webhooks of tests.
const HookSecret = "hook-secret-0123456789"

// Configured returns the environment that gives a server a configuration file.
func Configured(t testing.TB, text string) []string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"LILAC_CONFIG=" + file}
}

// Hook sends a webhook about a workflow run; see [Server.HookOf].
func (s *Server) Hook(name, id, body string) (status int, duplicate bool) {
	s.t.Helper()
	return s.HookOf("workflow_run", name, id, body)
}

// HookOf sends a webhook as GitHub does, through a proxy that keeps the public host name. It
// returns the status, or 0 if there was no response, and whether the server had already received
// the delivery.
func (s *Server) HookOf(about, name, id, body string) (status int, duplicate bool) {
	s.t.Helper()
	hook, err := webhook.New(webhook.Spec{Name: name, Secret: HookSecret})
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", "http://"+s.Addr+"/webhooks/"+name, bytes.NewReader([]byte(body)))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header = hook.Sign(webhook.Delivery{ID: id, Event: about, Body: []byte(body)}, time.Now())
	req.Header.Set("Content-Type", "application/json")
	req.Host = "hooks.example.com"
	res, err := s.client.Do(req)
	if err != nil {
		return 0, false
	}
	defer res.Body.Close()
	var answer struct{ Duplicate bool }
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil && res.StatusCode < 300 {
		return 0, false
	}
	return res.StatusCode, answer.Duplicate
}
