package e2e_test

import (
	"bytes"
	"context"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"lilac/internal/testkit/e2e"
)

// conformanceEnv is a directory with the npm packages @modelcontextprotocol/conformance and
// node (22).
const conformanceEnv = "LILAC_TEST_MCP_CONFORMANCE"

// TestTheMCPServerPassesTheConformanceSuite runs the scenarios of the official suite that
// need no tools of the suite. A proxy adds the token, which the suite cannot send.
func TestTheMCPServerPassesTheConformanceSuite(t *testing.T) {
	t.Parallel()
	dir := os.Getenv(conformanceEnv)
	if dir == "" {
		t.Skip("needs the suite from npm: npm install --prefix DIR @modelcontextprotocol/conformance@0.2.0-alpha.12 node@22; then set " + conformanceEnv + "=DIR")
	}
	s := e2e.New(t, e2e.Configured(t, "{mcp: {serve: true}}")...)
	s.Restart()
	var made struct{ Token string }
	s.Request("POST", "/tools/tokens", map[string]any{"name": "suite", "callables": []string{"*"}}, &made)
	target := &url.URL{Scheme: "http", Host: s.Addr}
	proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // the server checks it
		r.Out.Header.Set("Authorization", "Bearer "+made.Token)
	}})
	t.Cleanup(proxy.Close)
	for _, scenario := range []string{"server-initialize", "ping", "tools-list", "dns-rebinding-protection", "http-header-validation"} {
		t.Run(scenario, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, filepath.Join(dir, "node_modules", "node", "bin", "node"), filepath.Join(dir, "node_modules", ".bin", "conformance"),
				"server", "--url", proxy.URL+"/mcp", "--scenario", scenario, "--output-dir", t.TempDir())
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			if err := cmd.Run(); err != nil {
				t.Errorf("%v\n%s", err, out.String())
			}
		})
	}
}
