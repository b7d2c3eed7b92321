package httpapi

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/serve/origin"
)

// A login code is valid once, for ten minutes. If there are more than
// maxLoginCodes, the oldest is dropped.
const (
	loginCodeAge  = 10 * time.Minute
	maxLoginCodes = 32
)

// Logins issues codes for login links. It is safe for concurrent use.
type Logins struct {
	now func() time.Time

	mu    sync.Mutex
	codes []loginCode // oldest first
}

type loginCode struct {
	hash    [sha256.Size]byte
	expires time.Time
}

// NewLogins returns an empty set of codes. It reads the time from now.
func NewLogins(now func() time.Time) *Logins { return &Logins{now: now} }

// NewCode issues a code for one login within ten minutes.
func (l *Logins) NewCode() string {
	code := strings.ToLower(rand.Text())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropExpiredLocked()
	if len(l.codes) >= maxLoginCodes {
		l.codes = l.codes[1:]
	}
	l.codes = append(l.codes, loginCode{sha256.Sum256([]byte(code)), l.now().Add(loginCodeAge)})
	return code
}

// NewLink issues a code and returns the link that uses it on a server at addr. An
// unspecified address such as 0.0.0.0 becomes localhost.
func (l *Logins) NewLink(addr string) string {
	if unspecified, err := netip.ParseAddrPort(addr); err == nil && unspecified.Addr().IsUnspecified() {
		addr = net.JoinHostPort("localhost", strconv.Itoa(int(unspecified.Port())))
	}
	return "http://" + addr + "/login?code=" + url.QueryEscape(l.NewCode())
}

// Use reports whether the code is valid, and invalidates it.
func (l *Logins) Use(code string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropExpiredLocked()
	for i, c := range l.codes {
		if matches(code, c.hash) {
			l.codes = append(l.codes[:i], l.codes[i+1:]...)
			return true
		}
	}
	return false
}

func (l *Logins) dropExpiredLocked() {
	now := l.now()
	for len(l.codes) > 0 && !now.Before(l.codes[0].expires) {
		l.codes = l.codes[1:]
	}
}

// loginRoutes issues login links and exchanges them for the page's cookie.
type loginRoutes struct {
	logins *Logins
	token  string
	addr   string
	now    func() time.Time
	// fromNode reports whether another node passes the request on; nil without nodes.
	fromNode func(r *http.Request) bool
}

type loginLinkBody struct {
	URL       string `json:"url"`
	ExpiresAt int64  `json:"expiresAt"`
}

func (l *loginRoutes) newLink(r *http.Request) (loginLinkBody, error) {
	addr := cmp.Or(l.addr, r.Host)
	if l.fromNode != nil && l.fromNode(r) {
		addr = r.Host // the client reaches that node
	}
	return loginLinkBody{l.logins.NewLink(addr), l.now().Add(loginCodeAge).UnixMilli()}, nil
}

// cookieAge is how long a browser stays logged in.
const cookieAge = 90 * 24 * time.Hour

// login exchanges a code for the page's cookie. HEAD, which link checkers send,
// does not use up the code.
func (l *loginRoutes) login(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	code := strings.TrimSpace(r.URL.Query().Get("code"))
	code = code[strings.LastIndexByte(code, '=')+1:] // somebody may have entered the whole link
	if l.token == "" || !l.logins.Use(code) {
		if wantsPage(r) {
			return writeLogin(w, r, "This login link is invalid, used or expired", "")
		}
		return &fault.Error{Kind: fault.Unauthenticated, Code: "bad_login_code", Field: "code", Message: "This login link is invalid, used or expired. To get a new link, run \"lilac login\", or send POST /login-codes with the token."}
	}
	if _, err := r.Cookie(personCookieName(l.token)); err == nil { // the operator, from now on
		http.SetCookie(w, personCookie(r, personCookieName(l.token), "", -1))
	}
	http.SetCookie(w, &http.Cookie{
		Name:     cookieName(l.token),
		Value:    cookieValue(l.token),
		Path:     "/",
		MaxAge:   int(cookieAge.Seconds()),
		HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
		Secure:   origin.Secure(r),
	})
	goTo(w, home(r)+afterLogin)
	return nil
}

// afterLogin is the query of the page after a login. A request with it and without a cookie comes from a
// browser that refuses cookies, or that sends none on the way from another site.
const afterLogin = "?login"

// home returns the address of the page from that of a request. It is relative, so that it is right also
// below a path of a reverse proxy that removes the path.
func home(r *http.Request) string {
	return cmp.Or(strings.Repeat("../", max(0, strings.Count(r.URL.EscapedPath(), "/")-1)), "./")
}

// goTo sends a browser to an address, which may be relative (RFC 9110 section 10.2.2).
func goTo(w http.ResponseWriter, address string) {
	w.Header().Set("Location", address)
	w.WriteHeader(http.StatusSeeOther)
}

// wantsPage reports whether a browser requests a page for a person to read.
func wantsPage(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// plainStyle is the style of a page for people who are not logged in, who cannot
// load the style sheets of the real page.
const plainStyle = `:root { color-scheme: light dark; font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; color: #26222e; background: #fbfafd; }
main { max-width: 32rem; margin: 18vh auto 0; padding: 0 1.25rem; }
h1 { font-size: 1.4rem; line-height: 1.3; }
a { color: #7a5bbd; }
input, button { font: inherit; }
pre { padding: .7rem 1rem; border-radius: .6rem; background: #ece5f8; overflow-x: auto; }
@media (prefers-color-scheme: dark) { :root { color: #e9e4f1; background: #17141d; } a { color: #b79cf0; } pre { background: #2e2540; } }
`

// plainPolicy allows such a page its style and nothing else.
var plainPolicy = func() string {
	sum := sha256.Sum256([]byte(plainStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
}()

// Texts of such a page.
const (
	howToLogIn = `<p>Lilac prints a login link each time it starts. To print another one while it runs, use this command (with the same <code>--data</code> option as the server, if any):</p>
<pre>lilac login</pre><p>Open the link, or enter it here:</p>`
	noCookie    = `<p>If you followed a link from another site, <a href="./">open Lilac</a>. Otherwise, allow cookies for this site in the browser, and use a new link.</p>`
	fromOutside = `<p>You followed a link from another site. To prevent other sites from acting for you, Lilac does not open such links directly.</p>`
)

// writeLogin writes a page that says how to log in, after more. Its form takes a login link: an app on the
// home screen of a phone has no address bar, and the link may name an address that only the server knows.
func writeLogin(w http.ResponseWriter, r *http.Request, title, more string) error {
	return writePage(w, http.StatusUnauthorized, formPolicy, title, more+howToLogIn+`
<form action="`+home(r)+`login"><input name="code" aria-label="Login link" placeholder="Login link" autocomplete="off" required> <button>Log in</button></form>`)
}

// writePage writes a page of texts of ours.
func writePage(w http.ResponseWriter, status int, policy, title, body string) error {
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, err := w.Write([]byte(`<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Lilac</title>
<style>` + plainStyle + `</style>
<main><h1>` + title + `</h1>` + body + `</main></html>
`))
	return err
}

// refuse writes why a request is refused: a page for people, JSON for programs.
func (a *api) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var f *fault.Error
	switch {
	case !wantsPage(r) || !errors.As(err, &f):
	case f.Kind == fault.Unauthenticated:
		title, more := "Please log in", a.entrances.offer(r)
		if "?"+r.URL.RawQuery == afterLogin {
			title, more = "This browser did not send its login", noCookie+more
		}
		_ = writeLogin(w, r, title, more)
		return
	case f.Code == "cross_site":
		_ = writePage(w, http.StatusForbidden, plainPolicy, "Link from another site", fromOutside+`<p><a href="`+home(r)+`">Open Lilac</a>, or press Enter in the address bar to open the link.</p>`)
		return
	}
	a.errors.write(w, r, err)
}
