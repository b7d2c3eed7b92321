package web_test

import (
	"context"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"unicode/utf8"

	"lilac/internal/agent/egress"
	"lilac/internal/agent/web"
	"lilac/internal/foundation/fault"
)

// site is a host of the web. Its certificate is for example.com, and every name leads to it by
// way of a public address.
func site(t testing.TB, hosts []string, pages map[string]func(http.ResponseWriter)) *web.Reader {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if page, ok := pages[r.URL.Path]; ok {
			page(w)
			return
		}
		http.NotFound(w, r)
	}))
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	return web.NewReader(hosts, egress.FetchOptions{
		Roots: roots,
		Resolve: func(context.Context, string) ([]netip.Addr, error) {
			return []netip.Addr{netip.MustParseAddr("1.1.1.1")}, nil
		},
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
		},
	})
}

func says(contentType, body string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", contentType)
		_, _ = w.Write([]byte(body))
	}
}

const article = `<!doctype html><html><head><title> The
 title </title><script>steal()</script><style>p{}</style></head><body>
<nav><a href="/menu">Menu</a></nav>
<main><h1>Head</h1><p>A <b>bold</b> <a href="/x?a=1">link</a>.</p>
<ul><li>one</li><li>two</li></ul><pre><code class="language-go">x := 1
</code></pre><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
<p hidden>H1</p><p style="display: none">H2</p><p aria-hidden="true">H3</p><!-- H4 --><form>H5</form><p style="VISIBILITY:hidden">H6</p>
</main><footer>Imprint</footer></body></html>`

const markdown = "# Head\n\nA **bold** [link](https://example.com/x?a=1).\n\n- one\n- two\n\n```go\nx := 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |"

func TestAPageIsReadAsMarkdown(t *testing.T) {
	for name, c := range map[string]struct {
		page        func(http.ResponseWriter)
		title, body string
	}{
		"an article":                      {says("text/html; charset=utf-8", article), "The title", markdown},
		"without a type":                  {says("", "<html><body><p>Text</p></body></html>"), "", "Text"},
		"two articles":                    {says("text/html", "<article>a</article><article>b</article>"), "", "a\n\nb"},
		"plain text":                      {says("text/plain", "a <b> & c\n"), "", "a <b> & c\n"},
		"JSON":                            {says("application/vnd.api+json", `{"a":1}`), "", `{"a":1}`},
		"Shift JIS":                       {says("text/html; charset=Shift_JIS", "<p>\x93\xfa\x96\x7b</p>"), "", "日本"},
		"Latin-1 in meta":                 {says("text/html", `<meta charset="iso-8859-1"><p>caf`+"\xe9</p>"), "", "café"},
		"no UTF-8":                        {says("text/plain; charset=utf-8", "a\xffb"), "", "a\uFFFDb"},
		"what the library cannot convert": {says("text/html", "<h1>a</h1><h3>#</h3><p>b"), "", "a # b"},
		"empty":                           {says("text/html", ""), "", ""},
		"no script runs":                  {says("text/html", `<noscript>please enable</noscript><p onclick="x()">ok</p>`), "", "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			r := site(t, []string{"example.com"}, map[string]func(http.ResponseWriter){"/": c.page})
			p, err := r.Read(t.Context(), "http://example.com/", 0, 1000) // over HTTPS
			if err != nil {
				t.Fatal(err)
			}
			if p.Title != c.title || p.Body != c.body || p.URL != "https://example.com/" {
				t.Errorf("%s is titled %q:\n%q\nwant %q", p.URL, p.Title, p.Body, c.body)
			}
		})
	}
}

func TestALongPageIsReadInParts(t *testing.T) {
	r := site(t, []string{"example.com"}, map[string]func(http.ResponseWriter){"/": says("text/plain", strings.Repeat("ü", 25))})
	var whole string
	for offset, parts := 0, 0; ; parts++ {
		p, err := r.Read(t.Context(), "https://example.com/", offset, 10)
		if err != nil || p.Total != 25 || parts > 3 {
			t.Fatalf("part %d of %d characters: %v", parts, p.Total, err)
		}
		whole += p.Body
		offset += utf8.RuneCountInString(p.Body)
		if more := strings.Contains(p.Text(), "Read on with --offset="); more != (offset < 25) {
			t.Errorf("at %d: %q", offset, p.Text())
		}
		if offset == 25 {
			break
		}
	}
	if whole != strings.Repeat("ü", 25) {
		t.Errorf("the parts are %q", whole)
	}
	if p, err := r.Read(t.Context(), "https://example.com/", 1000, 10); err != nil || p.Body != "" {
		t.Errorf("behind the end: %q, %v", p.Body, err)
	}
}

func TestPagesThatCannotBeReadSayWhy(t *testing.T) {
	r := site(t, []string{"example.com"}, map[string]func(http.ResponseWriter){
		"/picture": says("image/png", "\x89PNG"),
		"/away": func(w http.ResponseWriter) {
			w.Header().Set("Location", "https://evil.test/?secret")
			w.WriteHeader(302)
		},
		"/inside":   func(w http.ResponseWriter) { w.Header().Set("Location", "http://169.254.169.254/"); w.WriteHeader(302) },
		"/large":    says("text/plain", strings.Repeat("x", 6<<20)),
		"/internal": func(w http.ResponseWriter) { w.WriteHeader(500) },
	})
	for address, want := range map[string]struct {
		kind fault.Kind
		says string
	}{
		"https://example.com/picture":  {fault.Invalid, "a file of the type image/png"},
		"https://example.com/away":     {fault.Denied, "evil.test"},
		"https://example.com/inside":   {fault.Denied, "169.254.169.254"},
		"https://example.com/large":    {fault.TooLarge, "bytes"},
		"https://example.com/internal": {fault.Unavailable, "500"},
		"https://example.com/nothing":  {fault.NotFound, "not there"},
		"https://other.test/":          {fault.Denied, "web.hosts"},
		"https://127.0.0.1/":           {fault.Denied, "web.hosts"},
		"file:///etc/passwd":           {fault.Invalid, "not the address of a page"},
		"example.com":                  {fault.Invalid, "not the address of a page"},
		"":                             {fault.Invalid, "not the address of a page"},
	} {
		_, err := r.Read(t.Context(), address, 0, 100)
		if fault.KindOf(err) != want.kind || err == nil || !strings.Contains(err.Error(), want.says) {
			t.Errorf("%s: %v", address, err)
		}
	}
}

// A name of the public internet that leads to an internal address gains nothing.
func TestANameThatLeadsInsideIsRefused(t *testing.T) {
	for addr, refused := range map[string]bool{"127.0.0.1": true, "10.0.0.1": true, "169.254.169.254": true, "1.1.1.1": false} {
		dialled := false
		r := web.NewReader([]string{"*"}, egress.FetchOptions{
			Resolve: func(context.Context, string) ([]netip.Addr, error) {
				return []netip.Addr{netip.MustParseAddr(addr)}, nil
			},
			Dial: func(context.Context, string, string) (net.Conn, error) {
				dialled = true
				return nil, net.ErrClosed
			},
		})
		if _, err := r.Read(t.Context(), "https://example.com/", 0, 100); dialled == refused || (fault.KindOf(err) == fault.Denied) != refused {
			t.Errorf("%s is connected to: %v: %v", addr, dialled, err)
		}
	}
}
