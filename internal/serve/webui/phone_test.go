package webui_test

import (
	"bytes"
	"encoding/json"
	"image/png"
	"net/url"
	"regexp"
	"testing"

	"github.com/chromedp/chromedp"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// openLong opens a conversation that is longer than a window of this size, at its end.
func openLong(t *testing.T, width, height int) *webuitest.Tab {
	t.Helper()
	f := newFake(t)
	f.long(60)
	p := webuitest.Open(t, f.url("#/s/s1"), width, height)
	p.Until("the conversation is there", "document.querySelector('#transcript').innerText.includes('message 59')")
	return p
}

// Safari on a phone lays its keyboard over the page, and tells only the visual viewport.
func TestTheKeyboardOfAPhoneDoesNotCoverTheMessageBox(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	p := openLong(t, 390, 844)
	viewport := func(height, scale string) {
		p.Do(chromedp.Evaluate[chromedp.Void](`for (const [name, value] of [['height', ` + height + `], ['scale', ` + scale + `]]) Object.defineProperty(visualViewport, name, { value, configurable: true });
			visualViewport.dispatchEvent(new Event('resize')); 0`))
	}
	const bottom = "document.getElementById('composer').getBoundingClientRect().bottom"
	const atEnd = "(s => s.scrollHeight - s.scrollTop - s.clientHeight < 2)(document.getElementById('scroll'))"
	viewport("500", "1")
	p.Until("the message box is above the keyboard", bottom+" <= 500")
	p.Until("so is the end of the conversation", atEnd)
	p.Picture("keyboard", false)
	viewport("844", "1")
	p.Until("without the keyboard it is at the bottom", bottom+" > 800")
	viewport("500", "2")
	if !webuitest.Eval[bool](p, bottom+" > 800") {
		t.Error("a page that was enlarged with two fingers has another layout")
	}
}

// The message box takes its space from the conversation, whose end stays in view.
func TestTheEndStaysInViewWhileALongMessageIsWritten(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	p := openLong(t, 1000, 700)
	const height = "document.getElementById('scroll').clientHeight"
	before := webuitest.Eval[int](p, height)
	p.Do(chromedp.Evaluate[chromedp.Void](`text.value = '1\n2\n3\n4\n5\n6'; text.dispatchEvent(new Event('input')); 0`))
	p.Until("the conversation has less space", height+" < "+jsonOf(before-80))
	p.Until("its end is in view", "(s => s.scrollHeight - s.scrollTop - s.clientHeight < 2)(document.getElementById('scroll'))")
}

func jsonOf(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}

// A phone shows a picture on its home screen, which Safari does not make from an SVG. The picture has no
// transparent corners, because a phone gives it the shape of its other icons.
func TestTheHomeScreenHasAnIcon(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`<link rel="apple-touch-icon" href="\.(/[^"]+)">`).FindStringSubmatch(get(t, "/").Body.String())
	if link == nil {
		t.Fatal("the page names no icon for the home screen")
	}
	w := get(t, link[1])
	icon, err := png.Decode(bytes.NewReader(w.Body.Bytes()))
	if err != nil || w.Header().Get("Content-Type") != "image/png" {
		t.Fatalf("the icon has the type %q: %v", w.Header().Get("Content-Type"), err)
	}
	if size := icon.Bounds().Size(); size.X != 192 || size.Y != 192 {
		t.Errorf("the icon has the size %v", size)
	}
	if _, _, _, alpha := icon.At(0, 0).RGBA(); alpha != 0xffff {
		t.Error("the icon has a transparent corner")
	}
	var manifest struct {
		Icons []struct{ Src, Type, Purpose string }
	}
	const at = "/assets/lilac.webmanifest"
	if err := json.Unmarshal(get(t, at).Body.Bytes(), &manifest); err != nil {
		t.Fatal(err)
	}
	purposes := map[string]bool{}
	for _, icon := range manifest.Icons {
		base, _ := url.Parse(at)
		target, err := base.Parse(icon.Src)
		if err != nil {
			t.Fatal(err)
		}
		if got := get(t, target.Path).Header().Get("Content-Type"); got != icon.Type {
			t.Errorf("%s has the type %q, the manifest says %q", target.Path, got, icon.Type)
		}
		purposes[icon.Purpose] = true
	}
	if !purposes["any"] || !purposes["maskable"] {
		t.Errorf("the icons of the manifest have the purposes %v", purposes)
	}
}
