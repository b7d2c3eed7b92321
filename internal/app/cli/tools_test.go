package cli

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/serve/toolwire"
)

func TestToolTokensAreCreatedListedAndRevoked(t *testing.T) {
	env := fake(t, map[string]string{
		"POST /tools/tokens":          `{"name":"laptop","callables":["surface.*"],"token":"lilac_secret"}`,
		"GET /tools/tokens":           `{"tokens":[{"name":"laptop","callables":["surface.*","events.publish"],"createdAt":1700000000000}]}`,
		"DELETE /tools/tokens/laptop": ``,
		"GET /tools/calls":            `{"calls":[{"id":3,"operator":"laptop","callable":"surface.messages.send","sessionId":"10","outcome":"denied"}]}`,
	})
	for line, want := range map[string]string{
		"tools token list":          "surface.*, events.publish",
		"tools token list --json":   `"name": "laptop"`,
		"tools token revoke laptop": "revoked laptop\n",
		"tools calls":               "surface.messages.send",
		"tools calls --json":        `"outcome": "denied"`,
		"tools token --help":        "revoke",
		"tools token create laptop --allow surface.* --allow x": "lilac_secret\n",
	} {
		out, errOut, code := call(t, "", env, strings.Fields(line)...)
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: %d %q %q", line, code, out, errOut)
		}
		// Scripts read the token from standard output, so nothing else may be printed there.
		if strings.Contains(line, "create") && (out != want || !strings.Contains(errOut, "not shown again")) {
			t.Errorf("%s: %q %q", line, out, errOut)
		}
	}
	if _, errOut, code := call(t, "", env, "tools", "token", "revoke", "nobody"); code != 4 {
		t.Errorf("%d %q", code, errOut)
	}
}

func TestToolsSubcommandsForOperatorsAreSeparate(t *testing.T) {
	for line, want := range map[string]bool{
		"/run/lilac/bin/tools --help":       true,
		"tools token --help":                true,
		"lilac tools --help":                true,
		"lilac tools help":                  true,
		"lilac tools token list":            false,
		"lilac tools calls":                 false,
		"lilac --config x tools token list": false,
		"lilac serve":                       false,
		"lilac":                             false,
	} {
		if got := isTools(strings.Fields(line)); (got != nil) != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}

// "lilac tools" uses the configured data directory, unless another setting gives the address of
// the server.
func TestToolsFindsTheConfiguredDataDirectory(t *testing.T) {
	home, data := t.TempDir(), t.TempDir()
	configured := filepath.Join(home, "lilac.yaml")
	if err := os.WriteFile(configured, []byte("dataDir: "+data+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		env  map[string]string
		want string
	}{
		"by default":       {map[string]string{}, filepath.Join(home, ".lilac")},
		"configured":       {map[string]string{"LILAC_CONFIG": configured}, data},
		"a broken file":    {map[string]string{"LILAC_CONFIG": home}, home},
		"a socket, broken": {map[string]string{"LILAC_CONFIG": home, toolwire.EnvSocket: "/none/tools.sock"}, "/none/tools.sock"},
	} {
		c.env["HOME"] = home
		var stderr strings.Builder
		tools := (&cli{printer: printer{out: io.Discard, err: &stderr}, locator: locator{getenv: func(name string) string { return c.env[name] }}}).toolcli()
		if code := tools.Main(t.Context(), []string{"--list"}); code == 0 || !strings.Contains(stderr.String(), c.want) {
			t.Errorf("%s: %d %q, want %s in it", name, code, stderr.String(), c.want)
		}
	}
}
