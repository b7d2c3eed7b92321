package httpapi

import (
	"net/http"
	"slices"
	"strings"
)

// preflightAge is the time in seconds for which a browser remembers the answer to a preflight. It is
// short, because the configuration can take an origin back at any time.
const preflightAge = "600"

// share lets the browser give a page of a listed site the answer of a route for programs, and returns the
// request without the marks of another site. Such a route accepts only the token of a program, which a page
// cannot make a browser send: there is no Access-Control-Allow-Credentials, so browsers send no cookies either.
func (g *guard) share(h http.Header, r *http.Request) *http.Request {
	h.Set("Vary", "Origin")
	from := r.Header["Origin"]
	if g.origins == nil || len(from) != 1 {
		return r
	}
	allow, listed := from[0], g.origins(strings.TrimSuffix(r.URL.Path, "/"))
	if slices.Contains(listed, "*") {
		allow = "*"
	} else if !slices.Contains(listed, allow) {
		return r
	}
	h.Set("Access-Control-Allow-Origin", allow)
	h.Set("Access-Control-Expose-Headers", "*")
	r = r.Clone(r.Context())
	r.Header.Del("Origin")
	r.Header.Del("Sec-Fetch-Site")
	return r
}

// answerPreflight answers a browser that asks whether a page may send a request. Otherwise, it returns false. The page
// may send all headers: OpenAI's libraries have many, and none of them gives rights but Authorization. Clients of MCP end a session with DELETE.
func answerPreflight(w http.ResponseWriter, r *http.Request) bool {
	h := w.Header()
	if r.Method != http.MethodOptions || h.Get("Access-Control-Allow-Origin") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, DELETE")
	h.Set("Access-Control-Allow-Headers", r.Header.Get("Access-Control-Request-Headers"))
	h.Set("Access-Control-Max-Age", preflightAge)
	w.WriteHeader(http.StatusNoContent)
	return true
}
