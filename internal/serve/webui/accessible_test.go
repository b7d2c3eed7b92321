package webui_test

import (
	"context"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// everyView lists each view with its address and a condition that holds once it is drawn.
var everyView = []struct{ name, hash, drawn string }{
	{"new", "#/", "document.getElementById('main').classList.contains('empty') && document.querySelectorAll('#list a').length === 2"},
	{"conversation", "#/s/s1", "document.querySelector('[data-message=a1] .md') && document.querySelector('.note.bad')"},
	{"search", "#/search?q=dandelion", "document.querySelector('.result')"},
	{"conversations", "#/conversations", "document.querySelectorAll('.pickable').length === 2"},
	{"requests", "#/requests", "document.querySelector('.card')"},
	{"timeline", "#/requests/web:s1:m0", "document.querySelector('.timeline li')"},
	{"tasks", "#/tasks", "document.querySelectorAll('.card').length === 2"},
	{"task", "#/tasks/t2", "document.querySelector('.task-output')?.textContent.includes('ok')"},
	{"workflows", "#/workflows?ended=1", "document.querySelectorAll('[data-workflow]').length === 3"},
	{"workflow", "#/workflows/w1", "document.querySelectorAll('[data-task]').length === 2"},
	{"events", "#/events", "document.querySelector('.event')"},
	{"dead", "#/dead", "document.querySelector('.card')"},
	{"dead-letter", "#/dead/d1", "document.querySelector('.letter pre')"},
	{"rules", "#/rules", "document.querySelectorAll('.card').length === 4"},
	{"usage", "#/usage", "document.querySelector('.usage .table')"},
	{"health", "#/health", "document.querySelector('.table')"},
	{"setup", "#/setup", "document.querySelector('.trial code')"},
	{"people", "#/people", "document.querySelectorAll('[data-person]').length === 2"},
	{"settings", "#/settings", "document.querySelector('[data-setting]')"},
}

// inEveryView opens each view and calls fn when the view is drawn. All folds are open.
func inEveryView(t *testing.T, width int, fn func(p *webuitest.Tab, name string)) {
	t.Helper()
	inEveryViewSaying(t, "", width, fn)
}

func inEveryViewSaying(t *testing.T, said string, width int, fn func(p *webuitest.Tab, name string)) {
	t.Helper()
	f, p := furnished(t, said, "#/health", width, 760)
	f.streaming()
	f.happen(3, "stream.tool_call")
	f.emit("stream.error", object{"requestId": "web:s1:m2", "error": object{"message": "The model is overloaded."}})
	for _, v := range everyView {
		p.To(v.hash)
		p.Until(v.name+" is drawn", v.drawn)
		p.Do(chromedp.Evaluate[chromedp.Void]("document.querySelectorAll('#talk:not([hidden]) details, .view:not([hidden]) details').forEach(e => { e.open = true })"))
		fn(p, v.name)
	}
}

func TestEverythingHasANameForAScreenReader(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	inEveryView(t, 1100, func(p *webuitest.Tab, name string) {
		bad, looked := p.Nameless()
		if len(bad) > 0 || looked < 10 {
			t.Errorf("%s: of %d these have no name: %v", name, looked, bad)
		}
		if name == "settings" {
			p.Do(chromedp.Evaluate[chromedp.Void]("document.getElementById('view').append(document.createElement('button'))"))
			if bad, _ := p.Nameless(); len(bad) != 1 {
				t.Errorf("control: a button without a name is not seen: %v", bad)
			}
		}
	})
}

func TestTextsHaveEnoughContrast(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const ratio = 4.5
	inEveryView(t, 1100, func(p *webuitest.Tab, name string) {
		for _, dark := range []bool{false, true} {
			p.Media(dark, true)
			if bad, looked := p.Faint(ratio); len(bad) > 0 || looked < 15 {
				t.Errorf("%s, dark %v: of %d texts these are faint: %q", name, dark, looked, bad)
			}
		}
		if name == "settings" {
			p.Do(chromedp.Evaluate[chromedp.Void]("document.querySelector('.settings .value').style.color = '#777'"))
			if bad, _ := p.Faint(ratio); len(bad) != 1 {
				t.Errorf("control: a grey text on dark is not seen: %q", bad)
			}
		}
	})
}

func TestViewsFitASmallScreen(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const wide = "document.documentElement.scrollWidth > innerWidth || [...document.querySelectorAll('.view:not([hidden]), #scroll')].some(e => e.scrollWidth > e.clientWidth)"
	inEveryView(t, 360, func(p *webuitest.Tab, name string) {
		if webuitest.Eval[bool](p, wide) {
			t.Errorf("%s is wider than 360 px", name)
		}
		p.Picture("small-"+name, name == "timeline" || name == "events" || name == "task")
		if name == "settings" {
			p.Do(chromedp.Evaluate[chromedp.Void]("document.querySelector('.settings').style.width = '400px'"))
			if !webuitest.Eval[bool](p, wide) {
				t.Error("control: what is too wide is not seen")
			}
		}
	})
	// Long texts and long words must not make a view wider than the screen.
	inEveryViewSaying(t, strings.Repeat("some words ", 60)+strings.Repeat("unbroken", 60), 360, func(p *webuitest.Tab, name string) {
		if webuitest.Eval[bool](p, wide) {
			t.Errorf("%s with long texts is wider than 360 px", name)
		}
		p.Picture("long-"+name, name == "timeline")
	})
}

// Safari on a phone enlarges the page when a field whose font has less than 16 pixels gets the focus.
func TestFieldsOnATouchscreenDoNotEnlargeThePage(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const small = "[...document.querySelectorAll('input, select, textarea')].filter((e) => parseFloat(getComputedStyle(e).fontSize) < 16).map((e) => e.id || e.name || e.type)"
	inEveryView(t, 390, func(p *webuitest.Tab, name string) {
		p.Do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
			_, err := cdp.Call(ctx, target, emulation.SetTouchEmulationEnabled, emulation.SetTouchEmulationEnabledParams{Enabled: true})
			return err
		}))
		p.Do(chromedp.Evaluate[chromedp.Void]("document.documentElement.dataset.text = 'small'"))
		p.Until("it is a touchscreen", "matchMedia('(pointer: coarse)').matches")
		if got := webuitest.Eval[[]string](p, small); len(got) > 0 {
			t.Errorf("%s: these fields have a small font: %q", name, got)
		}
	})
}

// On a wide screen, a view is a centered column, and everything in it starts at the same left edge.
func TestViewsAreAlignedLeft(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const edges = "[...new Set([...document.querySelectorAll('.view:not([hidden]) > :not(.pill)')].filter(e => e.clientWidth).map(e => Math.round(e.getBoundingClientRect().left)))].join(' ')"
	inEveryView(t, 1900, func(p *webuitest.Tab, name string) {
		if got := webuitest.Eval[string](p, edges); strings.Contains(got, " ") {
			t.Errorf("%s: what is in it begins at %s px", name, got)
		}
	})
}

// The Tab key reaches everything that can be used, and the focused element is visibly marked.
func TestEverythingIsReachableByKeyboardWithVisibleFocus(t *testing.T) {
	t.Parallel()
	inEveryView(t, 1100, func(p *webuitest.Tab, name string) {
		p.Do(chromedp.Evaluate[chromedp.Void](`
			document.activeElement?.blur();
			getSelection().removeAllRanges();
			getSelection().collapse(document.body, 0);
			window.reached = new Set();
			window.unseen = [];`))
		usable := webuitest.Eval[int](p, `(() => {
			const radios = new Set();
			window.usable = [...document.querySelectorAll('a[href], button, input, textarea, select, summary')].filter(e => {
				if (e.disabled || !e.checkVisibility({ checkVisibilityCSS: true }) || e.closest('[hidden]')) return false;
				if (e.type !== 'radio') return true;
				return e.checked; // of a group of radio buttons, Tab reaches one
			});
			return window.usable.length;
		})()`)
		for range 3 * usable {
			p.Press("Tab")
			done := webuitest.Eval[bool](p, `(() => {
				const e = document.activeElement;
				if (!e || e === document.body) return false;
				window.reached.add(e);
				const marked = [e, e.nextElementSibling, e.closest('.box')].some(n => n && (getComputedStyle(n).outlineStyle !== 'none' && parseFloat(getComputedStyle(n).outlineWidth) >= 1));
				if (!marked && !e.closest('.box')) window.unseen.push(e.outerHTML.slice(0, 80));
				return window.usable.every(u => window.reached.has(u));
			})()`)
			if done {
				break
			}
		}
		missed := webuitest.Eval[[]string](p, "window.usable.filter(u => !window.reached.has(u)).map(u => u.outerHTML.slice(0, 80))")
		if len(missed) > 0 || usable < 8 {
			t.Errorf("%s: of %d the Tab key does not reach %q", name, usable, missed)
		}
		if unseen := webuitest.Eval[[]string](p, "window.unseen"); len(unseen) > 0 {
			t.Errorf("%s: one cannot see that these have the focus: %q", name, unseen)
		}
	})
}

func TestReducedMotionIsRespected(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Talk")
	f.set(func() { f.sessions[0]["state"] = "running" })
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	f.listened()
	f.emit("stream.start", object{"requestId": "web:s1:m0"})
	const moving = "document.getAnimations().filter(a => a.playState === 'running').length"
	p.Until("control: otherwise something moves", "document.querySelector('.thinking') && "+moving+" > 0")
	p.Media(false, true)
	p.Until("nothing moves", moving+" === 0")
}

// Users who force their own colors do not see background colors. They must still see that an answer is in
// progress.
func TestRunningStateIsVisibleInForcedColours(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Talk")
	f.set(func() { f.sessions[0]["state"] = "running" })
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	f.listened()
	f.emit("stream.start", object{"requestId": "web:s1:m0"})
	p.Until("it runs", "document.querySelector('.thinking i') && document.querySelector('.dot')")
	p.Do(chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "forced-colors", Value: "active"}}})
		return err
	}))
	p.Until("the colours are forced", "matchMedia('(forced-colors: active)').matches")
	p.Until("what runs is seen", "['.thinking i', '.dot'].every(e => getComputedStyle(document.querySelector(e)).backgroundColor === getComputedStyle(document.body).color)")
	p.Until("what is chosen is seen", "getComputedStyle(document.querySelector('#modes input:checked + span')).outlineStyle === 'solid'")
}

// A screen reader announces the answer once, when it is complete. Announcing each streamed word would be
// unintelligible.
func TestScreenReaderReadsTheAnswerOnce(t *testing.T) {
	t.Parallel()
	f, p := talk(t)
	f.listened()
	p.Do(chromedp.Evaluate[chromedp.Void](`window.heard = []; new MutationObserver(() => window.heard.push(document.getElementById('live').textContent)).observe(document.getElementById('live'), { childList: true, characterData: true, subtree: true })`))
	const r = "web:s1:m0"
	f.emit("stream.start", object{"requestId": r})
	for i, word := range []string{"one ", "two ", "six"} {
		f.text(r, word, 4*i)
	}
	p.Shows("#transcript .answer", "one two six")
	f.emit("stream.completed", object{"requestId": r, "content": "one two six", "usage": nil})
	p.Until("it is heard", "window.heard.length === 1 && window.heard[0] === 'Lilac: one two six'")
	p.Until("nothing around the words is live", "!document.querySelector('#transcript').closest('[aria-live]') && !document.querySelector('#transcript [aria-live], #transcript [role=status]')")
}

// The boxes of a task list are controls, though nobody can change them.
func TestTheBoxesOfATaskListHaveNames(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	answered(f, "done")
	f.set(func() { f.messages[1]["content"] = "- [x] done\n- [ ] not done" })
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("the list is there", "document.querySelectorAll('.md input').length === 2")
	if bad, looked := p.Nameless(); len(bad) > 0 || looked < 10 {
		t.Errorf("of %d these have no name: %v", looked, bad)
	}
}
