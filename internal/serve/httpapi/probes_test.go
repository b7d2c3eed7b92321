package httpapi

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// head sends raw header lines and returns the status of the response.
func head(t *testing.T, addr, lines string) int {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(c, lines+"Connection: close\r\n\r\n")
	res, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	return res.StatusCode
}

// The kubelet probes a pod by its IP address, other probes use a service name, and
// HAProxy sends HTTP/1.0 without Host. None of them is in allowedHosts.
func TestHealthProbesAcceptEveryHost(t *testing.T) {
	srv := httptest.NewServer(New(Options{Token: token, MetricsToken: "m"}))
	defer srv.Close()
	addr := srv.Listener.Addr().String()
	for _, host := range []string{
		"HTTP/1.1\r\nHost: 10.1.2.3:7420\r\n", "HTTP/1.1\r\nHost: [fd00::1]:7420\r\n", "HTTP/1.1\r\nHost: lilac.default.svc\r\n",
		"HTTP/1.1\r\nHost: odd:\r\n", "HTTP/1.0\r\n",
	} {
		for _, path := range []string{"/healthz", "/readyz"} {
			if got := head(t, addr, "GET "+path+" "+host); got != http.StatusOK {
				t.Errorf("GET %s %q: status %d, want 200", path, host, got)
			}
		}
		// Control: routes that need a token reject the same hosts, even with the token.
		if got := head(t, addr, "GET /status "+host+"Authorization: Bearer "+token+"\r\n"); got != http.StatusForbidden {
			t.Errorf("GET /status %q: status %d, want 403", host, got)
		}
		if got := head(t, addr, "GET /login?code=x "+host); got != http.StatusForbidden {
			t.Errorf("GET /login %q: status %d, want 403", host, got)
		}
	}
	// A page of another site cannot read a probe's response.
	if got := head(t, addr, "GET /healthz HTTP/1.1\r\nHost: evil.example\r\nOrigin: http://other.example\r\n"); got != http.StatusForbidden {
		t.Errorf("a probe of another site: status %d, want 403", got)
	}
}

func TestMetricsAcceptAnIPAddressWithTheToken(t *testing.T) {
	srv := httptest.NewServer(New(Options{Token: token, MetricsToken: "m"}))
	defer srv.Close()
	addr := srv.Listener.Addr().String()
	for _, c := range []struct {
		host, token string
		want        int
	}{
		{"10.1.2.3:7420", "m", 200},
		{"[fd00::1]:7420", "m", 200},
		{"[fd00::1]", "m", 200},
		{"10.1.2.3", token, 200},
		{"10.1.2.3", "wrong", 401},
		{"lilac.default.svc", "m", 403}, // a DNS name can be rebound
		{"10.1.2.3.evil.example", "m", 403},
	} {
		got := head(t, addr, "GET /metrics HTTP/1.1\r\nHost: "+c.host+"\r\nAuthorization: Bearer "+c.token+"\r\n")
		if got != c.want {
			t.Errorf("Host %s with the token %q: status %d, want %d", c.host, c.token, got, c.want)
		}
	}
}

// Behind nginx with its default settings, Host is the address of the upstream.
func TestRequestsThroughAProxy(t *testing.T) {
	const page, upstream = "https://lilac.example", "127.0.0.1:7420"
	for name, c := range map[string]struct {
		peer    string
		trusted string
		host    string
		headers []string
		want    int
	}{
		"default nginx":                     {"10.0.0.1:1", "", upstream, nil, 403},
		"Host passed on":                    {"10.0.0.1:1", "", "lilac.example", nil, 200},
		"X-Forwarded-Host":                  {"10.0.0.1:1", "10.0.0.0/8", upstream, []string{"X-Forwarded-Host", "lilac.example", "X-Forwarded-Proto", "https"}, 200},
		"Forwarded":                         {"10.0.0.1:1", "10.0.0.0/8", upstream, []string{"Forwarded", `for=1.2.3.4;host="lilac.example";proto=https`}, 200},
		"the last entry counts":             {"10.0.0.1:1", "10.0.0.0/8", upstream, []string{"X-Forwarded-Host", "evil.example, lilac.example"}, 200},
		"an IPv4 peer on IPv6":              {"[::ffff:10.0.0.1]:1", "10.0.0.0/8", upstream, []string{"X-Forwarded-Host", "lilac.example"}, 200},
		"a forged first entry":              {"10.0.0.1:1", "10.0.0.0/8", upstream, []string{"X-Forwarded-Host", "lilac.example, evil.example"}, 403},
		"not from the trusted proxy":        {"192.0.2.9:1", "10.0.0.0/8", upstream, []string{"X-Forwarded-Host", "lilac.example"}, 403},
		"no trusted proxy":                  {"10.0.0.1:1", "", upstream, []string{"X-Forwarded-Host", "lilac.example"}, 403},
		"a host that is not allowed":        {"10.0.0.1:1", "10.0.0.0/8", upstream, []string{"X-Forwarded-Host", "evil.example"}, 403},
		"a trusted peer without the header": {"10.0.0.1:1", "10.0.0.0/8", upstream, nil, 403},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{Token: token, AllowedHosts: []string{"lilac.example"}}
			if c.trusted != "" {
				o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix(c.trusted)}
			}
			r := httptest.NewRequest("POST", "/render", strings.NewReader(`{"text":"x"}`))
			r.RemoteAddr, r.Host = c.peer, c.host
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Origin", page)
			for i := 0; i < len(c.headers); i += 2 {
				r.Header.Set(c.headers[i], c.headers[i+1])
			}
			w := httptest.NewRecorder()
			New(o).ServeHTTP(w, r)
			if w.Code != c.want {
				t.Errorf("status %d, want %d: %s", w.Code, c.want, w.Body)
			}
			if body := w.Body.String(); name == "default nginx" && (!strings.Contains(body, "proxy_set_header Host") || !strings.Contains(body, "X-Forwarded-Host")) {
				t.Errorf("the error does not name the header to set: %s", body)
			}
		})
	}
}

// The page's cookie is marked Secure if and only if the client's connection to the proxy uses TLS.
func TestTheCookieIsSecureBehindATLSProxy(t *testing.T) {
	for proto, secure := range map[string]bool{"https": true, "http": false, "": false} {
		o := Options{Token: token, AllowedHosts: []string{"lilac.example"}, TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/32")}}
		o.setDefaults()
		r := httptest.NewRequest("GET", "/login?code="+o.Logins.NewCode(), nil)
		r.RemoteAddr = "10.0.0.1:1"
		r.Header.Set("X-Forwarded-Host", "lilac.example")
		if proto != "" {
			r.Header.Set("X-Forwarded-Proto", proto)
		}
		w := httptest.NewRecorder()
		New(o).ServeHTTP(w, r)
		if cookies := w.Result().Cookies(); len(cookies) != 1 || cookies[0].Secure != secure {
			t.Errorf("proto %q: %d, cookies %v, want Secure = %t", proto, w.Code, cookies, secure)
		}
	}
}

// Behind a proxy that changes the Host header, browsers send an Origin that does not match it for the script
// of the page, which is a module. The script has to arrive: it shows the error that says how to mend that.
func TestThePageArrivesThroughAProxyThatChangesTheHost(t *testing.T) {
	const upstream = "127.0.0.1:7420"
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	h := New(Options{Token: token, Page: page})
	for name, c := range map[string]struct {
		method, path, host, site string
		login                    bool
		want                     int
	}{
		"the script":          {"GET", "/assets/1/page.js", upstream, "same-origin", true, 200},
		"over plain HTTP":     {"GET", "/assets/1/page.js", upstream, "", true, 200},
		"to a stranger":       {"GET", "/assets/1/page.js", upstream, "same-origin", false, 401},
		"for another site":    {"GET", "/assets/1/page.js", upstream, "cross-site", true, 403},
		"under another name":  {"GET", "/assets/1/page.js", "evil.example", "same-origin", true, 403},
		"what is no file":     {"GET", "/openapi.json", upstream, "same-origin", true, 403},
		"a call":              {"POST", "/render", upstream, "same-origin", true, 403},
		"a call of a page":    {"POST", "/assets/1/page.js", upstream, "same-origin", true, 403},
		"a path with no file": {"OPTIONS", "/", upstream, "same-origin", true, 403},
	} {
		r := httptest.NewRequest(c.method, c.path, nil)
		r.Host = c.host
		r.Header.Set("Origin", "https://lilac.example")
		if c.site != "" {
			r.Header.Set("Sec-Fetch-Site", c.site)
		}
		if c.login {
			r.AddCookie(&http.Cookie{Name: cookieName(token), Value: cookieValue(token)})
		}
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("%s: %d, want %d", name, w.Code, c.want)
		}
	}
}

// HAProxy compresses event streams, too, and then holds the newest events back from clients in Go.
func TestProxiesAreAskedToPassStreamsOnAsTheyAre(t *testing.T) {
	w := httptest.NewRecorder()
	if _, err := (&streams{}).start(w, httptest.NewRequest("GET", "/events", nil)); err != nil {
		t.Fatal(err)
	}
	if got := w.Header(); got.Get("Cache-Control") != "no-store, no-transform" || got.Get("X-Accel-Buffering") != "no" {
		t.Errorf("the headers are %v", got)
	}
}
