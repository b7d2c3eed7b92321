package mcpclient

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"lilac/internal/agent/sandbox"
	"lilac/internal/foundation/setting"
	"lilac/internal/testkit/freeport"
)

// conformanceEnv is a directory with the npm packages @modelcontextprotocol/conformance and
// node (22).
const conformanceEnv = "LILAC_TEST_MCP_CONFORMANCE"

// callbackEnv is the port of the redirect address in a login of the suite.
const callbackEnv = "LILAC_TEST_CALLBACK"

// conformanceScenarios are the scenarios of the suite for clients, and why Lilac does not
// pass some of them on purpose.
var conformanceScenarios = map[string]string{
	"initialize": "", "tools_call": "", "elicitation-sep1034-client-defaults": "", "sse-retry": "", "request-metadata": "",
	"sep-2322-client-request-state": "", "http-standard-headers": "", "http-custom-headers": "", "http-invalid-tool-headers": "",
	"json-schema-ref-no-deref": "", "json-schema-2020-12-preservation": "",
	"auth/basic-cimd": "", "auth/pre-registration": "", "auth/iss-supported": "",
	"auth/iss-supported-missing": "", "auth/iss-wrong-issuer": "", "auth/iss-unexpected": "", "auth/metadata-issuer-mismatch": "", "auth/resource-mismatch": "",
	"auth/metadata-default": "", "auth/metadata-var1": "", "auth/metadata-var2": "", "auth/metadata-var3": "",
	"auth/scope-from-www-authenticate": "", "auth/scope-from-scopes-supported": "", "auth/scope-omitted-when-undefined": "",
	"auth/token-endpoint-auth-basic": "", "auth/token-endpoint-auth-post": "", "auth/token-endpoint-auth-none": "",
	"auth/offline-access-scope": "", "auth/offline-access-not-supported": "", "auth/iss-not-advertised": "", "auth/iss-normalized": "",
	"auth/scope-retry-limit":              "",
	"auth/authorization-server-migration": "a person logs in again, and there is no registration without one",
	"auth/scope-step-up":                  "a person logs in again with other scopes",
	"tools_call@2025-11-25":               "", "elicitation-sep1034-client-defaults@2025-11-25": "", "auth/basic-cimd@2025-11-25": "",
}

// TestTheClientPassesTheConformanceSuite runs the scenarios of the official suite.
func TestTheClientPassesTheConformanceSuite(t *testing.T) {
	dir := os.Getenv(conformanceEnv)
	if dir == "" {
		t.Skip("needs the suite from npm: npm install --prefix DIR @modelcontextprotocol/conformance@0.2.0-alpha.12 node@22; then set " + conformanceEnv + "=DIR")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for scenario, why := range conformanceScenarios {
		t.Run(scenario, func(t *testing.T) {
			t.Parallel()
			name, revision, older := strings.Cut(scenario, "@")
			_, port, _ := strings.Cut(freeport.Loopback(t), ":")
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			args := []string{
				filepath.Join(dir, "node_modules", ".bin", "conformance"), "client", "--command", "env " + fakeEnv + "=conformance " + callbackEnv + "=" + port + " " + self,
				"--scenario", name, "--output-dir", t.TempDir(),
			}
			if older {
				args = append(args, "--spec-version", revision)
			}
			cmd := exec.CommandContext(ctx, filepath.Join(dir, "node_modules", "node", "bin", "node"), args...)
			var out bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &out
			err := cmd.Run()
			if passed := err == nil; passed != (why == "") {
				t.Errorf("passed: %v; expected to fail because %q\n%s", passed, why, out.String())
			}
		})
	}
}

// conform is the client of the suite: it connects to the address that is its last argument,
// calls all tools, and reads a resource and a prompt.
func conform() error {
	address := os.Args[len(os.Args)-1]
	var given struct {
		ClientID     string `json:"client_id"`
		ClientSecret string `json:"client_secret"`
		ToolCalls    []struct {
			Name      string          `json:"name"`
			Arguments json.RawMessage `json:"arguments"`
		} `json:"toolCalls"`
	}
	if raw := os.Getenv("MCP_CONFORMANCE_CONTEXT"); raw != "" {
		if err := json.Unmarshal([]byte(raw), &given); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	entry := ServerConfig{URL: address}
	o := Options{Sandbox: sandbox.Unconfined(), Dir: dir, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))}
	scenario := os.Getenv("MCP_CONFORMANCE_SCENARIO")
	if strings.HasPrefix(scenario, "auth/") {
		port, err := strconv.Atoi(os.Getenv(callbackEnv))
		if err != nil {
			return err
		}
		entry.OAuth = &OAuthConfig{ClientID: "https://conformance-test.local/client-metadata.json", ClientSecret: setting.Secret(given.ClientSecret), CallbackPort: port}
		if given.ClientID != "" {
			entry.OAuth.ClientID = given.ClientID
		}
		login, err := LogIn(ctx, entry, LoginOptions{Show: browse(nil)})
		if err != nil {
			return fmt.Errorf("log in: %w", err)
		}
		vault := &Vault{File: filepath.Join(dir, "logins"), KeyFile: filepath.Join(dir, "key")}
		if err := vault.Save("suite", login); err != nil {
			return err
		}
		o.Logins = vault
	}
	servers := New(o)
	servers.Set(map[string]ServerConfig{"suite": entry})
	running, stop := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() { defer close(ended); _ = servers.Run(running) }()
	defer func() { stop(); <-ended }()
	servers.Settle(ctx)
	offers := servers.Offers()
	if len(offers) == 0 {
		return fmt.Errorf("not connected: %+v", servers.Status())
	}
	people := People{Ask: func(context.Context, Question) (Answer, error) {
		return Answer{Action: Accept, Values: map[string]any{}}, nil
	}}
	arguments := map[string]json.RawMessage{"add_numbers": json.RawMessage(`{"a":5,"b":3}`)}
	for _, t := range offers[0].Tools {
		if len(given.ToolCalls) > 0 { // the suite says what to call
			break
		}
		in := arguments[t.Name]
		switch {
		case strings.HasPrefix(scenario, "http-invalid"):
			in = json.RawMessage(`{"region":"us-west1"}`)
		case t.Name == "json_schema_echo":
			i := slices.IndexFunc(offers[0].Tools, func(one Tool) bool { return one.Name == "json_schema_2020_12_tool" })
			in = json.RawMessage(`{"schema":` + string(offers[0].Tools[max(i, 0)].Schema) + `}`)
		}
		if _, err := servers.Call(ctx, "suite", t.Name, in, people); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", t.Name, err)
		}
	}
	for _, c := range given.ToolCalls {
		if _, err := servers.Call(ctx, "suite", c.Name, c.Arguments, people); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", c.Name, err)
		}
	}
	if offers[0].Resources {
		if list, err := servers.Resources(ctx, "suite"); err == nil && len(list) > 0 {
			_, _ = servers.Read(ctx, "suite", list[0].URI) // the suite checks what was sent
		}
	}
	if offers[0].Prompts {
		if list, err := servers.Prompts(ctx, "suite"); err == nil && len(list) > 0 {
			_, _ = servers.Prompt(ctx, "suite", list[0].Name, nil)
		}
	}
	return nil
}
