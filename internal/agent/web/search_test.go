package web_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/agent/web"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/setting"
)

// services answer and refuse like the services of the same names.
var services = map[string]http.HandlerFunc{
	"searxng": func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/search":
			http.NotFound(w, r)
		case r.FormValue("format") != "json":
			w.WriteHeader(http.StatusForbidden)
		case r.FormValue("q") == "":
			w.WriteHeader(http.StatusBadRequest)
		default:
			_, _ = io.WriteString(w, `{"query":"q","number_of_results":0,"results":[{"title":"A","url":"https://a.test/","content":"about a","engine":"x","score":1.5},{"title":"none","url":""},{"title":"B","url":"https://b.test/","content":""}],"answers":[],"unresponsive_engines":[["x","timeout"]]}`)
		}
	},
	"brave": func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Subscription-Token") != "key":
			w.WriteHeader(http.StatusUnprocessableEntity)
			_, _ = io.WriteString(w, `{"type":"ErrorResponse","error":{"id":"1","status":422,"detail":"The provided subscription token is invalid.","code":"SUBSCRIPTION_TOKEN_INVALID"}}`)
		case r.URL.Path != "/web/search" || r.FormValue("q") == "":
			w.WriteHeader(http.StatusNotFound)
		default:
			_, _ = io.WriteString(w, `{"type":"search","query":{"original":"q"},"web":{"type":"search","results":[{"title":"A","url":"https://a.test/","description":"about a"},{"title":"B","url":"https://b.test/"}]}}`)
		}
	},
	"tavily": func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			Query      string
			MaxResults int `json:"max_results"`
		}
		err := json.NewDecoder(r.Body).Decode(&body)
		switch {
		case r.Header.Get("Authorization") != "Bearer key":
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"detail":{"error":"Unauthorized: missing or invalid API key."}}`)
		case r.URL.Path != "/search" || r.Method != http.MethodPost || err != nil || body.Query == "" || body.MaxResults > 20:
			w.WriteHeader(http.StatusBadRequest)
		default:
			_, _ = io.WriteString(w, `{"query":"q","results":[{"title":"A","url":"https://a.test/","content":"about a","score":0.9},{"title":"B","url":"https://b.test/","content":""}],"response_time":"1.2"}`)
		}
	},
}

func searcher(t *testing.T, provider string, key setting.Secret, handler http.HandlerFunc) web.Searcher {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return web.Searcher{Settings: web.SearchSettings{Provider: provider, URL: server.URL + "/", APIKey: key}, HTTP: server.Client()}
}

func TestEveryServiceFindsPages(t *testing.T) {
	want := []web.Result{{Title: "A", URL: "https://a.test/", Snippet: "about a"}, {Title: "B", URL: "https://b.test/"}}
	for name, handler := range services {
		s := searcher(t, name, "key", handler)
		for count := range 3 {
			got, err := s.Search(t.Context(), "release notes", count)
			if diff := cmp.Diff(want[:count], got); err != nil || diff != "" {
				t.Errorf("%s, %d results: %v (-want +got)\n%s", name, count, err, diff)
			}
		}
	}
}

func TestARefusedSearchSaysWhatToDo(t *testing.T) {
	status := func(code int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, body)
		}
	}
	for name, c := range map[string]struct {
		provider string
		handler  http.HandlerFunc
		kind     fault.Kind
		says     string
	}{
		"a wrong key, Brave":       {"brave", services["brave"], fault.Unauthenticated, "web.search.apiKey. It says: The provided subscription token"},
		"a wrong key, Tavily":      {"tavily", services["tavily"], fault.Unauthenticated, "web.search.apiKey. It says: Unauthorized"},
		"no JSON, SearXNG":         {"searxng", status(403, "<html>"), fault.Denied, "search.formats"},
		"too many, Brave":          {"brave", status(429, `{"error":{"detail":"Request rate limit exceeded"}}`), fault.RateLimited, "rate limit exceeded"},
		"the plan's limit, Tavily": {"tavily", status(432, `{"detail":{"error":"This request exceeds your plan's set usage limit."}}`), fault.RateLimited, "plan's set usage limit"},
		"an error":                 {"searxng", status(502, "bad gateway"), fault.Unavailable, "status 502"},
		"a page instead":           {"searxng", status(200, "<html>"), fault.Unavailable, "something other than results"},
		"other JSON":               {"tavily", status(200, `{"ok":true}`), fault.Unavailable, "something other than results"},
	} {
		_, err := searcher(t, c.provider, "wrong", c.handler).Search(t.Context(), "q", 5)
		if fault.KindOf(err) != c.kind || err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	gone := searcher(t, "brave", "key", nil)
	gone.Settings.URL = "http://127.0.0.1:1"
	if _, err := gone.Search(t.Context(), "a secret", 5); fault.KindOf(err) != fault.Unavailable || strings.Contains(err.Error(), "secret") {
		t.Errorf("no server: %v", err)
	}
}

func TestSettingsSayWhatIsMissing(t *testing.T) {
	for _, s := range []web.Settings{
		{},
		{Hosts: []string{"*", "docs.python.org", "*.wikipedia.org"}},
		{Search: web.SearchSettings{Provider: "searxng", URL: "http://localhost:8080"}},
		{Search: web.SearchSettings{Provider: "brave", APIKey: "k"}},
	} {
		if err := s.Check(); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
	for want, s := range map[string]web.Settings{
		"a.org/x":             {Hosts: []string{"https://a.org/x"}},
		"10.0.0.1":            {Hosts: []string{"a.org", "10.0.0.1"}},
		"is no host":          {Hosts: []string{"*.org"}},
		"localhost":           {Hosts: []string{"localhost"}},
		"has no provider":     {Search: web.SearchSettings{URL: "https://a.org"}},
		"needs web.search":    {Search: web.SearchSettings{Provider: "searxng"}},
		"brave needs":         {Search: web.SearchSettings{Provider: "brave"}},
		"the URL of a server": {Search: web.SearchSettings{Provider: "searxng", URL: "localhost:8080"}},
	} {
		if err := s.Check(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
	}
}
