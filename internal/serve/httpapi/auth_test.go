package httpapi

import (
	"bufio"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"lilac/internal/telemetry/metrics"
	"lilac/internal/testkit/effort"
)

const token = "correct-horse-battery-staple"

// dim is one value of a dimension of the matrix. good reports whether a request with this value may be
// accepted.
type dim struct {
	value string
	good  bool
}

var (
	hosts = []dim{
		{"127.0.0.1:7420", true},
		{"localhost:7420", true},
		{"[::1]:7420", true},
		{"127.8.9.1", true},
		{"lilac.example", true},
		{"LILAC.example:443", true},
		{"evil.example", false},
		{"127.0.0.1.evil.example:7420", false},
		{"localhost.evil.example", false},
		{"0.0.0.0:7420", false},
		{"192.168.1.4:7420", false},
		{"", false},
	}
	origins = []dim{
		{"", true},
		{"own", true},
		{"null", false},
		{"http://evil.example", false},
		{"http://127.0.0.1:3000", false},
		{"http://user@own", false},
		{"http://localhost:7420.evil.example", false},
		{"file://", false},
	}
	fetches = []dim{{"", true}, {"same-origin", true}, {"none", true}, {"same-site", false}, {"cross-site", false}, {"bogus", false}}
	tokens  = []dim{
		{"bearer", true},
		{"cookie", true},
		{"", false},
		{"wrong bearer", false},
		{"empty bearer", false},
		{"wrong cookie", false},
		{"token as cookie", false},
		{"query", false},
		{"basic", false},
		{"basic and cookie", true},
		{"basic and wrong cookie", false},
		{"wrong bearer and cookie", false},
		{"token of a proxy", false},
		{"token of a proxy and cookie", true},
		{"token of a proxy and wrong cookie", false},
	}
	methods  = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}
	upgrades = []string{"", "websocket"}
)

func matrixRequest(host, origin, fetch, tok, method, upgrade string) *http.Request {
	path := "/openapi.json"
	if method != "GET" && method != "HEAD" {
		path = "/render"
	}
	r := httptest.NewRequest(method, path, strings.NewReader(`{"text":"x"}`))
	r.Host = host
	if origin = strings.ReplaceAll(origin, "own", host); origin == host && origin != "" {
		origin = "http://" + host
	}
	if origin != "" {
		r.Header.Set("Origin", origin)
	}
	if fetch != "" {
		r.Header.Set("Sec-Fetch-Site", fetch)
	}
	switch tok {
	case "token of a proxy", "token of a proxy and cookie", "token of a proxy and wrong cookie": // oauth2-proxy adds its ID token
		r.Header.Set("Authorization", "Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxIn0.c2ln")
		tok = strings.TrimPrefix(strings.TrimPrefix(tok, "token of a proxy"), " and ")
	case "basic and cookie":
		r.SetBasicAuth("ann", "secret")
		tok = "cookie"
	case "basic and wrong cookie":
		r.SetBasicAuth("ann", "secret")
		tok = "wrong cookie"
	case "wrong bearer and cookie":
		r.Header.Set("Authorization", "Bearer "+token+"x")
		tok = "cookie"
	}
	switch tok {
	case "bearer":
		r.Header.Set("Authorization", "Bearer "+token)
	case "wrong bearer":
		r.Header.Set("Authorization", "Bearer "+token+"x")
	case "empty bearer":
		r.Header.Set("Authorization", "Bearer ")
	case "basic":
		r.Header.Set("Authorization", "Basic "+token)
	case "cookie":
		r.AddCookie(&http.Cookie{Name: cookieName(token), Value: cookieValue(token)})
	case "wrong cookie":
		r.AddCookie(&http.Cookie{Name: cookieName(token), Value: cookieValue("other")})
	case "token as cookie":
		r.AddCookie(&http.Cookie{Name: cookieName(token), Value: token})
	case "query":
		r.URL.RawQuery = "token=" + token
	}
	if upgrade != "" {
		r.Header.Set("Connection", "Upgrade")
		r.Header.Set("Upgrade", upgrade)
	}
	return r
}

// onlyStatus is a response of which nothing but the status is kept, because the matrix gets thousands of
// large ones.
type onlyStatus struct {
	header http.Header
	code   int
}

func (w *onlyStatus) Header() http.Header         { return w.header }
func (w *onlyStatus) WriteHeader(code int)        { w.code = code }
func (w *onlyStatus) Write(p []byte) (int, error) { return len(p), nil }

// runMatrix sends every combination. It returns the total and the numbers of requests that were wrongly
// accepted (in) and wrongly rejected (out).
func runMatrix(t *testing.T, h http.Handler) (all, in, out int) {
	var examples []string
	for _, host := range hosts {
		for _, origin := range origins {
			for _, fetch := range fetches {
				for _, tok := range tokens {
					for _, method := range methods {
						for _, upgrade := range upgrades {
							w := &onlyStatus{header: http.Header{}, code: http.StatusOK}
							h.ServeHTTP(w, matrixRequest(host.value, origin.value, fetch.value, tok.value, method, upgrade))
							refused := w.code == http.StatusForbidden || w.code == http.StatusUnauthorized
							may := host.good && origin.good && fetch.good && tok.good
							all++
							if may == !refused {
								continue
							}
							if may {
								out++
							} else {
								in++
							}
							if len(examples) < 5 {
								examples = append(examples, fmt.Sprintf("host %q origin %q fetch %q token %q %s %q: %d", host.value, origin.value, fetch.value, tok.value, method, upgrade, w.code))
							}
						}
					}
				}
			}
		}
	}
	if len(examples) > 0 {
		t.Log(strings.Join(examples, "\n"))
	}
	return all, in, out
}

// The metrics count every response, including those for paths outside the API. All unknown paths share
// one label, so that clients cannot create an unlimited number of time series.
func TestUnknownPathsAreCounted(t *testing.T) {
	var counted metrics.Registry
	api := New(Options{Token: token, Metrics: &counted})
	for _, one := range []struct {
		method, url, token string
		status             int
	}{
		{"GET", "http://127.0.0.1/nowhere", token, 404},
		{"GET", "http://127.0.0.1/nowhere/else", token, 404},
		{"PUT", "http://127.0.0.1/sessions", token, 405},
		{"GET", "http://127.0.0.1/nowhere", "wrong", 401},
		{"GET", "http://evil.example/status", token, 403},
		{"GET", "http://127.0.0.1/healthz", "", 200},
	} {
		r := httptest.NewRequest(one.method, one.url, nil)
		r.Header.Set("Authorization", "Bearer "+one.token)
		rec := httptest.NewRecorder()
		if api.ServeHTTP(rec, r); rec.Code != one.status {
			t.Errorf("%s %s: %d %s", one.method, one.url, rec.Code, rec.Body)
		}
	}
	var b strings.Builder
	if err := counted.Write(&b); err != nil {
		t.Fatal(err)
	}
	for status, n := range map[string]int{`other",status="404`: 2, `other",status="405`: 1, `other",status="401`: 1, `other",status="403`: 1, `GET /healthz",status="200`: 1} {
		if want := fmt.Sprintf("lilac_http_requests_total{route=\"%s\"} %d\n", status, n); !strings.Contains(b.String(), want) {
			t.Errorf("lacks %s", want)
		}
	}
	if strings.Contains(b.String(), "nowhere") {
		t.Error("an address became a name")
	}
}

func TestOnlyAuthorizedRequestsAreAllowed(t *testing.T) {
	effort.SkipSlow(t)
	o := Options{Token: token, AllowedHosts: []string{"lilac.example"}}
	all, in, out := runMatrix(t, New(o))
	if in != 0 || out != 0 {
		t.Errorf("of %d combinations %d were wrongly let in and %d wrongly refused", all, in, out)
	}
}

// Control: with the checks disabled, the matrix finds requests that are wrongly accepted.
func TestOnlyAuthorizedRequestsAreAllowedControl(t *testing.T) {
	if testing.Short() {
		t.Skip("the control runs without -short")
	}
	if _, in, _ := runMatrix(t, New(Options{Token: token, unchecked: true})); in == 0 {
		t.Error("with the checks off nothing was wrongly let in: the matrix shows nothing")
	}
}

func TestWithoutATokenEveryRequestIsRefused(t *testing.T) {
	h := New(Options{})
	for _, auth := range []string{"", "Bearer ", "Bearer x", "Bearer"} {
		r := httptest.NewRequest("GET", "http://localhost/openapi.json", nil)
		if auth != "" {
			r.Header.Set("Authorization", auth)
		}
		r.AddCookie(&http.Cookie{Name: cookieName(""), Value: cookieValue("")})
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized {
			t.Errorf("Authorization %q: %d", auth, w.Code)
		}
	}
}

func TestEveryRouteButThePublicOnesNeedsTheToken(t *testing.T) {
	h := New(Options{Token: token})
	for _, r := range newAPI(testOptions()).routes() {
		method, path := r.method, r.path
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(method, "http://localhost"+strings.NewReplacer("{id}", "x", "{topic}", "x").Replace(path), nil))
		wantPublic := map[string]bool{"/login": true, "/healthz": true, "/readyz": true, "/webhooks/{name}": true, "/join": true, "/shared/{code}": true, "/oidc/start": true, "/oidc/callback": true, "/oidc/sign-out": true, "/oidc/logout": true}[path]
		if path != "/login" && (w.Code == http.StatusUnauthorized) == wantPublic {
			t.Errorf("%s without a token: %d", r.pattern(), w.Code)
		}
	}
}

func TestRawRequestsWithInvalidHosts(t *testing.T) {
	srv := httptest.NewServer(New(Options{Token: token}))
	defer srv.Close()
	for name, head := range map[string]string{
		"no host in HTTP/1.0":    "GET /openapi.json HTTP/1.0\r\n",
		"absolute form":          "GET http://evil.example/openapi.json HTTP/1.1\r\nHost: localhost\r\n",
		"two origins":            "GET /openapi.json HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil.example\r\n",
		"rebinding":              "GET /openapi.json HTTP/1.1\r\nHost: evil.example\r\n",
		"port without a number":  "GET /openapi.json HTTP/1.1\r\nHost: localhost:\r\n",
		"preflight of a website": "OPTIONS /sessions HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil.example\r\nAccess-Control-Request-Method: POST\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c, err := net.Dial("tcp", srv.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if err := c.SetDeadline(time.Now().Add(time.Minute)); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(c, "%sAuthorization: Bearer %s\r\nConnection: close\r\n\r\n", head, token)
			res, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			body, _ := io.ReadAll(res.Body)
			if res.StatusCode != http.StatusForbidden || res.Header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%d %s", res.StatusCode, body)
			}
		})
	}
}

func TestLoginLinkWorksOnceAndExpires(t *testing.T) {
	now := time.Unix(1000, 0)
	logins := NewLogins(func() time.Time { return now })
	h := New(Options{Token: token, Logins: logins})
	open := func(code string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/login?code="+code, nil))
		return w
	}
	code := logins.NewCode()
	look := httptest.NewRecorder() // link previews send HEAD
	h.ServeHTTP(look, httptest.NewRequest("HEAD", "http://localhost/login?code="+code, nil))
	if len(look.Result().Cookies()) > 0 {
		t.Error("a look at the link logs in")
	}
	w := open(code)
	cookies := w.Result().Cookies()
	if w.Code != http.StatusSeeOther || len(cookies) != 1 {
		t.Fatalf("%d, %d cookies", w.Code, len(cookies))
	}
	if c := cookies[0]; !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Name != cookieName(token) || strings.Contains(c.Value, token) {
		t.Errorf("the cookie is %+v", c)
	}
	r := httptest.NewRequest("GET", "http://localhost/openapi.json", nil)
	r.AddCookie(cookies[0])
	in := httptest.NewRecorder()
	if h.ServeHTTP(in, r); in.Code != http.StatusOK {
		t.Errorf("the cookie is answered with %d", in.Code)
	}
	if w := open(code); w.Code != http.StatusUnauthorized || len(w.Result().Cookies()) > 0 {
		t.Errorf("a used code is answered with %d", w.Code)
	}
	late := logins.NewCode()
	now = now.Add(loginCodeAge)
	if w := open(late); w.Code != http.StatusUnauthorized {
		t.Errorf("an old code is answered with %d", w.Code)
	}
	for _, bad := range []string{"", "x"} {
		if w := open(bad); w.Code != http.StatusUnauthorized {
			t.Errorf("the code %q is answered with %d", bad, w.Code)
		}
	}
	first := logins.NewCode()
	for range maxLoginCodes {
		logins.NewCode()
	}
	if logins.Use(first) {
		t.Error("more codes are open than there may be")
	}
}

// Browsers ignore the port when they store cookies: they send a host's cookies to all of its ports and
// keep only one cookie per name. Two servers on a host therefore need different names.
func TestTwoServersOnAHostHaveSeparateCookies(t *testing.T) {
	jar := map[string]string{}
	for _, one := range []string{token, "another-" + token} {
		logins := NewLogins(time.Now)
		w := httptest.NewRecorder()
		New(Options{Token: one, Logins: logins}).ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/login?code="+logins.NewCode(), nil))
		for _, c := range w.Result().Cookies() {
			jar[c.Name] = c.Value
		}
	}
	for _, one := range []string{token, "another-" + token} {
		r := httptest.NewRequest("GET", "http://localhost/openapi.json", nil)
		for name, value := range jar {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		w := httptest.NewRecorder()
		if New(Options{Token: one}).ServeHTTP(w, r); w.Code != http.StatusOK {
			t.Errorf("with both logins: %d", w.Code)
		}
	}
}

func TestLinkFromAnotherSiteShowsAnExplanation(t *testing.T) {
	for accept, want := range map[string]string{"text/html,*/*": `<a href="./">Open Lilac</a>`, "*/*": `"cross_site"`} {
		r := httptest.NewRequest("GET", "http://localhost/", nil)
		r.Header.Set("Accept", accept)
		r.Header.Set("Sec-Fetch-Site", "cross-site")
		r.Header.Set("Sec-Fetch-Mode", "navigate")
		w := httptest.NewRecorder()
		if New(Options{Token: token}).ServeHTTP(w, r); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), want) {
			t.Errorf("who accepts %s: %d %s", accept, w.Code, w.Body)
		}
	}
}

// If the server listens on all addresses, the login link uses localhost, which is an allowed host.
func TestLoginLinkPointsToThisServer(t *testing.T) {
	for addr, want := range map[string]string{
		"[::]:7420":               "http://localhost:7420/login?code=",
		"0.0.0.0:7420":            "http://localhost:7420/login?code=",
		"control: 127.0.0.1:7420": "http://127.0.0.1:7420/login?code=",
		"control: [::1]:7420":     "http://[::1]:7420/login?code=",
		"control: lilac:7420":     "http://lilac:7420/login?code=",
	} {
		h := New(Options{Token: token, Addr: strings.TrimPrefix(addr, "control: ")})
		r := httptest.NewRequest("POST", "http://localhost/login-codes", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		var made struct{ URL string }
		if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || !strings.HasPrefix(made.URL, want) {
			t.Errorf("on %s the link is %q (%v), want %s…", addr, made.URL, err, want)
		}
	}
}

// An app on the home screen of a phone has its own cookies and no address bar. The browser fetches its
// icon and its manifest without cookies, and its login page takes the link.
func TestAnAppOnTheHomeScreenIsInstalledAndLogsIn(t *testing.T) {
	logins := NewLogins(time.Now)
	page := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	h := New(Options{Token: token, Logins: logins, Page: page})
	do := func(method, target string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://localhost"+target, nil)
		r.Header.Set("Accept", "text/html")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	for target, want := range map[string]int{
		"/assets/0123/icon.png": 200, "/assets/0123/icon.svg": 200, "/assets/0123/lilac.webmanifest": 200,
		"/assets/0123/page.js": 401, "/assets/0123/0123/icon.png": 401, "/icon.png": 401,
	} {
		if got := do("GET", target).Code; got != want {
			t.Errorf("%s without a login: %d, want %d", target, got, want)
		}
	}
	if got := do("POST", "/assets/0123/icon.png").Code; got != http.StatusUnauthorized {
		t.Errorf("POST of the icon: %d", got)
	}
	for target, action := range map[string]string{"/": `action="./login"`, "/assets/0123/page.js": `action="../../login"`, "/login?code=x": `action="./login"`} {
		w := do("GET", target)
		if !strings.Contains(w.Body.String(), action) || !strings.Contains(w.Header().Get("Content-Security-Policy"), "form-action 'self'") {
			t.Errorf("%s has no form that leads to the login: %s", target, w.Body)
		}
	}
	link := logins.NewLink("127.0.0.1:7420")
	if w := do("GET", "/login?code="+url.QueryEscape(" "+link+"\n")); w.Code != http.StatusSeeOther || len(w.Result().Cookies()) == 0 {
		t.Errorf("a whole link is not taken as a code: %d", w.Code)
	}
}

// A browser that refuses cookies would ask for one login link after the other.
func TestABrowserThatRefusesCookiesIsTold(t *testing.T) {
	logins := NewLogins(time.Now)
	h := New(Options{Token: token, Logins: logins})
	get := func(address string) *httptest.ResponseRecorder {
		r := httptest.NewRequest("GET", address, nil)
		r.Header.Set("Accept", "text/html,*/*")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	const cause = "allow cookies for this site"
	to := get("http://localhost/login?code=" + logins.NewCode()).Header().Get("Location")
	if w := get("http://localhost/" + strings.TrimPrefix(to, "./")); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), cause) {
		t.Errorf("after a login, %s without a cookie is answered with %d %s", to, w.Code, w.Body)
	}
	if w := get("http://localhost/"); strings.Contains(w.Body.String(), cause) {
		t.Errorf("control: a browser that did not log in is told to allow cookies: %s", w.Body)
	}
}

func TestBrowserWithoutALoginGetsAPage(t *testing.T) {
	r := httptest.NewRequest("GET", "http://localhost/", nil)
	r.Header.Set("Accept", "text/html,*/*")
	w := httptest.NewRecorder()
	New(Options{Token: token}).ServeHTTP(w, r)
	if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), "login link") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	// The command finds the server by itself. An address or a path in the page could be wrong on the
	// reader's machine.
	if body := w.Body.String(); !strings.Contains(body, "<pre>lilac login</pre>") || strings.Contains(body, "7420") || strings.Contains(body, "~/.lilac") {
		t.Errorf("the page does not say what to do here: %s", body)
	}
	// A browser applies the style only if the policy contains the hash of exactly this style.
	_, rest, _ := strings.Cut(w.Body.String(), "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	sum := sha256.Sum256([]byte(style))
	policy := w.Header().Get("Content-Security-Policy")
	if want := "style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; style == "" || !strings.Contains(policy, want) || strings.Contains(policy, "script-src") {
		t.Errorf("the policy %q does not name the style %q", policy, style)
	}
}
