package webui_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/webuitest"
)

// proxied puts a reverse proxy in front of the fake, which answers by itself while instead returns a handler.
func proxied(t *testing.T, f *fake, instead func(r *http.Request) http.HandlerFunc) (address string) {
	t.Helper()
	to, err := url.Parse(f.url(""))
	if err != nil {
		t.Fatal(err)
	}
	pass := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if own := instead(r); own != nil {
			own(w, r)
			return
		}
		pass.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		proxy.CloseClientConnections()
		proxy.Close()
	})
	return proxy.URL + "/"
}

// Nginx and others answer with pages of HTML. The page says what that means for Lilac.
func TestAnAnswerOfAProxyIsExplained(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Talk")
	var status atomic.Int32
	address := proxied(t, f, func(r *http.Request) http.HandlerFunc {
		code := int(status.Load())
		if code == 0 || r.Method != http.MethodPost {
			return nil
		}
		return func(w http.ResponseWriter, _ *http.Request) {
			if code == http.StatusFound { // an expired login, which leads to another host
				w.Header().Set("Location", "http://login.invalid/")
			}
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(code)
			fmt.Fprintf(w, "<html><h1>%d</h1></html>", code)
		}
	})
	p := webuitest.Open(t, address+"#/s/s1", 1000, 900)
	f.listened()
	for code, words := range map[int32]string{
		http.StatusUnauthorized: "Load this page again", http.StatusFound: "Load this page again", http.StatusRequestEntityTooLarge: "too large",
	} {
		status.Store(code)
		p.Say(fmt.Sprint("number ", code))
		p.Until("it is explained", fmt.Sprintf("[...document.querySelectorAll('#outbox > *')].some(e => e.innerText.includes('number %d') && e.innerText.includes('%s'))", code, words))
	}
	status.Store(http.StatusBadGateway)
	p.Say("once more")
	p.Until("it is explained", "document.getElementById('outbox').innerText.includes('The proxy does not reach Lilac')")
	status.Store(0)
	f.until("it is sent when Lilac is reached", func() bool { return len(f.prompts) == 1 })
}

// Lighttpd and others collect a response until it ends, which a stream never does.
func TestAProxyThatBuffersTheStreamIsNamed(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	f := newFake(t)
	f.conversation("Talk")
	address := proxied(t, f, func(r *http.Request) http.HandlerFunc {
		if r.URL.Path != "/events" {
			return nil
		}
		return func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
	})
	p := webuitest.Open(t, "about:blank", 1000, 900)
	p.Before("const real = setTimeout; setTimeout = (f, ms, ...rest) => real(f, ms === 45000 ? 300 : ms, ...rest)", address+"#/s/s1")
	p.Until("it is named", "document.getElementById('problem').innerText.includes('must not buffer')")
}
