package httpapi

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A browser sends a preflight before it lets a page of another site send a token. It gives the page the
// answer only if the answer names the origin.
func TestPagesOfListedOriginsUseV1AndMCP(t *testing.T) {
	const chatPage, toolPage, page = "https://chat.example", "https://tools.example", "http://evil.example"
	listed := []string{chatPage, "app://obsidian.md"}
	for _, c := range []struct {
		name, method, path, origin, host string
		origins                          []string
		status                           int
		allow                            string // Access-Control-Allow-Origin
	}{
		{name: "a preflight", method: "OPTIONS", origin: chatPage, status: 204, allow: chatPage},
		{name: "a call", method: "POST", origin: chatPage, status: 200, allow: chatPage},
		{name: "a list", method: "GET", path: "/v1/models", origin: chatPage, status: 200, allow: chatPage},
		{name: "a program with a scheme of its own", method: "OPTIONS", origin: "app://obsidian.md", status: 204, allow: "app://obsidian.md"},
		{name: "a preflight of another page", method: "OPTIONS", origin: page, status: 403},
		{name: "a call of another page", method: "POST", origin: page, status: 403},
		{name: "a subdomain", method: "POST", origin: "https://a.chat.example", status: 403},
		{name: "another port", method: "POST", origin: chatPage + ":8443", status: 403},
		{name: "another scheme", method: "POST", origin: "http://chat.example", status: 403},
		{name: "a page without an origin", method: "POST", origin: "null", status: 403},
		{name: "two origins", method: "POST", origin: chatPage + "," + page, status: 403},
		{name: "all", method: "OPTIONS", origin: page, origins: []string{"*"}, status: 204, allow: "*"},
		{name: "all, from a file", method: "POST", origin: "null", origins: []string{"*"}, status: 200, allow: "*"},
		{name: "all, with a foreign host", method: "POST", origin: page, host: "evil.example:7420", origins: []string{"*"}, status: 403, allow: "*"},
		{name: "none", method: "POST", origin: chatPage, origins: []string{}, status: 403},
		{name: "the rest of the API", method: "OPTIONS", path: "/sessions", origin: chatPage, status: 403},
		{name: "the rest of the API, with all", method: "GET", path: "/sessions", origin: chatPage, origins: []string{"*"}, status: 403},
		{name: "a preflight of MCP", method: "OPTIONS", path: "/mcp", origin: toolPage, status: 204, allow: toolPage},
		{name: "MCP", method: "POST", path: "/mcp", origin: toolPage, status: 200, allow: toolPage},
		{name: "a preflight of MCP with a slash", method: "OPTIONS", path: "/mcp/", origin: toolPage, status: 204, allow: toolPage},
		{name: "MCP with a slash", method: "POST", path: "/mcp/", origin: toolPage, status: 200, allow: toolPage},
		{name: "MCP with a slash, with all of /v1", method: "POST", path: "/mcp/", origin: chatPage, origins: []string{"*"}, status: 403},
		{name: "MCP, with all of /v1", method: "POST", path: "/mcp", origin: chatPage, origins: []string{"*"}, status: 403},
		{name: "the rest of the API through a path of /v1", method: "GET", path: "/v1/../sessions", origin: chatPage, origins: []string{"*"}, status: 403},
		{name: "the own page", method: "POST", origin: "http://localhost", status: 200},
		{name: "no page", method: "POST", status: 200},
		{name: "no page asks for the methods", method: "OPTIONS", status: 200},
	} {
		ok := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
		origins := c.origins
		if origins == nil {
			origins = listed
		}
		h := New(Options{Token: token, OpenAI: ok, MCPServer: ok, Origins: func(path string) []string {
			if path == "/mcp" {
				return []string{toolPage}
			}
			return origins
		}})
		if c.path == "" {
			c.path = "/v1/chat/completions"
		}
		if c.host == "" {
			c.host = "localhost"
		}
		r := httptest.NewRequest(c.method, "http://"+c.host+c.path, nil)
		if c.origin != "" {
			for from := range strings.SplitSeq(c.origin, ",") {
				r.Header.Add("Origin", from)
			}
			r.Header.Set("Sec-Fetch-Site", "cross-site")
		}
		if c.origin == "http://localhost" {
			r.Header.Set("Sec-Fetch-Site", "same-origin")
		}
		if c.method == "OPTIONS" {
			r.Header.Set("Access-Control-Request-Method", "POST")
			r.Header.Set("Access-Control-Request-Headers", "authorization,x-stainless-os")
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		got := w.Header()
		if w.Code != c.status || got.Get("Access-Control-Allow-Origin") != c.allow || got.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%s: %d %q %s", c.name, w.Code, got.Get("Access-Control-Allow-Origin"), w.Body)
		}
		if c.status == 204 {
			answer := []string{got.Get("Access-Control-Allow-Methods"), got.Get("Access-Control-Allow-Headers"), got.Get("Vary")}
			if diff := cmp.Diff([]string{"GET, POST, DELETE", "authorization,x-stainless-os", "Origin"}, answer); diff != "" {
				t.Errorf("%s: %s", c.name, diff)
			}
		}
		if named := strings.Contains(w.Body.String(), "v1.origins"); named != (c.status == 403 && c.allow == "") {
			t.Errorf("%s: the error is %s", c.name, w.Body)
		}
	}
}

// Programs for OpenAI's API often get a base URL without /v1.
func TestAProgramLearnsThatItsBaseURLEndsWithV1(t *testing.T) {
	for sent, want := range map[string]string{"token-of-a-program": "ends with /v1", "eyJ.of.a.proxy": "open the login link"} {
		r := httptest.NewRequest(http.MethodPost, "http://localhost/chat/completions", strings.NewReader("{}"))
		r.Header.Set("Authorization", "Bearer "+sent)
		w := httptest.NewRecorder()
		New(Options{Token: token}).ServeHTTP(w, r)
		if w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", sent, w.Code, w.Body)
		}
	}
}
