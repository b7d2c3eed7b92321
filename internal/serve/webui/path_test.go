package webui_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"lilac/internal/testkit/webuitest"
)

// A team has one host for all its tools, and a reverse proxy that gives each a path. The page works below
// it: its files, its calls, its stream, and the files of conversations.
func TestThePageWorksBelowAPath(t *testing.T) {
	t.Parallel()
	f := newFake(t)
	f.conversation("Files")
	to, err := url.Parse(f.url(""))
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(http.StripPrefix("/tools/lilac", &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1}))
	t.Cleanup(func() {
		proxy.CloseClientConnections()
		proxy.Close()
	})
	const r = "web:s1:m1"
	sum := strings.Repeat("b", 64)
	f.set(func() { f.bytes = map[string][]byte{sum: drawing(t)} })
	p := webuitest.Open(t, proxy.URL+"/tools/lilac/#/s/s1", 1000, 900)
	f.listened()
	p.Say("draw it")
	f.until("it was sent", func() bool { return len(f.prompts) == 1 })
	f.emit("user_query", object{"messageId": "m1", "requestId": r, "content": "draw it", "queue": "prompt"})
	f.emit("stream.start", object{"requestId": r})
	f.emit("session.message_applied", object{"messageId": "m1", "requestId": r, "queue": "prompt"})
	f.text(r, "Here.", 0)
	f.emit("stream.file", object{"requestId": r, "fileId": "c/0", "filename": "drawing.png", "mimeType": "image/png", "bytes": 2048, "url": "/sessions/s1/files/" + sum})
	p.Until("the picture is seen", shownPictures+" === 1")
	p.Until("the brand has its icon", "document.querySelector('.brand img').naturalWidth > 0")
	p.Until("the style is loaded", "getComputedStyle(document.querySelector('.brand')).display === 'flex'")
	// The application that a browser installs begins at the page.
	var manifest struct {
		Start string `json:"start_url"`
		Scope string
	}
	at, err := url.Parse(webuitest.Eval[string](p, "document.querySelector('link[rel=manifest]').href"))
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Get(at.String())
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&manifest); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{manifest.Start, manifest.Scope} {
		if begins, err := at.Parse(address); err != nil || begins.Path != "/tools/lilac/" {
			t.Errorf("the application begins at %v", begins)
		}
	}
}
