package webui_test

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// drawing returns a PNG with visible content.
func drawing(t *testing.T) []byte {
	t.Helper()
	m := image.NewRGBA(image.Rect(0, 0, 240, 120))
	for x := range 240 {
		for y := range 120 {
			m.Set(x, y, color.RGBA{uint8(x), uint8(2 * y), 160, 255})
		}
	}
	var out bytes.Buffer
	if err := png.Encode(&out, m); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

const shownPictures = "[...document.querySelectorAll('#transcript .picture img')].filter(i => i.complete && i.naturalWidth > 0).length"

func TestAllSelectedFilesAreAttached(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	_, p := talk(t)
	var paths []string
	for _, name := range []string{"one.txt", "two.txt", "three.txt"} {
		paths = append(paths, filepath.Join(t.TempDir(), name))
		if err := os.WriteFile(paths[len(paths)-1], []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	p.Do(chromedp.SetUploadFiles("#picker", paths))
	p.Until("all are listed, in their order", "[...document.querySelectorAll('#files li span')].map(e => e.innerText).join() === 'one.txt,two.txt,three.txt'")
}

// Names of files may be longer than 255 bytes on a Mac and on Windows, and have a backslash or a line break
// elsewhere. The server refuses such names.
func TestFilesWithOddNamesAreAttached(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := talk(t)
	p.Do(chromedp.Evaluate[chromedp.Void](`{ const all = new DataTransfer();
		for (const name of ['名'.repeat(200) + '.pdf', 'a\\b\n.txt', '.env', 'x'.repeat(300)]) all.items.add(new File(['x'], name));
		document.dispatchEvent(new DragEvent('drop', { dataTransfer: all, bubbles: true, cancelable: true })); }`))
	p.Until("all are attached", "document.querySelectorAll('#files li').length === 4")
	p.Say("read them")
	f.until("they were sent", func() bool { return len(f.prompts) == 1 })
	files, _ := f.prompts[0]["attachments"].([]any)
	for i, want := range []string{strings.Repeat("名", 83) + ".pdf", "a_b_.txt", ".env", strings.Repeat("x", 255)} {
		if got := files[i].(object)["filename"]; got != want {
			t.Errorf("the name is %q, want %q", got, want)
		}
	}
}

// If a message cannot be sent, its files return to the message box together with its text.
func TestFilesReturnWithARefusedMessage(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f, p := talk(t)
	path := filepath.Join(t.TempDir(), "notes.txt")
	if err := os.WriteFile(path, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	const listed = "document.querySelector('#files li')?.innerText.includes('notes.txt')"
	p.Do(chromedp.SetUploadFiles("#picker", []string{path}))
	p.Until("the file is listed", listed)
	p.Say("refuse me")
	p.Shows("#outbox .fate", "Content is not liked today.")
	p.Do(chromedp.SendKeys("#text", "meanwhile"))
	p.Click("#outbox button")
	p.Until("both texts and the file are there", "document.getElementById('text').value === 'refuse me\\n\\nmeanwhile' && !document.querySelector('#outbox > *') && "+listed)

	p.Do(chromedp.Navigate(f.url("?again")))
	p.Until("the page is there", "document.querySelector('#list a')")
	p.Do(chromedp.SetUploadFiles("#picker", []string{path}))
	p.Until("the file is listed", listed)
	f.down()
	p.Say("a new conversation")
	p.Shows("#problem", "Cannot reach Lilac. Check that it is running.")
	p.Until("the text and the file are there", "document.getElementById('text').value === 'a new conversation' && "+listed)
}

// Messages that are sent while a conversation is being created belong to it, in the order in which they
// were sent, even if the first message must be retried.
func TestTwoMessagesInARowAreOneConversation(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	made := make(chan struct{})
	f.set(func() { f.making, f.busy = made, 1 })
	p := webuitest.Open(t, f.url(""), 1000, 700)
	f.streaming()
	p.Say("one")
	p.Say("two")
	close(made)
	p.Until("both are in it", "[...document.querySelectorAll('#outbox .words')].map(e => e.innerText).join() === 'one,two'")
	f.until("both were sent", func() bool { return len(f.prompts) == 2 })
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.sessions) != 1 || f.prompts[0]["content"] != "one" {
		t.Errorf("%d conversations, prompts %v", len(f.sessions), f.prompts)
	}
}

func TestFilesOfPersonAndAgentAreShown(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.conversation("Files")
	const r = "web:s1:m1"
	mine, theirs, gone := strings.Repeat("a", 64), strings.Repeat("b", 64), strings.Repeat("c", 64)
	f.set(func() { f.bytes = map[string][]byte{mine: drawing(t), theirs: drawing(t)} })
	file := func(id, name, kind, sum string) object {
		return object{"requestId": r, "fileId": id, "filename": name, "mimeType": kind, "bytes": 2048, "url": "/sessions/s1/files/" + sum}
	}
	p := webuitest.Open(t, f.url("#/s/s1"), 1000, 900)
	f.listened()
	path := filepath.Join(t.TempDir(), "mine.png")
	if err := os.WriteFile(path, drawing(t), 0o600); err != nil {
		t.Fatal(err)
	}
	p.Do(chromedp.SetUploadFiles("#picker", []string{path}))
	p.Until("the file is listed", "document.querySelector('#files')?.innerText.includes('mine.png')")
	p.Say("make it brighter")
	f.until("it was sent", func() bool { return len(f.prompts) == 1 })
	parts := []object{{"type": "file", "data": "blob:sha256:" + mine, "mediaType": "image/png", "filename": "mine.png"}}
	f.emit("user_query", object{"messageId": "m1", "requestId": r, "content": "make it brighter", "queue": "prompt", "attachments": parts})
	p.Until("it is seen while it waits", "document.querySelector('#outbox .picture img')?.naturalWidth === 240")
	f.emit("stream.start", object{"requestId": r})
	f.emit("session.message_applied", object{"messageId": "m1", "requestId": r, "queue": "prompt"})
	p.Until("it is seen in the conversation", shownPictures+" === 1")
	f.text(r, "Here.", 0)
	f.emit("stream.file", file("c/0", "brighter.png", "image/png", theirs))
	f.emit("stream.file", file("c/0", "brighter.png", "image/png", theirs))
	f.emit("stream.file", file("c/1", "numbers.csv", "text/csv", theirs))
	f.emit("stream.file", file("c/2", "gone.png", "image/png", gone))
	shows := func() {
		t.Helper()
		p.Until("both pictures are seen", shownPictures+" === 2")
		p.Until("what is no picture is a link that saves it", "document.querySelector('.given a.file[download=\"numbers.csv\"]')?.getAttribute('href').endsWith('/"+theirs+"')")
		p.Until("a picture that is gone is a link", "document.querySelector('.given a.file[download=\"gone.png\"]')")
		p.Until("in their order, each once", "[...document.querySelectorAll('.given > *')].map(e => e.title || e.download).join() === 'brighter.png,numbers.csv,gone.png'")
	}
	shows()
	f.emit("stream.completed", object{"requestId": r, "content": "Here.", "usage": nil})
	p.Until("the answer is over", "document.querySelector('.request').dataset.state === 'done'")
	p.Picture("files", false)
	f.set(func() {
		f.messages = []object{
			{"id": "m1", "requestId": r, "role": "user", "content": append([]object{{"type": "text", "text": "make it brighter"}}, parts...), "createdAt": 1},
			{"id": "m1/1", "requestId": r, "role": "assistant", "content": "Here.", "createdAt": 2},
		}
		f.files = []object{file("c/0", "brighter.png", "image/png", theirs), file("c/1", "numbers.csv", "text/csv", theirs), file("c/2", "gone.png", "image/png", gone)}
	})
	p.Do(chromedp.Reload())
	shows()
	p.Picture("files-dark", true)
	if bad, looked := p.Nameless(); len(bad) > 0 || looked == 0 {
		t.Errorf("without a name: %q of %d", bad, looked)
	}
}
