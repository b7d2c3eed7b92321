package webui_test

import (
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"lilac/internal/serve/webui"
)

func get(t *testing.T, target string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	webui.Handler().ServeHTTP(w, r)
	return w
}

func TestEveryFileIsServedWithItsType(t *testing.T) {
	t.Parallel()
	want := map[string]string{
		"/":                          "text/html; charset=utf-8",
		"/assets/style.css":          "text/css; charset=utf-8",
		"/assets/page.js":            "text/javascript; charset=utf-8",
		"/assets/icon.svg":           "image/svg+xml",
		"/assets/icon.png":           "image/png",
		"/assets/lilac.webmanifest":  "application/manifest+json",
		"/favicon.ico":               "image/svg+xml",
		"/assets/reducer.js":         "text/javascript; charset=utf-8",
		"/assets/":                   "",
		"/assets/katex/katex.min.js": "text/javascript; charset=utf-8",
		"/assets/katex/fonts/KaTeX_Main-Regular.woff2": "font/woff2",
		"/assets/katex/package.json":                   "",
		"/assets/../webui.go":                          "",
		"/assets/index.html":                           "",
		"/nothing":                                     "",
		"/assets/app.js/other":                         "",
	}
	for target, kind := range want {
		w := get(t, target)
		if kind == "" {
			if w.Code != http.StatusNotFound {
				t.Errorf("%s: status %d, want 404", target, w.Code)
			}
			continue
		}
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != kind || w.Body.Len() == 0 {
			t.Errorf("%s: status %d, type %q, %d bytes", target, w.Code, w.Header().Get("Content-Type"), w.Body.Len())
		}
		if !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'self'") {
			t.Errorf("%s: no content security policy", target)
		}
		again := get(t, target, "If-None-Match", w.Header().Get("ETag"))
		if again.Code != http.StatusNotModified || again.Body.Len() != 0 {
			t.Errorf("%s with its ETag: status %d with %d bytes, want 304 without", target, again.Code, again.Body.Len())
		}
		if other := get(t, target, "If-None-Match", `"other"`); other.Code != http.StatusOK {
			t.Errorf("%s with another ETag: status %d, want 200", target, other.Code)
		}
	}
}

// lasting has browsers keep a file and never ask for it again.
const lasting = "max-age=31536000, immutable"

// named finds the files that the page names, and their version.
var named = regexp.MustCompile(`(?:src|href)="\.(/assets/([^/"]*)/[^"]*)"`)

// The page names its files with their version, so that a browser asks for them once. What is still asked
// for in the name of another version is answered, and not kept.
func TestBrowsersKeepTheFilesUntilAnUpgrade(t *testing.T) {
	t.Parallel()
	index := get(t, "/")
	if got := index.Header().Get("Cache-Control"); got != "no-cache" {
		t.Errorf("the page itself has the Cache-Control %q", got)
	}
	all := named.FindAllStringSubmatch(index.Body.String(), -1)
	if len(all) < 5 || strings.Count(index.Body.String(), `"./assets/`) != len(all) {
		t.Fatalf("%d files are named with a version", len(all))
	}
	for _, found := range all {
		w := get(t, found[1])
		if w.Code != http.StatusOK || w.Header().Get("Cache-Control") != lasting {
			t.Errorf("%s: status %d, Cache-Control %q", found[1], w.Code, w.Header().Get("Cache-Control"))
		}
	}
	version := all[0][2]
	for target, want := range map[string]string{
		"/assets/" + version + "/katex/fonts/KaTeX_Main-Regular.woff2": lasting,
		"/assets/page.js":                          "no-cache",
		"/assets/0123456789abcdef/page.js":         "no-cache",
		"/assets/0123456789abcdef/other.js":        "",
		"/assets/0123456789abcdef/":                "",
		"/assets/0123456789abcdef/../webui.go":     "",
		"/assets/" + version + "/katex":            "",
		"/assets/" + version + version + "/app.js": "",
		"/assets/static/app.js":                    "",
		"/assets/" + version + "/index.html":       "",
	} {
		w := get(t, target)
		if got := w.Header().Get("Cache-Control"); got != want || (w.Code == http.StatusOK) != (want != "") {
			t.Errorf("%s: status %d, Cache-Control %q, want %q", target, w.Code, got, want)
		}
	}
}

// Every module is in the script that the page loads, and the page loads no other, so that a first visit
// is as fast as possible.
func TestThePageLoadsOneScriptOfAllModules(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir("static")
	if err != nil {
		t.Fatal(err)
	}
	script := get(t, "/assets/page.js").Body.String()
	for _, f := range files {
		if path.Ext(f.Name()) == ".js" && f.Name() != "theme.js" && !strings.Contains(script, "// "+f.Name()+"\n") {
			t.Errorf("the script lacks %s: does nothing import it?", f.Name())
		}
	}
	scripts := regexp.MustCompile(`<script[^>]* src="\./assets/[0-9a-f]+/([^"]+)"`).FindAllStringSubmatch(get(t, "/").Body.String(), -1)
	if len(scripts) != 2 || scripts[0][1] != "theme.js" || scripts[1][1] != "page.js" {
		t.Errorf("the page loads the scripts %q", scripts)
	}
}

func TestFilesArePackedForWhoAcceptsThat(t *testing.T) {
	t.Parallel()
	plain := get(t, "/assets/page.js")
	for accepted, packed := range map[string]bool{"": false, "br": false, "gzip;q=0": false, "gzip; q=0.0": false, "gzip": true, "deflate, GZIP;q=0.5, br": true} {
		w := get(t, "/assets/page.js", "Accept-Encoding", accepted)
		if got := w.Header().Get("Content-Encoding") == "gzip"; got != packed {
			t.Errorf("%q: packed %v, want %v", accepted, got, packed)
		}
		if w.Header().Get("Vary") != "Accept-Encoding" || w.Header().Get("Content-Length") != strconv.Itoa(w.Body.Len()) {
			t.Errorf("%q: %v", accepted, w.Header())
		}
		body := io.Reader(w.Body)
		if packed {
			var err error
			if body, err = gzip.NewReader(body); err != nil {
				t.Fatal(err)
			}
		}
		text, err := io.ReadAll(body)
		if err != nil || string(text) != plain.Body.String() {
			t.Errorf("%q: %d bytes, %v", accepted, len(text), err)
		}
	}
	if w := get(t, "/assets/katex/fonts/KaTeX_Main-Regular.woff2", "Accept-Encoding", "gzip"); w.Header().Get("Content-Encoding") != "" {
		t.Error("a font, which is packed by itself, is packed again")
	}
}

// firstLoad is the most that a first visit may load, in bytes.
const firstLoad = 150_000

// The page names all files that it loads at the first visit.
func TestTheFirstLoadIsSmall(t *testing.T) {
	t.Parallel()
	sizes := map[string]int{}
	for _, found := range named.FindAllStringSubmatch(get(t, "/").Body.String(), -1) {
		sizes[found[1]] = get(t, found[1], "Accept-Encoding", "gzip").Body.Len()
	}
	total := get(t, "/", "Accept-Encoding", "gzip").Body.Len()
	for _, size := range sizes {
		total += size
	}
	t.Logf("%d bytes in the page and %d files", total, len(sizes))
	if total > firstLoad || total < firstLoad/10 {
		t.Errorf("the first load has %d bytes, want at most %d", total, firstLoad)
	}
}

func TestPageSupportsOnlyGETAndHEAD(t *testing.T) {
	t.Parallel()
	w := httptest.NewRecorder()
	webui.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST / answered %d, want 405", w.Code)
	}
}

// A violation of the Content Security Policy fails only in a browser, where a test may not notice it. The
// page's source therefore must not contain anything that the policy forbids.
func TestNothingInThePageNeedsAnotherHostOrInlineCode(t *testing.T) {
	t.Parallel()
	inline := regexp.MustCompile(`(?i)<script(?:[^>]*)>[^<]|<style|\son[a-z]+\s*=\s*"|\sstyle\s*=\s*"|javascript:`)
	other := regexp.MustCompile(`(?:https?:)?//[a-z0-9.-]+\.[a-z]{2,}`)
	markup := regexp.MustCompile(`\b(?:innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval)\b`)
	dir := os.DirFS("static")
	files, err := fs.ReadDir(dir, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		body, err := fs.ReadFile(dir, f.Name())
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(body), "http://www.w3.org/2000/svg", "")
		if hit := other.FindString(text); hit != "" {
			t.Errorf("%s names another host: %s", f.Name(), hit)
		}
		if hit := markup.FindString(text); hit != "" {
			t.Errorf("%s makes markup from text: %s", f.Name(), hit)
		}
		if path.Ext(f.Name()) == ".html" {
			if hit := inline.FindString(text); hit != "" {
				t.Errorf("%s has inline code: %s", f.Name(), hit)
			}
		}
	}
	for name, bad := range map[string]string{"script": "<script>x", "handler": `<a onclick="x">`, "style": `<p style="x">`} {
		if !inline.MatchString(bad) {
			t.Errorf("the check does not see an inline %s", name)
		}
	}
}
