package webui_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

func TestSearchLeadsToTheMessageAndBack(t *testing.T) {
	t.Parallel()
	_, p := furnished(t, "", "", 1100, 760)
	p.Do(chromedp.Focus("#search input"), chromedp.SendKeys("#search input", "meadow"))
	p.Until("what was found is told", "document.querySelector('.view [role=status]')?.innerText === '1 message'")
	p.Until("the words are marked", "document.querySelector('.result mark')?.innerText === 'meadow'")
	p.Picture("search", false)
	p.Do(chromedp.SendKeys("#search input", "xyz"))
	p.Until("nothing is found and it says what to do", "document.querySelector('.view').innerText.includes('No results for “meadowxyz”')")
	p.Do(chromedp.SendKeys("#search input", kb.Backspace+kb.Backspace+kb.Backspace))
	p.Until("it is found again", "document.querySelector('.result')")
	p.Until("a reload would find it", "location.hash === '#/search?q=meadow'")
	p.Click(".result")
	p.Until("the message has the focus", "document.activeElement.dataset.message === 'a1' && document.activeElement.classList.contains('pointed')")
	p.Until("its address names it", "location.hash === '#/s/s1/m/a1'")
	p.Do(chromedp.Evaluate[chromedp.Void]("history.back()"))
	p.Until("back are the results", "document.querySelector('.result') && !document.getElementById('view').hidden")
	p.To("#/s/s1/m/nowhere")
	p.Until("a message that is gone is said to be", "document.getElementById('problem').innerText.includes('no longer in the conversation')")
}

// On a phone, the list covers the search results until the user completes the query with Enter.
func TestASearchOnAPhoneShowsWhatItFound(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	_, p := furnished(t, "", "", 360, 720)
	p.Click("#side-open")
	p.Click("#search input")
	p.Do(chromedp.SendKeys("#search input", "meadow"))
	p.Press("Enter")
	p.Until("what was found can be seen", "document.querySelector('.result mark') && !document.getElementById('side').checkVisibility({ checkVisibilityCSS: true })")
	p.Click(".result")
	p.Until("and leads to the message", "document.activeElement.dataset.message === 'a1'")
	p.Click("#side-open")
	p.Do(chromedp.Focus("#views li:last-child a"))
	p.Press("Tab")
	p.Until("the keyboard does not go behind the list", "!document.activeElement.closest('#main')")
	p.Do(chromedp.EmulateViewport(1100, 720))
	p.Until("on a wide screen everything can be used again", "!document.getElementById('main').inert && document.getElementById('shade').hidden")
}

func TestAConversationIsRenamed(t *testing.T) {
	t.Parallel()
	_, p := talk(t)
	p.Until("it can be renamed", "!document.getElementById('rename').hidden && document.querySelector('#list a')")
	p.Click("#rename")
	p.Until("it asks with the old name", "document.getElementById('ask').open && document.getElementById('ask-field').value === 'Talk'")
	p.Do(chromedp.SendKeys("#ask-field", kb.Backspace+"New name"))
	p.Press("Enter")
	p.Shows("#title", "New name")
	p.Shows("#list .name", "New name")
	p.Until("the tooltips have it whole", "['#title', '#list a'].every(e => document.querySelector(e).title === 'New name')")
	p.Do(chromedp.Focus("#list a"), chromedp.KeyEvent(kb.F2))
	p.Until("F2 asks too", "document.getElementById('ask').open")
	p.Do(chromedp.KeyEvent(kb.Escape))
	p.Until("Escape keeps it", "!document.getElementById('ask').open && document.getElementById('title').innerText === 'New name'")
}

func TestTheModelOfAConversationIsChosen(t *testing.T) {
	t.Parallel()
	f, p := talk(t)
	p.Until("it can be chosen", "!document.getElementById('model').hidden && document.getElementById('model').innerText === 'Model'")
	p.Click("#model")
	p.Until("the picker offers the models", "document.getElementById('ask').open && document.getElementById('ask-models').children.length === 2 && document.getElementById('ask-model').placeholder === 'p/usual'")
	p.Do(chromedp.SendKeys("#ask-model", "p/other"), chromedp.SetValue("#ask-effort", "high"), chromedp.SetValue("#ask-agent", "reviewer"), chromedp.SetValue("#ask-workspace", "shared"), chromedp.SetValue("#ask-instructions", "Be brief."))
	p.Picture("model", false)
	p.Click("#ask-yes")
	p.Shows("#model", "Model: other")
	var chosen [5]any
	f.set(func() {
		for i, key := range []string{"model", "effort", "agent", "instructions", "workspace"} {
			chosen[i] = f.sessions[0][key]
		}
	})
	if want := [5]any{"p/other", "high", "reviewer", "Be brief.", "shared"}; chosen != want {
		t.Errorf("the server has %v, want %v", chosen, want)
	}
	p.Click("#model")
	p.Until("it opens with the choice", "document.getElementById('ask').open && document.getElementById('ask-model').value === 'p/other'")
	p.Do(chromedp.KeyEvent(kb.Escape))
	p.Until("Escape keeps it", "!document.getElementById('ask').open && document.getElementById('model').innerText === 'Model: other'")
}

func TestRequestHasATimeline(t *testing.T) {
	t.Parallel()
	_, p := furnished(t, "", "#/requests", 1100, 900)
	p.Until("the requests are listed", "document.querySelectorAll('.card').length === 2")
	p.Until("how they ended is told", "document.querySelector('.card .badge').innerText === 'failed' && document.querySelector('.card .bad').innerText.includes('overloaded')")
	p.Until("two of one conversation are told apart", "[...document.querySelectorAll('.card .asked')].map((e) => e.innerText.trim()).join('|') === 'And in winter?|Where do dandelions grow?'")
	p.Picture("requests", false)
	p.Click(`[data-request="web:s1:m0"]`)
	p.Until("there is a timeline", "document.querySelectorAll('.timeline > li').length === 11")
	for _, words := range []string{
		"Triggered by a message", "Where do dandelions grow?", "The provider is overloaded. Retried after 500 ms.", "Model calls bash",
		"Resumed after a restart", "recovery 1", "Steered by a message", "Model answers", "something_new", "Done",
		"2,310 tokens (1,800 from the cache, 78%)", "$0.0084", "anthropic/claude-sonnet-4-5",
	} {
		p.Until("it tells "+words, fmt.Sprintf("document.querySelector('.story').innerText.includes(%q)", words))
	}
	p.Click(`[data-kind=tool_start] [data-key="6i"] summary`)
	p.Until("the tool's input is there", `document.querySelector('[data-key="6i"] pre').innerText.includes('grep -n dandelion notes.txt')`)
	p.Click(`[data-kind=tool_start] [data-key="6o"] summary`)
	p.Until("and its output", `document.querySelector('[data-key="6o"] pre').innerText.includes('in the meadow')`)
	p.Do(chromedp.Evaluate[chromedp.Void]("document.querySelectorAll('.story details').forEach(e => { e.open = e.dataset.key === '6o' })"))
	p.Do(chromedp.Evaluate[chromedp.Void]("document.getElementById('view').scrollTop = 0"))
	p.Picture("timeline", false)
	p.Picture("timeline-dark", true)
	p.Do(chromedp.Reload())
	p.Until("a reload keeps the place", "document.querySelectorAll('.timeline > li').length === 11")
	p.Click(".story-top a")
	p.Until("it leads to the message that woke it", "document.activeElement.dataset.message === 'm0'")
	p.Click(`[data-request="web:s1:m0"] .about a`)
	p.Until("and from there back", "location.hash === '#/requests/' + encodeURIComponent('web:s1:m0')")
	p.To("#/requests/none")
	p.Until("a request that is not there is said not to be", "document.getElementById('view').innerText.includes('This request does not exist.')")
}

func TestDamagedRowHidesNothingElse(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := furnished(t, "", "#/requests", 1100, 900)
	const why = "The row bad is damaged and was not used. Restore the database from a backup."
	for view, add := range map[string]func(){
		"requests": func() {
			f.requests = append(f.requests, object{"id": "bad", "sessionId": "", "client": "", "state": "damaged", "createdAt": 0, "steps": 0, "usage": object{}, "detail": why})
		},
		"tasks": func() {
			f.views.tasks = append(f.views.tasks, object{
				"id": "bad", "sessionId": "", "requestId": "", "client": "", "kind": "", "description": "", "state": "damaged", "createdAt": 0, "deadline": 0, "reason": why,
			})
		},
		"workflows": func() {
			f.views.workflows = append(f.views.workflows, object{
				"id": "bad", "state": "damaged", "summary": "", "detail": why, "completion": "", "origin": object{"requestId": "", "sessionId": "", "client": ""},
				"resumeTarget": object{"sessionId": "", "client": ""}, "tasks": nil, "resumes": 0, "createdAt": 0,
			})
		},
	} {
		p.To("#/" + view)
		p.Until("the "+view+" are listed", "document.querySelectorAll('.card').length === 2")
		f.set(add)
		p.Do(chromedp.Reload())
		p.Until("the other "+view+" are listed", "document.querySelectorAll('.card').length === 3")
		const card = `document.querySelector('[data-key=bad]').innerText`
		p.Until("it is said to be damaged", card+".includes('nreadable') && "+card+".includes('Restore the database')")
		p.Until("nothing else is made up", "!/1970|Not started|Not created|for |task|·/.test("+card+")")
		p.Picture(view+"-damaged", false)
	}
}

func TestDamagedMessageIsShownInPlace(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := furnished(t, "", "#/requests", 1100, 900)
	const why = "The row s1/2 of the table history is damaged and was not used. Restore the database from a backup."
	f.set(func() {
		damaged := object{"id": "bad", "requestId": "web:s1:m0", "createdAt": 0, "role": "system", "content": why, "damaged": true}
		f.messages = slices.Insert(f.messages, 1, damaged)
		story := f.views.stories["web:s1:m0"]
		story["entries"] = slices.Insert(story["entries"].([]object), 4, object{"seq": 20, "at": 0, "step": 0, "kind": "damaged", "detail": why})
	})
	p.To("#/s/s1")
	p.Until("it is said to be damaged", "[...document.querySelectorAll('.note')].some((n) => n.innerText.includes('Restore the database'))")
	p.Until("the others are shown", "document.querySelectorAll('.bubble').length > 0")
	p.Until("nobody is said to have said it", "!document.body.innerText.includes('System note')")
	p.Picture("conversation-damaged", false)
	p.To("#/requests/web%3As1%3Am0")
	const item = "(document.querySelector('[data-kind=damaged]')?.innerText ?? '')"
	p.Until("a damaged record is named in the story", item+".includes('nreadable') && "+item+".includes('Restore the database')")
	p.Until("no time is made up", "!/1970|[+]/.test("+item+")")
	p.Until("the story goes on", "document.querySelector('[data-kind=damaged]').nextElementSibling !== null")
	p.Picture("story-damaged", false)
}

// Times use the format of the browser's language. They contain the year if it is not the current one.
func TestTimesAreCompleteInEveryLanguage(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	_, p := talk(t)
	for language, want := range map[string]string{
		"en-US": "14:05|14:05:06.078|Nov 22, 2023",
		"fr-CA": "14 h 05|14 h 05 min 06,078 s|22 nov. 2023",
		"ar-EG": "١٤:٠٥|١٤:٠٥:٠٦٫٠٧٨|٢٢\u200f/١١\u200f/٢٠٢٣",
	} {
		p.Do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetLocaleOverride, emulation.SetLocaleOverrideParams{Locale: language})
			return err
		}))
		p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(`
			void import('/assets/format.js?in=%s').then(({ when, clock }) => {
				const today = new Date().setHours(14, 5, 6, 78);
				window.told = [when(today), clock(today), when(new Date(2023, 10, 22, 14))].join('|').replaceAll(/\s/g, ' ');
			})`, language)))
		p.Until(language+" is written "+want, fmt.Sprintf("window.told === %q", want))
	}
}

// A view that could not be loaded while the server was unreachable is loaded when the server is back, and
// the error message disappears.
func TestAViewThatCouldNotBeLoadedIsLoadedWhenTheServerIsBack(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := furnished(t, "", "#/health", 1100, 760)
	f.streaming()
	f.down()
	p.Shows("#link", "reconnecting…")
	for _, v := range everyView {
		if !slices.Contains([]string{"settings", "requests", "timeline", "dead", "dead-letter"}, v.name) {
			continue
		}
		p.To(v.hash)
		p.Shows("#view-problem", "Cannot reach Lilac. Check that it is running.")
		f.up()
		p.Until(v.name+" is drawn", v.drawn)
		p.Until("nothing is wrong any more", "document.getElementById('link').innerText === '' && document.getElementById('view-problem').hidden")
		f.down()
		p.Shows("#link", "reconnecting…")
	}
}

// A view that refreshes itself keeps the keyboard focus and the open folds.
func TestRefreshKeepsTheFocus(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	for _, c := range []struct {
		name, hash, drawn, held string
		change                  func(f *fake)
		changed                 string
	}{
		{"tasks", "#/tasks", "document.querySelectorAll('.card').length === 2", "[data-task=t2]", func(f *fake) {
			f.set(func() { f.views.tasks[0]["description"] = "all of it" })
		}, "document.querySelector('[data-task=t2]').innerText.includes('all of it')"},
		{"task", "#/tasks/t2", "document.querySelector('.story a')", ".story a", func(f *fake) {
			f.set(func() { f.views.tasks[0]["description"] = "all of it" })
		}, "document.querySelector('.story h2').innerText.includes('all of it')"},
		{"requests", "#/requests", "document.querySelectorAll('.card').length === 2", `[data-request="web:s1:m0"]`, func(f *fake) {
			f.set(func() {
				f.requests = append([]object{{"id": "web:s1:m7", "sessionId": "s1", "state": "running", "usage": object{}}}, f.requests...)
			})
			f.emit("stream.start", object{"requestId": "web:s1:m7"})
		}, "document.querySelectorAll('.card').length === 3"},
		{"timeline", "#/requests/web:s1:m0", "document.querySelectorAll('.timeline > li').length === 11", `[data-key="6i"] summary`, func(f *fake) {
			f.set(func() { f.views.stories["web:s1:m0"]["steps"] = 77 })
			f.emit("stream.tool_call", object{"requestId": "web:s1:m0"})
		}, "document.querySelector('.story .figures').innerText.includes('77')"},
		{"rules", "#/rules", "document.querySelectorAll('[data-rule].card').length === 4", "[data-rule=ci-failed] summary", func(f *fake) {
			f.set(func() { f.views.rules[0]["used"] = object{"runs": 4, "tokens": 50100, "costMicros": 140000} })
			f.emit("webhook.received", object{"body": object{}})
		}, "document.getElementById('view').innerText.includes('50,100')"},
		{"workflows", "#/workflows", "document.querySelectorAll('[data-workflow]').length === 2", "[data-workflow=w2]", func(f *fake) {
			f.set(func() { f.views.workflows[1]["summary"] = "Something else." })
		}, "document.querySelector('[data-workflow=w2]').innerText.includes('Something else.')"},
		{"workflow", "#/workflows/w1", "document.querySelectorAll('[data-task]').length === 2", ".actions .danger", func(f *fake) {
			f.set(func() { f.views.workflows[0]["summary"] = "Something else." })
		}, "document.querySelector('.workflow').innerText.includes('Something else.')"},
		{"health", "#/health", "document.querySelector('[data-drop]')", "[data-drop]", func(f *fake) {
			f.set(func() { f.views.groups[1]["backlog"] = 1234 })
		}, "document.querySelector('.health').innerText.includes('1,234')"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			f, p := furnished(t, "", c.hash, 1100, 760)
			f.streaming()
			p.Until("it is drawn", c.drawn)
			p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.querySelector(%q).focus()", c.held)))
			p.Do(chromedp.Evaluate[chromedp.Void]("document.activeElement.closest('details')?.setAttribute('open', '')"))
			c.change(f)
			p.Until("it changes", c.changed)
			p.Until("the keyboard is where it was", fmt.Sprintf("document.activeElement === document.querySelector(%q)", c.held))
			p.Until("what was opened is open", "document.activeElement.closest('details')?.open ?? true")
		})
	}
}

func TestHealthShowsComponentsServerAndConsumers(t *testing.T) {
	t.Parallel()
	f, p := furnished(t, "", "#/health", 1100, 760)
	p.Shows(".state h2", "Lilac is ready.")
	for _, words := range []string{"database", "900 MiB free", "warning", "v1.2.3", "26 h 3 min", "environment", "no consumer", "2 h 0 min", "two/22", "standby", "tickets", "3 failures · it ended with exit code 1; its last words: <b>no</b>"} {
		p.Until("it tells "+words, fmt.Sprintf("document.querySelector('.health').innerText.includes(%q)", words))
	}
	p.Picture("health", false)
	f.set(func() {
		f.views.notReady = object{"status": "not_ready", "parts": []object{{"name": "runner", "status": "failed", "message": "It takes no work."}}, "error": object{"message": "The runner takes no work."}}
	})
	p.Shows(".state.bad h2", "The runner takes no work.")
	p.Until("the part that fails is named", "document.querySelector('.parts li').innerText.includes('It takes no work.')")
}

func TestOnlyAnUnusedGroupIsDroppedAfterAConfirmation(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := furnished(t, "& / ü", "#/health", 1100, 760)
	p.Until("one of the two can be dropped", "document.querySelectorAll('[data-drop]').length === 1")
	p.Click("[data-drop]")
	p.Until("it asks", "document.getElementById('ask').open && document.getElementById('ask-text').textContent.includes('1,200 events')")
	p.Click("#ask-no")
	p.Until("nothing happened", "!document.getElementById('ask').open && document.querySelectorAll('[data-drop]').length === 1")
	p.Click("[data-drop]")
	p.Do(chromedp.WaitVisible("#ask"))
	p.Click("#ask-yes")
	p.Until("it is gone", "document.querySelector('.table') && !document.querySelector('[data-drop]')")
	f.mu.Lock()
	defer f.mu.Unlock()
	if !slices.Equal(f.views.left, []string{"cmd.request old & / ü"}) {
		t.Errorf("dropped %q", f.views.left)
	}
}

// Strangers wait on the Health view until the operator decides, and only as long as their codes are valid.
func TestStrangersAreApprovedAndRefused(t *testing.T) {
	t.Parallel()
	f, p := furnished(t, "", "#/health", 1100, 760)
	p.Until("those who wait are listed", "[...document.querySelectorAll('.strangers li b')].map(e => e.innerText).join() === 'ABCD-EFGH,JKLM-NPQR'")
	p.Picture("strangers", false)
	p.Click("[aria-label='Approve ABCD-EFGH of ann']")
	p.Until("it asks", "document.getElementById('ask').open && document.getElementById('ask-text').textContent.includes('1575198526348984003')")
	p.Click("#ask-no")
	p.Until("nothing happened", "!document.getElementById('ask').open && document.querySelectorAll('.strangers li').length === 2")
	p.Click("[aria-label='Approve ABCD-EFGH of ann']")
	p.Do(chromedp.WaitVisible("#ask"))
	p.Click("#ask-yes")
	p.Until("one is left", "document.querySelectorAll('.strangers li').length === 1")
	f.set(func() { f.views.strangers[1]["code"] = "another" })
	p.Click("[aria-label='Refuse JKLM-NPQR of bob']")
	p.Do(chromedp.WaitVisible("#ask"))
	p.Click("#ask-yes")
	p.Shows("#view-problem", "There is no such code.")
	p.Until("the new code is listed", "document.querySelector('.strangers li b').innerText === 'another'")
	p.Click("[aria-label='Refuse another of bob']")
	p.Do(chromedp.WaitVisible("#ask"))
	p.Click("#ask-yes")
	p.Until("nobody waits, and nothing is wrong", "document.querySelector('.state') && !document.querySelector('.strangers') && document.getElementById('view-problem').hidden")
	f.mu.Lock()
	defer f.mu.Unlock()
	if a, b := f.views.strangers[0]["state"], f.views.strangers[1]["state"]; a != "approved" || b != "denied" {
		t.Errorf("the states are %v and %v", a, b)
	}
}

func TestSettingsShowTheirSource(t *testing.T) {
	t.Parallel()
	_, p := furnished(t, "", "#/settings", 1100, 760)
	p.Until("all are there", "document.querySelectorAll('[data-setting]').length === 4")
	p.Until("where one comes from is told", "document.querySelector('[data-setting=model] .badge').innerText === 'LILAC_MODEL'")
	p.Picture("settings", false)
	p.Click("[name=changed]")
	p.Until("those that were set", "document.querySelectorAll('[data-setting]').length === 3 && location.hash === '#/settings?changed=1'")
	p.Do(chromedp.SendKeys("[name=find]", "steps"))
	p.Until("one is found", "document.querySelectorAll('[data-setting]').length === 1")
	p.Do(chromedp.Reload())
	p.Until("a reload keeps what was looked for", "document.querySelectorAll('[data-setting]').length === 1 && document.querySelector('[name=find]').value === 'steps'")
}

// Untrusted text is displayed as text and never becomes part of the page's markup.
func TestHostileTextIsText(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := furnished(t, hostile, "#/events", 1100, 760)
	f.streaming()
	f.emit("stream.error", object{"requestId": hostile, "error": object{"message": hostile}})
	f.emit("user_query", object{"content": hostile, "messageId": hostile, "requestId": hostile, "queue": "prompt"})
	p.Until("the request is there", "document.querySelectorAll('.event').length === 1")
	p.Do(chromedp.Evaluate[chromedp.Void]("document.querySelector('.event').open = true"))
	p.Until("its events are there", "document.querySelectorAll('.event .event').length === 2")
	p.Do(chromedp.Evaluate[chromedp.Void]("document.querySelectorAll('.event').forEach(e => { e.open = true })"))
	const clean = "!window.hacked && !document.querySelector('img[src=x], svg:not([aria-hidden=true]), [onerror], [onload], a[href^=javascript]')"
	shown := func(view, selector string) {
		t.Helper()
		p.Until(view+" shows it as text", fmt.Sprintf("document.querySelector(%q)?.textContent.includes('<img src=x onerror=')", selector))
		p.Until(view+" made nothing of it", clean)
	}
	shown("events", ".event pre")
	for hash, selector := range map[string]string{
		"#/s/s1": "#transcript .words", "#/requests": ".card .bad", "#/requests/web:s1:m0": ".timeline .words",
		"#/tasks": ".card .bad", "#/tasks/t2": ".task-output", "#/dead": ".card .bad", "#/dead/d1": ".letter pre", "#/health": ".table td:nth-child(2)", "#/settings": "[data-setting=model] .value", "#/rules": ".card code", "#/search?q=dandelion": ".excerpt",
		"#/workflows?ended=1": ".card .bad", "#/workflows/w1": "[data-task] .excerpt",
	} {
		if hash == "#/health" {
			p.To("#/health")
			p.Until("health shows it as text", "['.table', '.parts', '[aria-label=\"Event consumers\"]'].every((s) => [...document.querySelectorAll(s)].some((e) => e.textContent.includes('<img src=x')))")
			p.Until("health made nothing of it", clean)
			continue
		}
		p.To(hash)
		shown(hash, selector)
	}
	p.Do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("document.getElementById('view')['inner' + 'HTML'] = %q", hostile)))
	if webuitest.Eval[bool](p, clean) {
		t.Error("control: the same text as markup is not seen by the check")
	}
}

// Not every browser outlines an element that a script gives the focus, and without motion nothing else marks it.
func TestTheResultOfASearchIsMarked(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	_, p := furnished(t, "", "#/search?q=meadow", 1100, 760)
	p.Media(false, true)
	p.Click(".result")
	p.Until("the message has the focus", "document.activeElement.dataset.message === 'a1'")
	p.Until("it is marked", "getComputedStyle(document.activeElement).outlineStyle === 'solid'")
}
