package webui_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// The sidebar shows conversations where people have put them.
func TestTheListHasPinnedConversationsAndFolders(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	for _, title := range []string{"One", "Two", "Three", "Four", "Five"} {
		f.conversation(title)
	}
	f.set(func() {
		f.sessions[0]["pinned"] = true
		f.sessions[1]["folder"], f.sessions[2]["folder"] = "Work", "Home"
		f.sessions[3]["archived"] = true
	})
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("they are in groups", "[...document.querySelectorAll('#list li')].map((li) => li.firstChild.textContent).join('|') === 'Pinned|One|Home|Three|Work|Two|Others|Five'")
	p.Picture("groups", false)
	p.Do(chromedp.KeyEvent("k", chromedp.KeyModifiers(2)))
	p.Until("it can be filed", "document.querySelector('dialog[open]')?.innerText.includes('Unpin this conversation')")
}

// Many conversations are filed and deleted at once.
func TestConversationsAreFiledManyAtOnce(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	for _, title := range []string{"One", "Two", "Three"} {
		f.conversation(title)
	}
	p := webuitest.Open(t, f.url("#/conversations"), 1000, 700)
	const rows = "[...document.querySelectorAll('.pickable')].map((li) => li.querySelector('a').textContent + ':' + li.querySelector('.quiet').textContent).join('|')"
	p.Until("all are listed, and nothing is selected", rows+".split('|').length === 3 && [...document.querySelectorAll('#view .manage:nth-of-type(2) button')].every((b) => b.disabled)")
	pick := func(n string) { p.Click(".pickable:nth-child(" + n + ") input") }
	act := func(words string) {
		p.Do(chromedp.Evaluate[chromedp.Void]("[...document.querySelectorAll('#view .manage button')].find((b) => b.innerText === '" + words + "').click()"))
	}
	pick("1")
	pick("2")
	act("Move to a folder")
	p.Until("the folder is asked for", "document.getElementById('ask').open")
	p.Do(chromedp.SetValue("#ask-field", "Work"))
	p.Click("#ask-yes")
	p.Until("both are in it", rows+".match(/in Work/g)?.length === 2")
	pick("1")
	act("Archive")
	p.Until("it is not listed any more", "document.querySelectorAll('.pickable').length === 2")
	p.Picture("conversations", false)
	p.Do(chromedp.Evaluate[chromedp.Void]("location.hash = '#/conversations?filter=archived'"))
	p.Until("it is with the archived ones", "document.querySelectorAll('.pickable').length === 1 && document.querySelector('#view [role=status]').innerText.startsWith('1 archived conversation')")
	pick("1")
	act("Restore")
	p.Until("nothing is archived", "document.querySelector('#view [role=status]').innerText === 'Nothing is archived.'")
	p.Do(chromedp.Evaluate[chromedp.Void]("location.hash = '#/conversations'"))
	p.Until("all are there again", "document.querySelectorAll('.pickable').length === 3")
	act("Select all shown")
	f.set(func() { f.refuseDeletion = "A request is running in this conversation." })
	act("Delete")
	p.Until("it asks first", "document.getElementById('ask').open && document.getElementById('ask-text').innerText.includes('3 conversations')")
	p.Click("#ask-yes")
	p.Until("what failed is said, and stays selected", "document.getElementById('view-problem').innerText.includes('Three: A request is running') && document.querySelectorAll('.pickable input:checked').length === 3")
	f.set(func() { f.refuseDeletion = "" })
	act("Delete")
	p.Click("#ask-yes")
	p.Until("none is left", "document.querySelector('#view [role=status]').innerText === 'No conversations yet.'")
}
