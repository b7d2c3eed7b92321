package httpapi

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/http"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/serve/origin"
)

// cookieName is the page's cookie. Browsers keep one for all ports of a host, so
// a part of its own tells two servers there apart. Its value proves that the
// login link was used and does not give the token away.
func cookieName(token string) string { return "lilac_token_" + cookieValue("name of " + token)[:8] }

// contentPolicy is what the page may do: its own scripts, styles and
// connections, nothing of another host. An answer of the model that names an
// image elsewhere cannot carry anything there.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; font-src 'self'; " +
	"connect-src 'self'; manifest-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard decides who may call: package origin keeps other sites' pages out, and
// the token every other program of every user.
type guard struct {
	token     [sha256.Size]byte
	cookie    [sha256.Size]byte
	named     string // the cookie
	hasToken  bool
	metrics   *[sha256.Size]byte // the token for metrics, if there is one
	hosts     *Hosts
	unchecked bool
}

func newGuard(o Options) *guard {
	g := &guard{hasToken: o.Token != "", hosts: o.Hosts, unchecked: o.unchecked}
	g.token = sha256.Sum256([]byte(o.Token))
	g.cookie, g.named = sha256.Sum256([]byte(cookieValue(o.Token))), cookieName(o.Token)
	if o.MetricsToken != "" {
		sum := sha256.Sum256([]byte(o.MetricsToken))
		g.metrics = &sum
	}
	return g
}

// cookieValue is derived from the token, so that it survives a restart and
// ends when the token is replaced.
func cookieValue(token string) string {
	mac := hmac.New(sha256.New, []byte(token))
	mac.Write([]byte("lilac page cookie v1"))
	return hex.EncodeToString(mac.Sum(nil))
}

// ours refuses, on every method and route, what another site's page could
// send, and sets the headers that every answer has. The host is not looked at
// where anyHost says so: there a signature says who sends, which no page can
// make, and the name that the world knows need not open the rest of the API.
func (g *guard) ours(next http.Handler, refuse func(http.ResponseWriter, *http.Request, error), anyHost func(*http.Request) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Cache-Control", "no-store")
		known := g.hosts.has
		if anyHost(r) {
			known = func(string) bool { return true }
		}
		if err := origin.Check(r, known); err != nil && !g.unchecked {
			refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// protect asks for the token where the class of the route does.
func (g *guard) protect(c class, next http.Handler, refuse func(http.ResponseWriter, *http.Request, error)) http.Handler {
	if c == public || c == signed || g.unchecked {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !g.knows(r) && (c != forMetrics || !g.mayMeasure(r)) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="lilac"`)
			refuse(w, r, &fault.Error{
				Kind: fault.Unauthenticated, Code: "token_required",
				Message: "A token is needed: send Authorization: Bearer with it, or open the login link that the server printed.",
			})
			return
		}
		next.ServeHTTP(w, r)
	})
}

// mayMeasure accepts the token for metrics, which opens nothing else.
func (g *guard) mayMeasure(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	return g.metrics != nil && strings.EqualFold(scheme, "Bearer") && matches(token, *g.metrics)
}

func (g *guard) knows(r *http.Request) bool {
	if !g.hasToken {
		return false
	}
	if given := r.Header.Get("Authorization"); given != "" {
		scheme, token, _ := strings.Cut(given, " ")
		return strings.EqualFold(scheme, "Bearer") && matches(token, g.token)
	}
	// More than one cookie of the name may come, of another path.
	for _, c := range r.CookiesNamed(g.named) {
		if matches(c.Value, g.cookie) {
			return true
		}
	}
	return false
}

// matches compares hashes, so that neither content nor length shows in time.
func matches(given string, want [sha256.Size]byte) bool {
	sum := sha256.Sum256([]byte(given))
	return subtle.ConstantTimeCompare(sum[:], want[:]) == 1
}
