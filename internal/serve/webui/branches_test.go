package webui_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/webuitest"
)

// A message is edited, and an answer made again with another model, in branches; each conversation
// leads to the other one.
func TestAConversationContinuesInABranch(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	answered(f, "done")
	// The page goes back in steps; the buttons of the other conversation still stand in the first ones.
	const first = "document.querySelector('#branches a')?.innerText.startsWith('An older branch') && document.querySelector('#branches a').hash === '#/s/s9'"
	f.set(func() {
		f.sessions[0]["branches"] = []object{{"id": "s9", "title": "An older branch", "createdAt": 1_760_000_000_000}}
	})
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	p.Until("the branches are named", first)
	p.Click(".user .under button")
	p.Until("the message can be edited", "document.getElementById('ask').open && document.getElementById('ask-message').value !== ''")
	p.Do(chromedp.SetValue("#ask-message", "And in\nwinter?"))
	p.Picture("edit", false)
	p.Click("#ask-yes")
	f.until("the branch was asked for", func() bool {
		return len(f.branches) == 1 && f.branches[0]["content"] == "And in\nwinter?" && f.branches[0]["of"] == "s1" && f.branches[0]["before"] == f.messages[0]["id"]
	})
	p.Until("the branch is open, and leads back", "location.hash === '#/s/s2' && document.querySelector('#branches a')?.hash.startsWith('#/s/s1/m/')")
	p.Do(chromedp.Evaluate[chromedp.Void]("history.back()"))
	const again = "[...document.querySelectorAll('.about button')].find((b) => b.innerText === 'Answer again')"
	p.Until("the other one is there", first+" && "+again)
	p.Do(chromedp.Evaluate[chromedp.Void](again + ".click()"))
	p.Until("the model is asked for", "document.getElementById('ask').open && document.getElementById('ask-yes').innerText === 'Answer again'")
	p.Do(chromedp.SendKeys("#ask-model", "p/other"))
	p.Click("#ask-yes")
	f.until("it is answered again", func() bool {
		return len(f.branches) == 2 && f.branches[1]["model"] == "p/other" && f.branches[1]["content"] == nil
	})
	p.Until("the second branch is open", "location.hash === '#/s/s3'")
	// A dialog that is cancelled changes nothing.
	p.Do(chromedp.Evaluate[chromedp.Void]("history.back()"))
	p.Until("the other one is there again", first+" && document.querySelector('.user .under button')")
	p.Picture("branches", false)
	p.Click(".user .under button")
	p.Until("the message can be edited", "document.getElementById('ask').open")
	p.Click("#ask-no")
	f.until("nothing was asked for", func() bool { return len(f.branches) == 2 })
}
