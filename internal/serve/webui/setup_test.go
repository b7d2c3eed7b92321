package webui_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// setup is the state of the setup, and what the page asked for.
type setup struct {
	state object
	// calls are the paths that the page posted to; saved are the answers that it saved.
	calls []string
	saved []object
}

// begin makes a server whose demo model answers.
func (f *fake) begin(said string) {
	f.set(func() {
		f.setup.state = object{
			"fresh": true, "model": "demo", "why": "no key", "demo": true, "file": "/home/you/.lilac/config.yaml" + said, "canRestart": true, "undo": true, "portal": "https://discord.example/portal",
			"providers": []object{
				{"name": "anthropic", "title": "Anthropic (Claude)", "key": "https://keys.example/new", "model": "claude-x"},
				{"name": "ollama", "title": "Ollama (on this machine)", "baseURL": "http://127.0.0.1:11434/v1"},
				{"name": "custom", "title": "Other " + said},
				{"name": "demo", "title": "Demo"},
			},
			"templates": []object{
				{"name": "ci", "title": "CI failed", "conversation": "CI", "prompt": "CI failed. " + said, "after": "Add the webhook on GitHub. " + said},
				{"name": "weekdays", "title": "Every weekday at nine", "conversation": "Morning", "prompt": "Good morning!"},
				{"name": "file", "title": "A file changed", "conversation": "Files", "prompt": "It changed."},
			},
		}
	})
}

func (f *fake) setupRoutes(api func(string, func(http.ResponseWriter, *http.Request) any)) {
	api("GET /setup", func(w http.ResponseWriter, _ *http.Request) any {
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.setup.state == nil {
			refuse(w, http.StatusServiceUnavailable, "unavailable", "This server cannot change its configuration.")
			return nil
		}
		return f.setup.state
	})
	post := func(path string, answer func(w http.ResponseWriter, in object) any) {
		api("POST "+path, func(w http.ResponseWriter, r *http.Request) any {
			var in object
			_ = json.NewDecoder(r.Body).Decode(&in)
			f.set(func() { f.setup.calls = append(f.setup.calls, path) })
			return answer(w, in)
		})
	}
	change := object{
		"diff":    []object{{"op": "@", "text": ""}, {"op": " ", "text": "# Ours."}, {"op": "-", "text": "model: demo"}, {"op": "+", "text": "model: anthropic/claude-x"}},
		"secrets": []string{"ANTHROPIC_API_KEY"}, "restart": []string{"surface.discord"}, "warnings": []string{"LILAC_MODEL is set where Lilac was started, and overrides model of the file."}, "saved": false,
	}
	post("/setup/preview", func(http.ResponseWriter, object) any { return change })
	post("/setup", func(_ http.ResponseWriter, in object) any {
		f.set(func() { f.setup.saved = append(f.setup.saved, in) })
		return change
	})
	post("/setup/undo", func(http.ResponseWriter, object) any {
		f.set(func() { f.setup.state["undo"] = false })
		return change
	})
	post("/setup/models", func(http.ResponseWriter, object) any { return object{"models": []string{"claude-x", "claude-y"}} })
	post("/setup/test/model", func(w http.ResponseWriter, in object) any {
		if in["key"] == "" {
			w.WriteHeader(http.StatusBadRequest)
			return object{"error": object{"kind": "invalid", "message": "Enter the API key.", "field": "key"}}
		}
		return object{"model": "anthropic/claude-x", "ok": false, "checks": []object{
			{"status": "ok", "text": "answered after 8 ms"}, {"status": "failed", "text": "the model did not call the tool"}, {"status": "absent", "text": "no thinking"},
		}}
	})
	post("/setup/test/discord", func(http.ResponseWriter, object) any {
		return object{
			"bot": "lilac", "invite": "https://discord.example/invite", "checks": []object{{"status": "failed", "text": "the bot cannot read messages", "do": "Open https://discord.example/bot and turn it on."}},
			"servers": []object{{"id": "1", "name": "Home", "channels": []object{{"id": "2", "name": "general", "listens": true}, {"id": "3", "name": "secret", "missing": "The bot may not write there."}}}},
		}
	})
	post("/setup/test/rule", func(w http.ResponseWriter, in object) any {
		if in["template"] == "file" && in["directory"] == "" {
			refuse(w, http.StatusBadRequest, "invalid", "Enter the directory to watch.")
			return nil
		}
		return object{"rule": fmt.Sprint(in["template"], "-rule"), "does": "agent", "session": "title:CI", "prompt": fmt.Sprint(in["prompt"]), "rate": "6/1h0m0s"}
	})
}

const modelForm = "[data-step=model] form"

func TestAStepIsTestedShownAndSaved(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.begin("")
	p := webuitest.Open(t, f.url("#/setup"), 1100, 900)
	p.Click(modelForm + " > .actions .pill")
	p.Until("what is missing is said, and has the focus", "document.querySelector('[data-step=model] .notice.bad')?.innerText === 'Enter the API key.' && document.activeElement.name === 'key' && document.activeElement.ariaInvalid === 'true'")
	p.Do(chromedp.SendKeys(modelForm+" [name=key]", "sk-1"))
	p.Click(modelForm + " > .actions .pill")
	p.Until("each result is shown", "[...document.querySelectorAll('[data-step=model] .checks li')].map(e => e.dataset.status).join() === 'ok,failed,absent'")
	p.Picture("setup-failed", false)
	p.Click(modelForm + " .text")
	p.Until("the models are offered", "document.querySelectorAll('#setup-models option').length === 2")
	p.Click(modelForm + " > .actions .strong")
	p.Until("the difference is shown, and the focus is on what writes it", "document.querySelectorAll('.diff [data-op]').length === 4 && document.activeElement.innerText === 'Write the file'")
	p.Picture("setup-change", true)
	f.mu.Lock()
	if n := len(f.setup.saved); n != 0 {
		t.Errorf("%d answers were saved before they were confirmed", n)
	}
	f.mu.Unlock()
	p.Press("Enter")
	p.Until("what comes next is offered", "document.querySelector('.restart button')?.innerText === 'Restart now'")
	f.mu.Lock()
	got := fmt.Sprint(f.setup.saved)
	f.mu.Unlock()
	if want := "[map[model:map[baseURL: key:sk-1 model:claude-x provider:anthropic]]]"; got != want {
		t.Errorf("saved %s, want %s", got, want)
	}
	p.Click(".after .pill")
	p.Until("nothing is left to undo", "document.querySelector('.setup .after') && !document.querySelector('.after .pill')")
}

func TestWhatIsTypedInOtherStepsStaysWhenOneIsSaved(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.begin("")
	p := webuitest.Open(t, f.url("#/setup"), 1100, 900)
	p.Do(chromedp.SendKeys("[data-step=rule] [name=conversation]", " and more"))
	p.Do(chromedp.SendKeys(modelForm+" [name=key]", "sk-1"))
	p.Click(modelForm + " > .actions .strong")
	p.Click(modelForm + " .outcome .strong")
	p.Until("it is saved", "[...document.querySelectorAll('[data-step=model] .outcome .pill')].some(e => e.innerText === 'Continue')")
	f.set(func() { f.setup.state["model"], f.setup.state["demo"] = "anthropic/claude-x", false })
	p.Click(modelForm + " .outcome > .pill")
	p.Until("the saved step is drawn anew", "document.querySelector('[data-step=model] .badge')?.innerText === 'anthropic/claude-x' && document.querySelector('[data-step=model] [name=key]').value === ''")
	p.Until("the changed one stays", "document.querySelector('[data-step=rule] [name=conversation]').value === 'CI and more' && document.querySelectorAll('.step').length === 3")
}

func TestDiscordServersAndRulesAreChosen(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.begin("")
	p := webuitest.Open(t, f.url("#/setup"), 1100, 900)
	p.Click("[data-step=discord] form > .actions .pill")
	p.Until("the channel that it listens in is selected", "document.querySelector('.places input[value=\"2\"]')?.checked")
	p.Until("how to fix it has a link", "document.querySelector('[data-step=discord] .checks .do a')?.href === 'https://discord.example/bot'")
	p.Click(".places input[data-kind=server]")
	p.Until("its channels belong to the server", "[...document.querySelectorAll('.channels input')].every(e => e.disabled)")
	p.Click("[data-step=discord] form > .actions .strong")
	p.Click("[data-step=discord] .outcome .strong")
	f.until("it is saved", func() bool { return len(f.setup.saved) == 1 })
	p.Until("the rule's dry run is shown", "document.querySelector('.trial')?.innerText.includes('ci-rule')")
	p.Click("[data-step=rule] input[value=file]")
	p.Until("what is missing is said", "document.querySelector('.trial').innerText.includes('Enter the directory')")
	p.Do(chromedp.SendKeys("[data-step=rule] [name=directory]", "~/in"))
	p.Until("the dry run follows", "document.querySelector('.trial').innerText.includes('file-rule')")
	f.mu.Lock()
	defer f.mu.Unlock()
	if got, want := fmt.Sprint(f.setup.saved), "[map[discord:map[channels:[] servers:[1] token:]]]"; got != want {
		t.Errorf("saved %s, want %s", got, want)
	}
}

func TestConfigurationThatIsManagedFromOutsideIsOnlyShown(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.begin("")
	f.set(func() { f.setup.state["readOnly"], f.setup.state["undo"] = "The file is managed from outside.", false })
	p := webuitest.Open(t, f.url("#/"), 1100, 900)
	p.Click(".welcome a")
	p.Until("it says so", "document.querySelector('.setup > .notice')?.innerText.startsWith('The file is managed from outside.')")
	p.Do(chromedp.SendKeys(modelForm+" [name=key]", "sk-1"))
	p.Click(modelForm + " > .actions .strong")
	p.Until("the change is shown", "document.querySelector('[data-step=model] .diff')")
	p.Until("it cannot be written", "!document.querySelector('[data-step=model] .outcome .strong')")
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Contains(f.setup.calls, "/setup") {
		t.Error("it was saved")
	}
}

// What is wrong with the configuration is shown on every page until it is corrected.
func TestAMistakeInTheConfigurationIsShownOnEveryPage(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := furnished(t, "", "#/rules", 360, 700)
	p.Until("nothing is wrong", "document.getElementById('warned').hidden && document.querySelector('.card')")
	f.set(func() {
		f.views.parts = []object{{"name": "configuration", "status": "warning", "message": `a probable mistake in line 3 of the configuration file: unknown key "modle" is ignored, did you mean "model"?`}}
	})
	p.Do(chromedp.Reload())
	p.Until("it is said", "document.getElementById('warned').innerText.includes('modle')")
	p.To("#/")
	p.Until("on the next page too", "document.querySelector('.welcome h2') && document.getElementById('warned').checkVisibility()")
	p.Picture("small-warned", false)
	f.set(func() { f.views.parts = nil })
	p.Do(chromedp.Evaluate[chromedp.Void]("dispatchEvent(new Event('lilac-configured'))"))
	p.Until("it is gone", "document.getElementById('warned').hidden")
}

func TestASettingIsFoundByItsMeaningAndChanged(t *testing.T) {
	t.Parallel()
	f, p := furnished(t, "", "#/settings?find=spending", 1100, 800)
	f.set(func() {
		f.views.settings = append(f.views.settings,
			object{"key": "limits.request.steps", "value": "50", "source": "the file", "doc": "Steps.", "kind": "number", "live": true},
			object{"key": "limits.timeZone", "value": "UTC", "source": "LILAC_ZONE", "kind": "text"})
	})
	p.Do(chromedp.Reload())
	p.Until("it is found by its meaning", "document.querySelector('[data-setting=\"limits.request.steps\"]') && !document.querySelector('[data-setting=addr]')")
	p.Until("one that the environment sets cannot be changed", "!document.querySelector('[data-setting=\"limits.timeZone\"] button') && document.querySelector('[data-setting=\"limits.timeZone\"]').innerText.includes('change it there: LILAC_ZONE')")
	p.Click("[data-setting='limits.request.steps'] button")
	p.Until("the field has the focus", "document.activeElement.name === 'value' && document.activeElement.value === '50'")
	p.Do(chromedp.SendKeys(".edit [name=value]", "0"))
	p.Press("Enter")
	p.Until("the difference is shown", "document.querySelector('.edit .diff')")
	p.Picture("setting-change", false)
	p.Click(".edit .outcome .strong")
	f.until("it is saved", func() bool { return len(f.setup.saved) == 1 })
	f.mu.Lock()
	defer f.mu.Unlock()
	if got, want := fmt.Sprint(f.setup.saved), "[map[settings:[map[key:limits.request.steps value:500]]]]"; got != want {
		t.Errorf("saved %s, want %s", got, want)
	}
}
