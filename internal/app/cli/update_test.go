package cli

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestUpdateCheck(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/latest":
			_, _ = w.Write([]byte(`{"tag_name":"v1.10.0","html_url":"https://example.com/v1.10.0\u001b[2J"}`))
		case "/none":
			_, _ = w.Write([]byte(`{}`))
		default:
			http.Error(w, "slow down", http.StatusForbidden)
		}
	}))
	defer s.Close()
	for name, c := range map[string]struct {
		release, path string
		args          []string
		code          int
		want          string
	}{
		"a newer one":        {"1.9.3", "/latest", nil, 0, "Lilac v1.10.0 is available; this is 1.9.3. What changed, and how to get it: https://example.com/v1.10.0[2J\n"},
		"the same":           {"1.10.0", "/latest", nil, 0, "Lilac 1.10.0 is the newest release.\n"},
		"a candidate":        {"1.10.0-rc.1", "/latest", nil, 0, "is available"},
		"ahead":              {"2.0.0", "/latest", nil, 0, "is the newest release"},
		"a commit":           {"devel-123456789abc", "/latest", nil, 0, "This is devel-123456789abc, which is not a release. The newest release is v1.10.0"},
		"JSON":               {"1.9.3", "/latest", []string{"--json"}, 0, `"newer": true`},
		"no release":         {"1.9.3", "/none", nil, 1, "does not describe a release"},
		"refused":            {"1.9.3", "/refused", nil, 6, "403 Forbidden"},
		"an unknown place":   {"1.9.3", "", nil, 2, "does not know where its releases are"},
		"the flag is needed": {"1.9.3", "/latest", []string{"--check=false"}, 2, "lilac update --check"},
	} {
		t.Run(name, func(t *testing.T) {
			from := ""
			if c.path != "" {
				from = s.URL + c.path
			}
			var out, errOut bytes.Buffer
			cmd := &cli{printer: printer{out: &out, err: &errOut}, locator: locator{getenv: func(string) string { return "" }}, release: c.release, releases: from}
			code := cmd.run(t.Context(), append([]string{"update", "--check"}, c.args...))
			if got := out.String() + errOut.String(); code != c.code || !strings.Contains(got, c.want) {
				t.Errorf("exit code %d, output %q; want %d and %q", code, got, c.code, c.want)
			}
		})
	}
}
