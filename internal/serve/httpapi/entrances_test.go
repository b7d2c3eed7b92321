package httpapi

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"lilac/internal/core/account"
	"lilac/internal/foundation/fault"
)

// stubOIDC accepts the flow and code "good".
type stubOIDC struct{}

func (stubOIDC) Name() string { return "<Team>" }

func (stubOIDC) Start(_ context.Context, _, redirect string) (address, id string, err error) {
	return "https://id.example/?to=" + url.QueryEscape(redirect), "good", nil
}

func (stubOIDC) Exit(context.Context) (string, error) { return "https://id.example/exit", nil }

func (stubOIDC) Ended(_ context.Context, token string) (string, error) {
	if token != "good" {
		return "", fault.New(fault.Invalid, "The logout token is not valid")
	}
	return "x 1", nil
}

func (stubOIDC) Finish(_ context.Context, browser string, query url.Values) (account.Subject, error) {
	if browser != "good" || query.Get("code") != "good" {
		return account.Subject{}, fault.Wrap(fault.Denied, errors.New("what the provider said"), "This is <refused>.")
	}
	return account.Subject{ID: "x 1", Name: "Ada", Role: account.Member}, nil
}

// browse sends a request as a browser that follows a link of another site.
func (w *team) browse(h http.Handler, method, target, body string, change func(*http.Request)) *http.Response {
	r := httptest.NewRequest(method, "http://localhost"+target, strings.NewReader(body))
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Sec-Fetch-Site", "cross-site")
	r.Header.Set("Sec-Fetch-Mode", "navigate")
	r.Header.Set("Sec-Fetch-Dest", "document")
	if change != nil {
		change(r)
	}
	rec := httptest.NewRecorder()
	h.ServeHTTP(rec, r)
	return rec.Result()
}

func TestLinksOfOtherSitesLeadToTheEntrances(t *testing.T) {
	w := newTeam(t)
	o := w.opt
	o.OIDC, o.PublicURL = stubOIDC{}, "https://lilac.example"
	h := New(o)
	_, secret, err := w.accounts.Invite(t.Context(), account.Token, account.NewInvite{Name: "<Ada>"})
	if err != nil {
		t.Fatal(err)
	}
	link := strings.Repeat("a", 26)
	for name, c := range map[string]struct {
		method, target, body string
		change               func(*http.Request)
		want                 int
	}{
		"an invite":                         {"GET", "/join?code=" + secret, "", nil, http.StatusOK},
		"a wrong invite":                    {"GET", "/join?code=x", "", nil, http.StatusUnauthorized},
		"a link":                            {"GET", "/shared/" + link, "", nil, http.StatusOK},
		"a link of another form":            {"GET", "/shared/..%2f..", "", nil, http.StatusNotFound},
		"the login":                         {"GET", "/oidc/start", "", nil, http.StatusSeeOther},
		"the way back, without the browser": {"GET", "/oidc/callback?code=good", "", nil, http.StatusForbidden},
		"a form of another site":            {"POST", "/join", "code=" + secret, nil, http.StatusForbidden},
		"a form of another origin": {"POST", "/join", "code=" + secret, func(r *http.Request) {
			r.Header.Del("Sec-Fetch-Site")
			r.Header.Set("Origin", "https://evil.example")
		}, http.StatusForbidden},
		"a script":         {"GET", "/join?code=" + secret, "", func(r *http.Request) { r.Header.Set("Sec-Fetch-Mode", "no-cors") }, http.StatusForbidden},
		"a frame":          {"GET", "/join?code=" + secret, "", func(r *http.Request) { r.Header.Set("Sec-Fetch-Dest", "iframe") }, http.StatusForbidden},
		"another host":     {"GET", "/join?code=" + secret, "", func(r *http.Request) { r.Host = "evil.example" }, http.StatusForbidden},
		"control: a route": {"GET", "/sessions", "", nil, http.StatusForbidden},
	} {
		res := w.browse(h, c.method, c.target, c.body, c.change)
		if res.StatusCode != c.want {
			t.Errorf("%s: %d, want %d", name, res.StatusCode, c.want)
		}
		for _, cookie := range res.Cookies() {
			if strings.HasPrefix(cookie.Name, "lilac_person_") {
				t.Errorf("%s signs somebody in", name)
			}
		}
	}
	// The invite still works, and its page shows the name as a text.
	if res := w.browse(h, "GET", "/join?code="+secret, "", nil); !strings.Contains(bodyOf(t, res), "Welcome, &lt;Ada&gt;") || !strings.Contains(res.Header.Get("Content-Security-Policy"), "form-action 'self'") {
		t.Error("the page of the invite shows no text, or allows no form")
	}
}

func TestThePersonReturnsFromTheProviderToTheLink(t *testing.T) {
	w := newTeam(t)
	o := w.opt
	o.OIDC, o.PublicURL = stubOIDC{}, "https://lilac.example"
	var logged bytes.Buffer
	o.Logger = slog.New(slog.NewTextHandler(&logged, nil))
	h := New(o)
	cookies := map[string]*http.Cookie{}
	open := func(target string) *http.Response {
		res := w.browse(h, "GET", target, "", func(r *http.Request) {
			for _, c := range cookies {
				if c.SameSite != http.SameSiteStrictMode { // the browser comes from another site
					r.AddCookie(c)
				}
			}
		})
		for _, c := range res.Cookies() {
			cookies[c.Name] = c
			if c.MaxAge < 0 {
				delete(cookies, c.Name)
			}
		}
		return res
	}
	link := strings.Repeat("b", 26)
	if res := open("/shared/" + link); res.Header.Get("Refresh") != "0; url=../#/shared/"+link {
		t.Errorf("the link leads to %q", res.Header.Get("Refresh"))
	}
	if res := open("/oidc/start"); res.Header.Get("Location") != "https://id.example/?to="+url.QueryEscape("https://lilac.example/oidc/callback") {
		t.Errorf("the login leads to %q", res.Header.Get("Location"))
	}
	res := open("/oidc/callback?code=good")
	if res.StatusCode != http.StatusOK || res.Header.Get("Refresh") != "0; url=../?login#/shared/"+link {
		t.Errorf("after the login: %d %q", res.StatusCode, res.Header.Get("Refresh"))
	}
	signedIn := false
	for name, c := range cookies {
		signedIn = signedIn || strings.HasPrefix(name, "lilac_person_") && c.HttpOnly && c.SameSite == http.SameSiteStrictMode
		if strings.HasPrefix(name, "lilac_next_") {
			t.Errorf("the cookie %s is still there", name)
		}
	}
	if !signedIn {
		t.Error("nobody is signed in")
	}
	if text := bodyOf(t, open("/oidc/callback?code=bad")); !strings.Contains(text, "This is &lt;refused&gt;.") || !strings.Contains(text, "Sign in with &lt;Team&gt;") {
		t.Errorf("the refusal is %s", text)
	}
	if !strings.Contains(logged.String(), "what the provider said") {
		t.Errorf("the log does not say why: %s", logged.String())
	}
}

// The provider signs a person out, and a person signs out there.
func TestALoginEndsAtBothPlaces(t *testing.T) {
	w := newTeam(t)
	o := w.opt
	o.OIDC, o.PublicURL = stubOIDC{}, "https://lilac.example"
	h := New(o)
	if res := w.browse(h, "GET", "/oidc/sign-out", "", nil); res.StatusCode != http.StatusSeeOther || res.Header.Get("Location") != "https://id.example/exit" {
		t.Errorf("signing out at the provider: %d %q", res.StatusCode, res.Header.Get("Location"))
	}
	_, login, err := w.accounts.SignIn(t.Context(), account.Subject{ID: "x 1", Name: "Ada", Role: account.Member})
	if err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{"bad", "good"} {
		_, before, _ := w.accounts.Caller(t.Context(), login)
		res := w.browse(h, "POST", "/oidc/logout", "logout_token="+token, func(r *http.Request) {
			r.Header = http.Header{"Content-Type": {"application/x-www-form-urlencoded"}} // a program of the provider, by an address of its own
			r.Host = "lilac.internal"
		})
		want := map[string]int{"bad": http.StatusBadRequest, "good": http.StatusOK}[token]
		if _, after, _ := w.accounts.Caller(t.Context(), login); res.StatusCode != want || !before || after != (token == "bad") {
			t.Errorf("%s: %d; signed in before: %v, after: %v", token, res.StatusCode, before, after)
		}
	}
}

// Behind a proxy with TLS that is not trusted, cookies are for TLS where people reach the server with it.
func TestCookiesAreForTheAddressOfThePeople(t *testing.T) {
	w := newTeam(t)
	o := w.opt
	o.OIDC, o.Hosts = stubOIDC{}, NewHosts([]string{"lilac.example"})
	for _, c := range []struct {
		url, host string
		want      bool
	}{
		{"https://lilac.example", "lilac.example", true},
		{"https://lilac.example/tools", "LILAC.example", true},
		{"https://lilac.example", "localhost:7420", false},
		{"http://lilac.example", "lilac.example", false},
		{"", "lilac.example", false},
	} {
		o.PublicURL = c.url
		res := w.browse(New(o), "GET", "/oidc/start", "", func(r *http.Request) { r.Host = c.host })
		if len(res.Cookies()) != 1 || res.Cookies()[0].Secure != c.want {
			t.Errorf("%s at %s: %d %v", c.host, c.url, res.StatusCode, res.Cookies())
		}
	}
}

func bodyOf(t *testing.T, res *http.Response) string {
	t.Helper()
	defer res.Body.Close()
	var b strings.Builder
	buf := make([]byte, 1024)
	for {
		n, err := res.Body.Read(buf)
		b.Write(buf[:n])
		if err != nil {
			return b.String()
		}
	}
}

// Without accounts and a provider, there is nothing to enter by.
func TestWithoutAccountsThereAreNoEntrances(t *testing.T) {
	h := New(Options{Token: token})
	for _, path := range []string{"/join?code=x", "/shared/aaaaaaaaaaaaaaaa", "/oidc/start", "/oidc/callback"} {
		r := httptest.NewRequest("GET", "http://localhost"+path, nil)
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		if rec.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, rec.Code)
		}
	}
}
