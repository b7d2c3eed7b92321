package logs_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"lilac/internal/telemetry/logs"
)

const canary = `c4nary/"key"+of=all`

// record logs one line and returns it.
func record(o logs.Options, log func(*slog.Logger)) string {
	var b bytes.Buffer
	log(logs.New(&b, o))
	return b.String()
}

func knowing(values ...string) *logs.Secrets {
	var s logs.Secrets
	s.Add(values...)
	return &s
}

// ways are the paths on which a secret gets into a log.
func ways() map[string]func(*slog.Logger) {
	_, dial := http.Get("http://127.0.0.1:1/?q=" + url.QueryEscape(canary))
	header := http.Header{"X-Api-Key": {canary}}
	return map[string]func(*slog.Logger){
		"message":           func(l *slog.Logger) { l.Info("using " + canary) },
		"value":             func(l *slog.Logger) { l.Info("m", "v", canary) },
		"key":               func(l *slog.Logger) { l.Info("m", canary, 1) },
		"wrapped error":     func(l *slog.Logger) { l.Info("m", "error", fmt.Errorf("call: %w", errors.New(canary))) },
		"quoted error":      func(l *slog.Logger) { l.Info("m", "error", fmt.Errorf("call %q", canary)) },
		"error of a client": func(l *slog.Logger) { l.Info("m", "error", dial) },
		"header":            func(l *slog.Logger) { l.Info("m", "header", header) },
		"struct":            func(l *slog.Logger) { l.Info("m", "v", struct{ Key []string }{[]string{canary}}) },
		"bytes":             func(l *slog.Logger) { l.Info("m", "v", []byte(`{"k":`+fmt.Sprintf("%q", canary)+"}")) },
		"map key":           func(l *slog.Logger) { l.Info("m", "v", map[string]int{canary: 1}) },
		"group":             func(l *slog.Logger) { l.Info("m", slog.Group("g", "v", canary)) },
		"group's name":      func(l *slog.Logger) { l.WithGroup(canary).Info("m", "v", 1) },
		"logger's own":      func(l *slog.Logger) { l.With("v", canary).Info("m") },
		"base64":            func(l *slog.Logger) { l.Info("m", "v", base64.StdEncoding.EncodeToString([]byte(canary))) },
		"path":              func(l *slog.Logger) { l.Info("m", "v", (&url.URL{Path: canary}).String()+url.PathEscape(canary)) },
	}
}

func shows(line string) bool {
	for _, form := range []string{canary, url.QueryEscape(canary), url.PathEscape(canary), `c4nary/\"key`, `c4nary/\\\"key`, base64.StdEncoding.EncodeToString([]byte(canary))} {
		if strings.Contains(line, form) {
			return true
		}
	}
	return false
}

func TestNoSecretIsInAnyLog(t *testing.T) {
	for name, log := range ways() {
		for _, text := range []bool{false, true} {
			if line := record(logs.Options{Text: text, Secrets: knowing(canary)}, log); shows(line) {
				t.Errorf("%s (text %v): the secret is in %s", name, text, line)
			}
			// The control: a logger that was not told shows it.
			if line := record(logs.Options{Text: text}, log); !shows(line) && name != "path" {
				t.Errorf("control: %s (text %v) does not put the secret into the line: %s", name, text, line)
			}
		}
	}
}

func TestSecretsAreKnownByTheirShape(t *testing.T) {
	for _, text := range []string{
		"Authorization: Bearer abcdef0123456789", "Authorization:[Bearer abcdef0123456789]", "https://user:abcdef0123456789@host/",
		"redis://:abcdef0123456789@127.0.0.1:6379/0", "https://host/v1?alt=sse&key=abcdef0123456789&x=1", "the key sk-abcdef0123456789-abc is wrong",
		"GET /login?code=abcdef0123456789", "the token lilac_abcdef0123456789abcdef0123456789abcdef0123456789",
		`Post "https://discord.com/api/v10/interactions/1234/abcdef0123456789/callback": EOF`, "https://discord.com/api/webhooks/1234/abcdef0123456789?wait=true",
	} {
		if got := (&logs.Secrets{}).Redact(text); strings.Contains(got, "abcdef0123456789") || !strings.Contains(got, logs.Redacted) {
			t.Errorf("%q became %q", text, got)
		}
	}
	for _, text := range []string{"the bearer of this letter", "a task-based design", "http://host:80/a@b", "x=1", "monkey=see", "/webhooks/github", "lilac_bus_group_backlog"} {
		if got := (&logs.Secrets{}).Redact(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestEnvironmentNamesItsSecrets(t *testing.T) {
	var s logs.Secrets
	s.AddEnvironment([]string{"SOME_API_KEY=first-secret", "DISCORD_TOKEN=second-secret", "PATH=/usr/local/bin", "KEY=abc", "HTTPS_PROXY=http://lilac:third%2!secret@proxy:3128", "NO_PROXY=localhost:8080,me@host"})
	if got := s.Redact("first-secret second-secret /usr/local/bin abc third%2!secret proxy:3128 me@host"); got != "*** *** /usr/local/bin abc *** proxy:3128 me@host" {
		t.Errorf("redacted to %q", got)
	}
}

// Ollama has no keys, and its documents say to give the word "ollama". Answers may have that word.
func TestPlaceholdersAreNoSecrets(t *testing.T) {
	text := "curl -fsSL https://ollama.com/install.sh"
	if got := knowing("ollama", "lm-studio").Redact(text); got != text {
		t.Errorf("redacted to %q", got)
	}
}

func TestLongestSecretIsRemovedWhole(t *testing.T) {
	if got := knowing("secret", "secret-and-more").Redact("secret-and-more"); got != logs.Redacted {
		t.Errorf("redacted to %q", got)
	}
}

// forgeries are texts that pretend to be a line, move the cursor or change
// the direction.
var forgeries = []string{
	"x\n{\"level\":\"ERROR\"}", "x\r\nlevel=ERROR", "\x1b[2K\x1b[1A", "a\u202eb", "a\u2066b\u2069", "a\u2028b", "\u009b31m", "\x00", "\xff\xfe", "a\u061cb", "\"}", "\\", strings.Repeat("é", 20<<10),
}

func TestLinesCannotBeForged(t *testing.T) {
	for _, f := range forgeries {
		checkLine(t, f, f, f)
	}
}

func checkLine(t *testing.T, message, key, value string) {
	t.Helper()
	log := func(l *slog.Logger) {
		l.With(key, value).WithGroup("g"+key).Info(message, key, value, "error", errors.New(value), "any", map[string]any{key: []string{value}})
	}
	for _, text := range []bool{false, true} {
		line := record(logs.Options{Text: text}, log)
		if strings.Count(line, "\n") != 1 || !strings.HasSuffix(line, "\n") {
			t.Fatalf("not one line: %q", line)
		}
		for _, r := range strings.TrimSuffix(line, "\n") {
			if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' {
				t.Fatalf("%U stands in %q", r, line)
			}
		}
		if !text && !json.Valid([]byte(line)) {
			t.Fatalf("no JSON: %q", line)
		}
	}
}

func TestControlPlainHandlersAreForged(t *testing.T) {
	var b bytes.Buffer
	slog.New(slog.NewJSONHandler(&b, nil)).Info("a\u202eb\u009b31m")
	if !strings.Contains(b.String(), "\u202e") {
		t.Error("control: the handler of the library shows no direction mark; the test proves nothing")
	}
}

func TestLevelChangesWhileItRuns(t *testing.T) {
	var b bytes.Buffer
	var level slog.LevelVar
	l := logs.New(&b, logs.Options{Level: &level})
	l.Debug("hidden")
	level.Set(slog.LevelDebug)
	l.Debug("shown")
	if got := b.String(); strings.Contains(got, "hidden") || !strings.Contains(got, "shown") {
		t.Errorf("logged %s", got)
	}
}

func TestAStringOfAnyTypeIsLoggedAsOne(t *testing.T) {
	type kind string
	for text, want := range map[bool]string{false: `"v":"session.created"`, true: "v=session.created"} {
		line := record(logs.Options{Text: text}, func(l *slog.Logger) { l.Info("m", "v", kind("session.created")) })
		if !strings.Contains(line, want) {
			t.Errorf("logged %s, want %s", line, want)
		}
	}
}

func TestValuesThatPanicAreLogged(t *testing.T) {
	line := record(logs.Options{}, func(l *slog.Logger) { l.Info("m", "v", (*panics)(nil), "after", 1) })
	if !strings.Contains(line, `"after":1`) || !json.Valid([]byte(line)) {
		t.Errorf("logged %s", line)
	}
}

type panics struct{ s string }

func (p *panics) Error() string { return p.s }

func FuzzLinesAreValidAndHoldNoSecret(f *testing.F) {
	for _, s := range forgeries {
		f.Add(s, "key", s)
	}
	secrets := knowing("hunter2-hunter2")
	f.Fuzz(func(t *testing.T, message, key, value string) {
		checkLine(t, message, key, value)
		line := record(logs.Options{Secrets: secrets}, func(l *slog.Logger) {
			l.Info(message+"hunter2-hunter2"+value, key, value+"hunter2-hunter2")
		})
		if strings.Contains(line, "hunter2-hunter2") {
			t.Fatalf("the secret is in %q", line)
		}
	})
}
