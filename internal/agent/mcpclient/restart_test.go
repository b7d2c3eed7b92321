package mcpclient

import (
	"strings"
	"testing"
	"time"

	"lilac/internal/foundation/fault"
)

// crash ends a server in the middle of a call.
func crash(t *testing.T, s *Servers) {
	t.Helper()
	if _, err := s.Call(t.Context(), "fake", "crash", nil, People{}); fault.ToWire(err).Code != CodeUnknown {
		t.Fatalf("the call of a server that crashes: %v", err)
	}
}

func TestAServerStaysListedWhileItIsRestarted(t *testing.T) {
	o := Options{limits: limits{backoff: func(int, time.Duration) (int, time.Duration) { return 1, time.Hour }}}
	s := serve(t, o, map[string]ServerConfig{"fake": stdioFake(t, "good")})
	before := len(s.Offers()[0].Tools)
	crash(t, s)
	eventually(t, "it waits for its next start", func() bool { return s.Status()[0].State == Waiting })
	if offers := s.Offers(); len(offers) != 1 || len(offers[0].Tools) != before {
		t.Errorf("it offers %+v", offers)
	}
	if _, err := s.Call(t.Context(), "fake", "echo", nil, People{}); fault.KindOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "out of cheese") {
		t.Errorf("a call while it does not work: %v", err)
	}
}

func TestACallWaitsForAServerThatIsRestarted(t *testing.T) {
	o := Options{limits: limits{backoff: func(int, time.Duration) (int, time.Duration) { return 1, 200 * time.Millisecond }}}
	s := serve(t, o, map[string]ServerConfig{"fake": stdioFake(t, "good")})
	crash(t, s)
	if got, err := s.Call(t.Context(), "fake", "echo", input(t, map[string]any{"text": "back"}), People{}); err != nil || got.texts() != "back0" {
		t.Errorf("%q, %v", got.texts(), err)
	}
}

func TestAServerThatHasNotOfferedAnythingSaysWhy(t *testing.T) {
	o := Options{limits: limits{backoff: func(int, time.Duration) (int, time.Duration) { return 1, time.Hour }}}
	s := serve(t, o, map[string]ServerConfig{"good": stdioFake(t, "good"), "dies": stdioFake(t, "dies"), "off": {Disabled: true}})
	s.Set(map[string]ServerConfig{"good": stdioFake(t, "good"), "dies": stdioFake(t, "dies"), "off": {Disabled: true}, "mute": stdioFake(t, "mute")})
	for name, want := range map[string]string{"good": "", "unknown": "", "dies": "the key is missing", "off": "turned off", "mute": "still starting"} {
		if err := s.Absent(name); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The pause grows to minutes, but the call shows that somebody needs the server.
func TestACallRestartsAServerThatWaitsForLong(t *testing.T) {
	o := Options{limits: limits{backoff: func(int, time.Duration) (int, time.Duration) { return 1, time.Hour }}}
	s := serve(t, o, map[string]ServerConfig{"fake": stdioFake(t, "good")})
	crash(t, s)
	eventually(t, "it waits for its next start", func() bool { return s.Status()[0].State == Waiting })
	one := s.servers["fake"]
	one.mu.Lock()
	one.since = one.since.Add(-restartTime)
	one.mu.Unlock()
	if got, err := s.Call(t.Context(), "fake", "echo", input(t, map[string]any{"text": "back"}), People{}); err != nil || got.texts() != "back0" {
		t.Errorf("%q, %v", got.texts(), err)
	}
}

func TestTheLastWordsOfAProgramAreItsError(t *testing.T) {
	for said, want := range map[string]string{
		"starting\nthe key of the service is missing": "the key of the service is missing",
		"Error: no contexts are defined in kubeconfig.\nUsage:\n  server [flags]\n\nFlags:\n  --version  Print the version and quit\n":              "Error: no contexts are defined in kubeconfig.",
		"Connecting\nFailed to connect: Error: Could not find the file. Tried:\n → /a/b.node\n    at bindings (/a/bindings.js:126:9)\n} extra text": "Failed to connect: Error: Could not find the file. Tried:",
		"Traceback (most recent call last):\n  File \"x.py\", line 1\nValueError: the key is missing\n":                                             "ValueError: the key is missing",
		"[1] Fatal error: TypeError: fetch failed\n    at x (/a.js:1:1) {\n  [cause]: Error: bad port\n      at y\n}":                               "[cause]: Error: bad port",
		"npm error code ENOTFOUND\nnpm error network request failed\nnpm error Error: see /log":                                                     "npm error code ENOTFOUND",
	} {
		if got := lastWords(said); !strings.HasPrefix(got, want) {
			t.Errorf("%q: %q", said, got)
		}
	}
}

func TestAServerWhoseEntryHasAMistakeSaysSo(t *testing.T) {
	broken := stdioFake(t, "good")
	broken.Broken = true
	s := serve(t, Options{}, map[string]ServerConfig{"fake": broken})
	if got := s.Status()[0]; got.State != Waiting || !strings.Contains(got.Trouble, "lilac config check") {
		t.Errorf("the server is %+v", got)
	}
	if err := s.Absent("fake"); err == nil || strings.Contains(err.Error(), "by itself") {
		t.Errorf("a call: %v", err)
	}
}
