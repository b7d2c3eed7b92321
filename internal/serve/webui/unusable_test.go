package webui_test

import (
	"net/http"
	"strings"
	"testing"

	"lilac/internal/testkit/webuitest"
)

const notice = "document.getElementById('unusable')"

// A browser that lacks what the page needs shows which browsers have it.
func TestAnOldBrowserIsTold(t *testing.T) {
	t.Parallel()
	f, p := talk(t)
	if !webuitest.Eval[bool](p, notice+".hidden") {
		t.Error("a new browser is called old")
	}
	for what, lacks := range map[string]string{
		"Firefox 124": "delete Intl.Segmenter",
		"Safari 16.3": "window.RegExp = class extends RegExp { constructor(source, ...rest) { if (source.includes('(?<')) throw new SyntaxError(); super(source, ...rest); } }",
		"Chrome 110":  "{ const real = CSS.supports; CSS.supports = (...all) => !all.join().includes('color-mix') && real.apply(CSS, all); }",
	} {
		p := webuitest.Open(t, "about:blank", 360, 720)
		p.Before(lacks, f.url(""))
		p.Until(what+" is told", notice+".checkVisibility() && "+notice+".innerText.includes('Safari 16.4')")
		p.Picture("old", false)
	}
}

// Behind a proxy or in a bad network, the page can arrive without its scripts or its style.
func TestAPageWithoutItsScriptSaysSo(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{"/page.js", "/style.css"} {
		f := newFake(t)
		address := proxied(t, f, func(r *http.Request) http.HandlerFunc {
			if !strings.HasSuffix(r.URL.Path, lost) {
				return nil
			}
			return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) }
		})
		p := webuitest.Open(t, address, 1000, 700)
		p.Until("it says that "+lost+" is missing", notice+".checkVisibility() && "+notice+".innerText.includes('Load this page again')")
	}
}
