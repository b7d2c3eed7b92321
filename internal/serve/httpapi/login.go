package httpapi

import (
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
)

// A login code is used once and soon. More than a few are never open; the
// oldest gives way.
const (
	loginCodeAge  = 10 * time.Minute
	maxLoginCodes = 32
)

// Logins hands out codes for login links. It is safe for concurrent use.
type Logins struct {
	now func() time.Time

	mu    sync.Mutex
	codes []loginCode // oldest first
}

type loginCode struct {
	hash    [sha256.Size]byte
	expires time.Time
}

// NewLogins returns an empty set of codes; now tells the time.
func NewLogins(now func() time.Time) *Logins { return &Logins{now: now} }

// NewCode mints a code that is good for one login within ten minutes.
func (l *Logins) NewCode() string {
	code := strings.ToLower(rand.Text())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropOldLocked()
	if len(l.codes) >= maxLoginCodes {
		l.codes = l.codes[1:]
	}
	l.codes = append(l.codes, loginCode{sha256.Sum256([]byte(code)), l.now().Add(loginCodeAge)})
	return code
}

// NewLink mints a code and returns the link that uses it on a server at addr. All
// addresses are none of ours: a browser is sent to this machine.
func (l *Logins) NewLink(addr string) string {
	if all, err := netip.ParseAddrPort(addr); err == nil && all.Addr().IsUnspecified() {
		addr = net.JoinHostPort("localhost", strconv.Itoa(int(all.Port())))
	}
	return "http://" + addr + "/login?code=" + url.QueryEscape(l.NewCode())
}

// Use reports whether the code is good, and ends it.
func (l *Logins) Use(code string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dropOldLocked()
	for i, c := range l.codes {
		if matches(code, c.hash) {
			l.codes = append(l.codes[:i], l.codes[i+1:]...)
			return true
		}
	}
	return false
}

func (l *Logins) dropOldLocked() {
	now := l.now()
	for len(l.codes) > 0 && !now.Before(l.codes[0].expires) {
		l.codes = l.codes[1:]
	}
}

func (a *api) newLoginCode(w http.ResponseWriter, r *http.Request) error {
	addr := a.Addr
	if addr == "" {
		addr = r.Host
	}
	return writeJSON(w, http.StatusCreated, struct {
		URL       string `json:"url"`
		ExpiresAt int64  `json:"expiresAt"`
	}{a.Logins.NewLink(addr), a.Now().Add(loginCodeAge).UnixMilli()})
}

// login turns a code into the page's cookie. Who only looks whether the link
// leads somewhere does not use it up.
func (a *api) login(w http.ResponseWriter, r *http.Request) error {
	if r.Method == http.MethodHead {
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	if a.Token == "" || !a.Logins.Use(r.URL.Query().Get("code")) {
		if wantsPage(r) {
			return writePage(w, http.StatusUnauthorized, "This login link was used or is too old", howToLogIn)
		}
		return &fault.Error{Kind: fault.Unauthenticated, Code: "bad_login_code", Field: "code", Message: "This login link was used or is too old. Ask for a new one: lilac login, or POST /login-codes with the token."}
	}
	http.SetCookie(w, &http.Cookie{
		Name:     cookieName(a.Token),
		Value:    cookieValue(a.Token),
		Path:     "/",
		MaxAge:   int((90 * 24 * time.Hour).Seconds()),
		HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
		Secure:   r.TLS != nil,
	})
	http.Redirect(w, r, "/", http.StatusSeeOther)
	return nil
}

// wantsPage reports whether a person's browser opens an address.
func wantsPage(r *http.Request) bool {
	return r.Method == http.MethodGet && strings.Contains(r.Header.Get("Accept"), "text/html")
}

// plainStyle is the look of a page that stands alone: what the real one is made
// of needs the login that is still to come.
const plainStyle = `:root { color-scheme: light dark; font: 16px/1.6 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", sans-serif; color: #26222e; background: #fbfafd; }
main { max-width: 32rem; margin: 18vh auto 0; padding: 0 1.25rem; }
h1 { font-size: 1.4rem; line-height: 1.3; }
a { color: #7a5bbd; }
pre { padding: .7rem 1rem; border-radius: .6rem; background: #ece5f8; overflow-x: auto; }
@media (prefers-color-scheme: dark) { :root { color: #e9e4f1; background: #17141d; } a { color: #b79cf0; } pre { background: #2e2540; } }
`

// plainPolicy lets such a page have its style and nothing else.
var plainPolicy = func() string {
	sum := sha256.Sum256([]byte(plainStyle))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
}()

// What such a page says.
const (
	howToLogIn = `<p>Lilac prints a new login link each time it starts. While it runs, this prints another one, with the <code>--data</code> that Lilac was started with, if any:</p>
<pre>lilac login</pre>`
	howToOpen = `<p>So that no other site can act for you, links from other sites are not followed at once.</p>
<p><a href="/">Open Lilac</a>, or press Enter in the address bar to go where the link leads.</p>`
)

func writePage(w http.ResponseWriter, status int, title, body string) error {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", plainPolicy)
	w.WriteHeader(status)
	_, err := w.Write([]byte(`<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>Lilac</title>
<style>` + plainStyle + `</style>
<main><h1>` + title + `</h1>` + body + `</main></html>
`))
	return err
}

// refuse writes why a call is not let in, to a person as a page.
func (a *api) refuse(w http.ResponseWriter, r *http.Request, err error) {
	var f *fault.Error
	switch {
	case !wantsPage(r) || !errors.As(err, &f):
	case f.Kind == fault.Unauthenticated:
		_ = writePage(w, http.StatusUnauthorized, "Please log in", howToLogIn)
		return
	case f.Code == "cross_site":
		_ = writePage(w, http.StatusForbidden, "A link from another site", howToOpen)
		return
	}
	a.writeError(w, r, err)
}

// page serves what no route does. A path of the API that came with another
// method is refused with the methods that it takes.
func (a *api) page() http.Handler {
	methods := map[string][]string{} // by path pattern
	for _, r := range a.routes() {
		method, path, _ := strings.Cut(r.pattern, " ")
		methods[path] = append(methods[path], method)
	}
	paths := http.NewServeMux()
	for path, allowed := range methods {
		paths.Handle(path, a.adapt(func(w http.ResponseWriter, r *http.Request) error {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			return fault.New(fault.NotAllowed, "This address does not take %s, but %s.", r.Method, strings.Join(allowed, " and "))
		}))
	}
	paths.Handle("/", a.adapt(func(w http.ResponseWriter, r *http.Request) error {
		if a.Page == nil || r.Method != http.MethodGet && r.Method != http.MethodHead {
			return fault.New(fault.NotFound, "There is nothing at this address.")
		}
		a.Page.ServeHTTP(w, r)
		return nil
	}))
	return paths
}
