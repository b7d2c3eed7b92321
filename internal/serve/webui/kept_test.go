package webui_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

const (
	// keptFiles is the number of files that the browser keeps for the page.
	keptFiles = `new Promise((done) => { indexedDB.open('lilac').onsuccess = (e) => { e.target.result.transaction('files').objectStore('files').count().onsuccess = (e) => done(e.target.result); }; })`
	listed    = "[...document.querySelectorAll('#files li')].map(e => e.innerText.replace(/\\s+/g, ' ')).join()"
)

// untilKept waits until the browser keeps n files for the page.
func untilKept(p *webuitest.Tab, n string) {
	p.Do(chromedp.Evaluate[chromedp.Void]("window.kept = 'asked'; " +
		"(async function ask() { window.kept = await " + keptFiles + "; setTimeout(ask, 20); })(); 0"))
	p.Until("the browser keeps "+n+" files", "window.kept === "+n)
}

// Files of a draft survive a reload like its text, also in a conversation that is not shown. They are
// dropped when they are sent or removed.
func TestFilesOfADraftAreThereAfterAReload(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.conversation("Old things")
	f.conversation("New things")
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 700)
	f.listened()
	attach(t, p, "notes.txt")
	attach(t, p, "extra.txt")
	p.Do(chromedp.SendKeys("#text", "read this"))
	p.To("#/s/s2")
	p.Until("nothing is attached there", "document.getElementById('title').innerText === 'New things' && document.getElementById('files').hidden")
	attach(t, p, "poem.txt")
	untilKept(p, "3")
	p.Do(chromedp.Reload())
	p.Until("the file without a text is there", listed+" === 'poem.txt ✕'")
	p.To("#/s/s1")
	p.Until("so are the other files", listed+" === 'notes.txt ✕,extra.txt ✕' && "+written("read this"))
	p.Click("#files li:last-child button")
	untilKept(p, "2")
	p.Do(chromedp.Focus("#text"))
	p.Press("Enter")
	f.until("it was sent", func() bool { return len(f.prompts) == 1 })
	if files, _ := f.prompts[0]["attachments"].([]any); len(files) != 1 || files[0].(object)["filename"] != "notes.txt" || files[0].(object)["dataBase64"] != "aGVsbG8=" {
		t.Errorf("these files were sent: %v", files)
	}
	untilKept(p, "1")
}

// refusedFiles is a browser that keeps no files for the page, as in some private windows.
const refusedFiles = "Object.defineProperty(window, 'indexedDB', { get() { throw new DOMException('', 'SecurityError'); } });"

// A browser that keeps no files still keeps their names, so that nobody sends a message without them.
func TestFilesThatTheBrowserDoesNotKeepAreAskedForAgain(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Talk")
	p := webuitest.Open(t, "about:blank", 1000, 700)
	p.Before(refusedFiles, f.url("#/s/s1"))
	f.listened()
	attach(t, p, "notes.txt")
	p.Do(chromedp.SendKeys("#text", "read this"))
	p.Do(chromedp.Reload())
	p.Until("the file is marked", listed+" === 'notes.txt unreadable ✕'")
	p.Do(chromedp.Focus("#text"))
	p.Press("Enter")
	p.Shows("#outbox .fate", "The file “notes.txt” cannot be read. Attach it again.")
	if len(f.prompts) != 0 {
		t.Error("the message was sent without its file")
	}
}

// A message whose files were read is delivered after a reload, once, whether or not it had arrived.
func TestAMessageWithFilesIsDeliveredAfterAReload(t *testing.T) {
	t.Parallel()
	for _, arrived := range []bool{true, false} {
		f := newFake(t)
		f.conversation("Talk")
		p := webuitest.Open(t, "about:blank", 1000, 700)
		p.Before(gateJS, f.url("#/s/s1"))
		f.listened()
		attach(t, p, "notes.txt")
		untilKept(p, "1")
		held := shut(p, "/prompt", arrived)
		p.Say("read this")
		held.holds(1)
		p.Do(chromedp.Reload())
		p.Shows("#outbox .fate", "Queued, next in line")
		untilKept(p, "0")
		f.mu.Lock()
		sent := jsonOf(f.prompts)
		f.mu.Unlock()
		if strings.Count(sent, "aGVsbG8=") != 1 {
			t.Errorf("arrived before the reload: %t; the server has %s", arrived, sent)
		}
	}
}
