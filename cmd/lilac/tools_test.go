package main

import (
	"strings"
	"testing"
)

func TestTokensForToolsAreMadeListedAndRevoked(t *testing.T) {
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
		// A script takes standard output as the token.
		if strings.Contains(line, "create") && (out != want || !strings.Contains(errOut, "not shown again")) {
			t.Errorf("%s: %q %q", line, out, errOut)
		}
	}
	if _, errOut, code := call(t, "", env, "tools", "token", "revoke", "nobody"); code != 4 {
		t.Errorf("%d %q", code, errOut)
	}
}

func TestToolsIsTheCommandUnlessTheOperatorIsMeant(t *testing.T) {
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
