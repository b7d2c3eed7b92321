package e2e_test

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// ask is a shell function that requests a URL through the proxy in the environment, using only
// bash.
const ask = `ask() { exec 3<>/dev/tcp/127.0.0.1/${http_proxy##*:} && printf 'GET %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n' "$1" >&3 && timeout 20 cat <&3; exec 3>&-; }; `

// direct is a command that connects without the proxy.
const direct = `exec 3<>/dev/tcp/127.0.0.1/%d && echo reached`

// A command reaches only the hosts in the configuration. It uses a credential that it never sees,
// and the model is told which connections were refused.
func TestCommandReachesListedHostsOnly(t *testing.T) {
	needsCommands(t)
	t.Parallel()
	const credential = "canary-of-the-host-4242"
	var authorized, refused atomic.Int64
	listed := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "Bearer "+credential {
			authorized.Add(1)
		}
		fmt.Fprintf(w, "the listed host was asked for %s", r.URL.Path)
	}))
	defer listed.Close()
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { refused.Add(1) }))
	defer other.Close()
	listedAt, otherAt := portOf(listed), portOf(other)

	authority := filepath.Join(t.TempDir(), "authority.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: listed.Certificate().Raw})
	if err := os.WriteFile(authority, block, 0o600); err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("sandbox: {network: {hosts: {127.0.0.1: {ports: [%d], internal: true, headers: {Authorization: 'Bearer ${HOST_TOKEN}'}}}}}\n", listedAt)
	command := ask + fmt.Sprintf("ask http://127.0.0.1:%d/hello; ask http://127.0.0.1:%d/; env; ", listedAt, otherAt) + fmt.Sprintf(direct, listedAt)
	told := runCommand(t, command, config, "HOST_TOKEN="+credential, "SSL_CERT_FILE="+authority)
	for _, want := range []string{"the listed host was asked for /hello", fmt.Sprintf("[network: 127.0.0.1:%d is not allowed]", otherAt)} {
		if !strings.Contains(told, want) {
			t.Errorf("the model was not told %q", want)
		}
	}
	if strings.Contains(told, credential) || strings.Contains(told, "reached") {
		t.Error("the command saw the credential, or got around the proxy")
	}
	if authorized.Load() != 1 || refused.Load() != 0 {
		t.Errorf("the listed host had %d requests with the credential, the other one %d", authorized.Load(), refused.Load())
	}
	if t.Failed() {
		t.Logf("the model was told:\n%s", told)
	}
}

// Control: without the sandbox, a command reaches every host.
func TestControlUnconfinedCommandReachesEveryHost(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	other := httptest.NewServer(http.NotFoundHandler())
	defer other.Close()
	told := runCommand(t, fmt.Sprintf(direct, portOf(other))+"; echo $HOST_TOKEN", "sandbox: {mode: off}\n")
	if !strings.Contains(told, "reached") {
		t.Errorf("the model was told:\n%s", told)
	}
}

// runCommand lets the model run one command and returns the tool result.
func runCommand(t *testing.T, command, config string, env ...string) string {
	t.Helper()
	input, err := json.Marshal(map[string]string{"command": command})
	if err != nil {
		t.Fatal(err)
	}
	told := make(chan string, 1)
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		last := r.Messages[len(r.Messages)-1]
		if len(last.Results) == 0 {
			return llmtest.Script{Calls: []llmtest.Call{{ID: "call-1", Name: "bash", Input: string(input)}}}
		}
		for _, text := range last.Results {
			select {
			case told <- text:
			default: // asked again; the first answer is the one to look at
			}
		}
		return llmtest.Say("Done.")
	})
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := e2e.Start(t, append(append(modelEnv(model.URL), "LILAC_CONFIG="+file), env...)...)
	a := s.Prompt(s.NewSession(), "go", event.Prompt)
	if end := s.WaitEnded(a.RequestID, answerWithin); end.State != string(event.StateDone) {
		t.Fatalf("the request ended as %s: %s", end.State, end.Detail)
	}
	return <-told
}

func portOf(s *httptest.Server) int { return s.Listener.Addr().(*net.TCPAddr).Port }
