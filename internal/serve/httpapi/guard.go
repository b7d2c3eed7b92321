package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"net/netip"
	"strings"

	"lilac/internal/core/account"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/origin"
)

// cookieName returns the name of the page's cookie. Browsers share cookies between
// all ports of a host, so part of the name depends on the token: two servers on
// one host have different cookies.
func cookieName(token string) string { return "lilac_token_" + cookieValue("name of " + token)[:8] }

// personCookieName returns the name of the cookie of people with accounts.
func personCookieName(token string) string {
	return "lilac_person_" + strings.TrimPrefix(cookieName(token), "lilac_token_")
}

// contentPolicy limits the page to its own scripts, styles and connections. A model
// whose answer names an image of another host cannot leak anything to it.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; " +
	"connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard decides which requests are allowed. Package origin refuses the pages of
// other sites; the token refuses all other programs of all users.
type guard struct {
	token      [sha256.Size]byte // hashes, here and below
	cookie     [sha256.Size]byte
	cookieName string
	hasToken   bool
	metrics    *[sha256.Size]byte // nil without a metrics token
	// personCookie is the name of the cookie of people with accounts.
	personCookie string
	people       people
	hosts        *Hosts
	proxies      []netip.Prefix
	published    string                     // the host that people reach with https, or ""
	fromNode     func(*http.Request) bool   // nil without nodes
	origins      func(path string) []string // nil without other sites
	unchecked    bool
}

func newGuard(o Options) *guard {
	g := &guard{hasToken: o.Token != "", hosts: o.Hosts, proxies: o.TrustedProxies, fromNode: o.FromNode, origins: o.Origins, unchecked: o.unchecked}
	g.token = sha256.Sum256([]byte(o.Token))
	g.cookie, g.cookieName = sha256.Sum256([]byte(cookieValue(o.Token))), cookieName(o.Token)
	g.people, g.personCookie = people{o.Accounts}, personCookieName(o.Token)
	if host, https := strings.CutPrefix(o.PublicURL, "https://"); https {
		g.published, _, _ = strings.Cut(host, "/")
	}
	if o.MetricsToken != "" {
		sum := sha256.Sum256([]byte(o.MetricsToken))
		g.metrics = &sum
	}
	return g
}

// cookieValue derives the cookie from the token, so that it survives a restart and
// is invalid when the token is replaced. It does not reveal the token.
func cookieValue(token string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("lilac page cookie v1"))
	return hex.EncodeToString(mac.Sum(nil))
}

// checkOrigin refuses, on every method and route, requests that the page of another
// site could send, and sets the headers that every response has.
func (g *guard) checkOrigin(next http.Handler, refuse func(http.ResponseWriter, *http.Request, error), classOf func(*http.Request) class) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cache-Control", "no-store")
		if g.fromNode != nil && g.fromNode(r) {
			r = origin.Believe(r)
		} else {
			r = origin.Resolve(r, g.proxies)
		}
		r = origin.Published(r, g.published)
		check, of := origin.Check, classOf(r)
		switch of {
		case entrance:
			check = origin.CheckNavigation
		case pageFile:
			check = origin.CheckFile
		case forPrograms:
			r = g.share(h, r)
		case needsToken, needsMetricsToken, loginLink, public, signed:
		}
		if err := check(r, g.allowedHosts(of)); err != nil && !g.unchecked {
			refuse(w, r, err)
			return
		}
		if of == forPrograms && answerPreflight(w, r) {
			return
		}
		next.ServeHTTP(w, r)
	})
}

// allowedHosts returns the hosts that a class of routes accepts besides loopback.
func (g *guard) allowedHosts(c class) func(host string) bool {
	switch c {
	case public, signed:
		return origin.Any
	case needsMetricsToken:
		return func(host string) bool { return g.hosts.has(host) || origin.IsIP(host) }
	case needsToken, loginLink, entrance, pageFile, forPrograms:
	}
	return g.hosts.has
}

// authenticate finds out who calls, requires what the class of the route requires, and checks
// that the caller may use the route.
func (g *guard) authenticate(rt *route, next http.Handler, refuse func(http.ResponseWriter, *http.Request, error)) http.Handler {
	switch {
	case rt.class == public || rt.class == signed || rt.class == loginLink || rt.class == entrance:
		return next
	case g.unchecked:
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next.ServeHTTP(w, withCaller(r, account.Token)) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if admitted, err := g.admit(w, r, rt); err != nil {
			refuse(w, r, err)
		} else {
			next.ServeHTTP(w, admitted)
		}
	})
}

// admit returns the request with its caller, or an error if the caller may not use the route.
func (g *guard) admit(w http.ResponseWriter, r *http.Request, rt *route) (*http.Request, error) {
	caller, known, err := g.caller(r)
	switch {
	case err != nil:
		return nil, err
	case known:
		if err := g.people.admit(r, rt, caller); err != nil {
			return nil, err
		}
	case rt.class != needsMetricsToken || !g.hasMetricsToken(r):
		w.Header().Set("WWW-Authenticate", `Bearer realm="lilac"`)
		message := "A token is required. Send it in the header Authorization: Bearer, or open the login link that the server printed."
		if _, sent := g.bearer(r); sent {
			message = "This token is not the operator's. Tokens of v1.tokens are for addresses that begin with /v1: the base URL of such a program ends with /v1."
		}
		return nil, &fault.Error{Kind: fault.Unauthenticated, Code: "token_required", Message: message}
	}
	return withCaller(r, caller), nil
}

// caller returns who calls: the person whose cookie the browser has, or else the operator. The
// person comes first, because signing in as a person is the later decision.
func (g *guard) caller(r *http.Request) (c account.Caller, known bool, err error) {
	if _, sent := g.bearer(r); g.people.service != nil && !sent {
		for _, cookie := range r.CookiesNamed(g.personCookie) {
			if c, known, err = g.people.service.Caller(r.Context(), cookie.Value); err != nil || known {
				return c, known, err
			}
		}
	}
	if g.authenticated(r) {
		return account.Token, true, nil
	}
	return c, false, nil
}

// hasMetricsToken accepts the metrics token.
func (g *guard) hasMetricsToken(r *http.Request) bool {
	token, sent := bearer(r)
	return g.metrics != nil && sent && matches(token, *g.metrics)
}

// authenticated accepts the operator's token and the page's cookie.
func (g *guard) authenticated(r *http.Request) bool {
	if !g.hasToken {
		return false
	}
	if token, sent := g.bearer(r); sent {
		return matches(token, g.token)
	}
	// A browser may send several cookies of this name, of different paths.
	for _, c := range r.CookiesNamed(g.cookieName) {
		if matches(c.Value, g.cookie) {
			return true
		}
	}
	return false
}

// bearer is like the function, but passes over the ID tokens (JWT) that oauth2-proxy, with
// pass_authorization_header, adds to what the browser sends.
func (g *guard) bearer(r *http.Request) (token string, sent bool) {
	token, sent = bearer(r)
	return token, sent && (!strings.HasPrefix(token, "eyJ") || matches(token, g.token))
}

// bearer returns the token that a program sends. Other schemes are not meant for Lilac: a proxy that asks
// for a password passes on what the browser or the proxy itself sends for it, beside the cookie.
func bearer(r *http.Request) (token string, sent bool) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return token, strings.EqualFold(scheme, "Bearer")
}

// matches compares hashes in constant time, so that the time reveals neither the
// content nor the length of the token.
func matches(given string, want [sha256.Size]byte) bool {
	sum := sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(sum[:], want[:]) == 1
}
