package webui_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

func TestTheOperatorInvitesAndManagesPeople(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.team("")
	p := webuitest.Open(t, f.url("#/people"), 1000, 800)
	p.Until("the people are listed", "document.querySelectorAll('[data-person]').length === 2 && document.querySelectorAll('[data-invite]').length === 1")
	p.Until("what they did is listed", "document.querySelectorAll('#log > li').length === 2 && document.querySelector('#log a').hash === '#/s/s1'")
	p.Until("without accounts in use, there is nobody to sign out", "document.getElementById('me').hidden")
	p.Picture("people", false)
	p.Do(chromedp.SendKeys("#invite input", "Grace"+kb.Enter))
	p.Until("the link is shown once, ready to be copied", "document.querySelector('.made input')?.value === 'http://lilac.example/join?code=abc' && document.activeElement === document.querySelector('.made input')")
	p.Until("the invite is listed", "document.querySelectorAll('[data-invite]').length === 2")
	p.Click("[data-invite=i1] button")
	p.Until("it can be dropped", "document.querySelectorAll('[data-invite]').length === 1")
	p.Do(chromedp.Evaluate[chromedp.Void]("{ const s = document.querySelector('[data-person=ada] select'); s.value = 'operator'; s.dispatchEvent(new Event('change')); }"))
	f.until("the role has changed", func() bool { return f.folk.people[0]["role"] == "operator" })
	p.Click("[data-person=ada] .danger")
	p.Until("it asks first", "document.getElementById('ask').open")
	p.Click("#ask-yes")
	f.until("the person is disabled", func() bool { return f.folk.people[0]["disabled"] == true })
	p.Until("and can be enabled again", "[...document.querySelectorAll('[data-person=ada] button')].some((b) => b.innerText === 'Enable')")
}

func TestAMemberSeesThePageWithoutTheOperatorsViews(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	answered(f, "done")
	f.set(func() {
		f.folk.me = object{"id": "ada", "name": "Ada", "role": "member", "account": true, "accounts": true}
		f.sessions[0]["access"] = "read"
		f.messages[0]["author"] = object{"id": "bob", "name": "Bob"}
	})
	p := webuitest.Open(t, f.url("#/shared/secretlink"), 1000, 700)
	p.Until("a link opens the conversation", "location.hash === '#/s/s1' && document.querySelector('.user .who')?.innerText === 'Bob'")
	p.Until("the name is in the sidebar", "!document.getElementById('me').hidden && document.getElementById('me-name').innerText === 'Ada'")
	p.Until("only views for members are offered", "[...document.querySelectorAll('#views a')].filter((a) => a.checkVisibility()).map((a) => a.dataset.view).join() === 'conversations,requests'")
	p.Until("who may only read cannot write", "!document.getElementById('composer').checkVisibility() && document.getElementById('read-only').checkVisibility() && !document.getElementById('share').checkVisibility() && !document.getElementById('rename').checkVisibility()")
	p.Picture("member", false)
	p.Click("#sign-out")
	f.until("the login has ended", func() bool { return f.folk.signedOut == 1 })
}

// An app on a home screen has no button of the browser to load the page again. The files of a draft, which
// the browser keeps on the disk, are not left to the next person.
func TestAMemberSignsInAgain(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	answered(f, "done")
	f.set(func() {
		f.folk.me = object{"id": "ada", "name": "Ada", "role": "member", "account": true, "accounts": true}
		f.sessions[0]["access"] = "own"
	})
	p := webuitest.Open(t, f.url("#/s/s1"), 390, 800)
	p.Until("the page knows the person", "document.getElementById('me-name').textContent === 'Ada'")
	attach(t, p, "notes.txt")
	untilKept(p, "1")
	f.set(func() { f.signedOut = true })
	p.Do(chromedp.Evaluate[chromedp.Void]("window.before = true; document.dispatchEvent(new Event('visibilitychange')); 0"))
	p.Until("it says what to do", "document.getElementById('problem').innerText.startsWith('You are signed out. Load this page again to sign in.')")
	p.Picture("signed-out", false)
	f.set(func() { f.signedOut = false })
	p.Click("#problem button")
	p.Until("the page was loaded again, with the draft", "!window.before && document.getElementById('me-name').textContent === 'Ada' && "+listed+" === 'notes.txt ✕'")
	p.Do(chromedp.Evaluate[chromedp.Void]("window.before = true"))
	p.Click("#side-open")
	p.Click("#sign-out")
	p.Until("the page was loaded again, and the file is gone", "!window.before && "+listed+" === 'notes.txt unreadable ✕'")
	untilKept(p, "0")
	if f.folk.signedOut != 1 {
		t.Error("the login has not ended")
	}
}

func TestAConversationIsShared(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	answered(f, "done")
	f.team("")
	f.set(func() {
		f.folk.me = object{"id": "zoe", "name": "Zoe", "role": "member", "account": true, "accounts": true}
		f.sessions[0]["access"] = "own"
		f.folk.shares = []object{{"personId": "zoe", "name": "Zoe", "right": "own"}}
	})
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("the owner can share it, and write", "document.getElementById('share').checkVisibility() && document.getElementById('composer').checkVisibility()")
	p.Click("#share")
	p.Until("the owner is listed and stays", "document.querySelectorAll('#sharing [data-person]').length === 1 && !document.querySelector('#sharing [data-person] button')")
	p.Click("#share-person")
	p.Until("Ada can read it", "document.querySelector('#sharing [data-person=ada]')?.innerText.includes('can read')")
	p.Click("#make-link")
	p.Until("the link is shown", "document.querySelector('#sharing .made input')?.value === 'http://lilac.example/shared/xyz' && document.querySelector('#sharing [data-link]')")
	p.Picture("sharing", false)
	if script := axe(t); script != "" {
		p.Do(chromedp.Evaluate[chromedp.Void](script))
		keepsRules(t, p, "sharing")
	}
	p.Click("#sharing [data-link] button")
	p.Until("the link is revoked", "!document.querySelector('#sharing [data-link]') && !document.querySelector('#sharing .made')")
	p.Click("#sharing [data-person=ada] button")
	p.Until("Ada is out", "document.querySelectorAll('#sharing [data-person]').length === 1")
	f.until("the server knows", func() bool { return len(f.folk.shares) == 1 && len(f.folk.links) == 0 })
}
