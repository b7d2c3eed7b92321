package e2e_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/discordtest"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
	"lilac/internal/testkit/webuitest"
)

// trialModel passes the test of a model, and answers everything else.
func trialModel(r llmtest.Request) llmtest.Script {
	switch {
	case !slices.Contains(r.Tools, "look_up_word"):
		return llmtest.Say("Here is your real model.")
	case slices.ContainsFunc(r.Messages, func(m llmtest.Message) bool { return len(m.Results) > 0 }):
		return llmtest.Say("lilac-7341")
	}
	return llmtest.Script{Calls: []llmtest.Call{{ID: "c1", Name: "look_up_word", Input: `{"key":"garden"}`}}}
}

// in fills a field of a step of the setup.
func in(p *webuitest.Tab, step, field, value string) {
	p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`(() => {
		const field = document.querySelector('[data-step=%s] [name=%s]');
		field.value = %q;
		field.dispatchEvent(new Event('input', { bubbles: true }));
		field.dispatchEvent(new Event('change', { bubbles: true }));
	})()`, step, field, value)))
}

// says waits until a step of the setup shows a text.
func says(p *webuitest.Tab, step, text string) {
	p.Until(step+" says "+text, fmt.Sprintf("document.querySelector('[data-step=%s] .outcome')?.innerText.includes(%q)", step, text))
}

// write saves a step of the setup.
func write(p *webuitest.Tab, step string) {
	p.Click("[data-step=" + step + "] form > .actions .strong")
	p.Click("[data-step=" + step + "] .outcome .strong")
	says(p, step, "Saved")
}

// A new operator continues from the demo on the page alone: a model, Discord, and a rule.
func TestSetupOnThePage(t *testing.T) {
	t.Parallel()
	const key = "sk-the-secret-key"
	model := llmtest.New(t, trialModel, func(o *llmtest.Options) { o.AllowChanges = true })
	discord := discordtest.New(t, discordtest.Options{})
	guild := discord.Guild("Workshop", discord.User("owner"))
	discord.Channel(guild, "general")
	file := filepath.Join(t.TempDir(), "config.yaml")
	given := fmt.Sprintf("# Our Lilac.\nsurface:\n  discord:\n    apiURL: %s # a fake\n    gatewayURL: %s\n", discord.APIURL, discord.GatewayURL)
	if err := os.WriteFile(file, []byte(given), 0o600); err != nil {
		t.Fatal(err)
	}
	s := e2e.Start(t, "LILAC_CONFIG="+file)
	p := loginTo(t, s)
	p.Picture("welcome", false)
	p.Click(".welcome a")

	p.Until("it is the demo model", "document.querySelector('.answers')?.innerText.startsWith('The demo model answers now')")
	p.Until("a dry run stands beside the rule", "document.querySelector('.trial')?.innerText.includes('ci-failed')")
	p.Picture("setup", false)
	in(p, "model", "provider", "custom")
	in(p, "model", "baseURL", "http://127.0.0.1:1/v1")
	in(p, "model", "key", key)
	in(p, "model", "model", "test-model")
	p.Click("[data-step=model] form > .actions .pill")
	says(p, "model", "does not work yet")
	in(p, "model", "baseURL", model.URL+"/v1")
	p.Click("[data-step=model] form > .actions .pill")
	says(p, "model", "local/test-model works.")
	p.Picture("setup-tested", false)
	p.Click("[data-step=model] form > .actions .strong")
	says(p, "model", "+ model: local/test-model")
	p.Picture("setup-diff", true)
	write(p, "model")
	p.Click("[data-step=model] .outcome > .pill")
	p.Until("the model answers", "document.querySelector('.answers')?.innerText === 'local/test-model answers now.'")

	in(p, "discord", "token", discordtest.DefaultToken)
	p.Click("[data-step=discord] form > .actions .pill")
	says(p, "discord", "The bot can read the content of messages")
	p.Until("it has an invite link", "document.querySelector('[data-step=discord] .outcome a[href*=\"oauth2/authorize?client_id=\"]')")
	p.Click(fmt.Sprintf(".places input[value='%s']", guild))
	p.Picture("setup-discord", false)
	write(p, "discord")
	p.Click("[data-step=discord] .restart button")
	p.Until("the bot is set up", "document.querySelector('[data-step=discord] .badge')?.innerText === 'token set'")
	e2e.Eventually(t, answerWithin, "the bot is connected", func() bool {
		var ready struct {
			Parts []struct{ Name, Status string }
		}
		return s.Request("GET", "/readyz", nil, &ready) == 200 && slices.ContainsFunc(ready.Parts, func(part struct{ Name, Status string }) bool {
			return part.Name == "discord" && part.Status == "ok"
		})
	})

	p.Click("[data-step=rule] input[value=weekdays]")
	in(p, "rule", "time", "08:30")
	p.Until("the dry run is of that rule", "document.querySelector('.trial').innerText.includes('every-weekday')")
	write(p, "rule")

	text, old, secrets := read(t, file), read(t, file+".old"), read(t, filepath.Join(s.Dir, "data", "secrets"))
	for _, want := range []string{"# Our Lilac.", "# a fake", "model: local/test-model", "cron: 30 8 * * 1-5", "${LOCAL_API_KEY}", "${DISCORD_TOKEN}"} {
		if !strings.Contains(text, want) {
			t.Errorf("the file does not contain %q:\n%s", want, text)
		}
	}
	if strings.Contains(text, key) || strings.Contains(s.Log(), key) || strings.Contains(webuitest.Eval[string](p, "document.body.innerHTML"), key) || !strings.Contains(secrets, key) {
		t.Errorf("the key is not only in the file of secrets")
	}
	if strings.Contains(old, "cron") || !strings.Contains(old, "${DISCORD_TOKEN}") {
		t.Errorf("the old file is\n%s", old)
	}
	p.To("#/")
	p.Say("Who are you?")
	p.Until("the real model answers", "document.querySelector('#transcript .answer')?.innerText.includes('Here is your real model.')")
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Error(err)
	}
	return cmp.Or(string(data), "(nothing)")
}
