package config_test

import (
	"strings"
	"testing"

	"lilac/internal/operate/config"
)

func TestWebhooksOfTheFile(t *testing.T) {
	c, _, err := loadRules(t, `
webhooks:
  ci: {secret: 0123456789abcdef}
  billing: {form: standard, secret: whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw, maxBytes: 64KiB, queue: 5, bodyOnce: true}
`)
	if err != nil {
		t.Fatal(err)
	}
	hooks, err := c.Hooks()
	if err != nil || hooks["ci"].Form != "github" || hooks["ci"].MaxBytes != 1<<20 || hooks["ci"].Queue != 1000 {
		t.Errorf("%+v, %v", hooks["ci"], err)
	}
	if b := hooks["billing"]; b.MaxBytes != 64<<10 || b.Queue != 5 || !b.BodyOnce {
		t.Errorf("%+v", b)
	}
	if out, err := c.JSON(); err != nil || strings.Contains(string(out), "0123456789abcdef") {
		t.Errorf("the secret is printed: %s, %v", out, err)
	}
	if !config.Live("webhooks.ci.secret") {
		t.Error("a new webhook needs a restart")
	}
}

func TestWebhooksWithMistakes(t *testing.T) {
	for text, want := range map[string]string{
		"webhooks:\n  ci: {}\n":                                          ":2:3: The webhook ci has no secret",
		"webhooks:\n  ci:\n    form: github\n":                           ":2:3: The webhook ci has no secret",
		"webhooks:\n  ci:\n    secret: ${CI_SECRET}\n":                   ":3:13: the environment variable CI_SECRET is not set",
		"webhooks:\n  ci:\n    secret: short\n":                          ":3:5: The secret of the webhook ci is too short",
		"webhooks:\n  ci:\n    form: x\n    secret: long-enough-it-is\n": ":3:5: The webhook ci has the unknown form",
		"webhooks:\n  a/b: {secret: long-enough-it-is}\n":                ":2:3: \"a/b\" is not a name",
	} {
		if _, file, err := loadRules(t, text); err == nil || !strings.HasPrefix(err.Error(), file+want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
