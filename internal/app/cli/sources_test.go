package cli

import (
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lilac/internal/core/webhook"
)

func TestSignPrintsACommandThatTheServerAccepts(t *testing.T) {
	dir := t.TempDir()
	file, body := filepath.Join(dir, "config.yaml"), filepath.Join(dir, "it's a body.json")
	for path, text := range map[string]string{file: "webhooks: {ci: {secret: '${CI_SECRET}'}}\n", body: `{"a":1}`} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := map[string]string{"CI_SECRET": "0123456789abcdef", "LILAC_ADDR": "127.0.0.1:7999"}
	out, errOut, code := call(t, "", env, "--config", file, "webhooks", "sign", "ci", "--file", body, "--event", "push", "--json")
	var header http.Header
	if code != 0 || json.Unmarshal([]byte(out), &header) != nil {
		t.Fatalf("ended with %d: %s %s", code, out, errOut)
	}
	hook, err := webhook.New(webhook.Spec{Name: "ci", Secret: env["CI_SECRET"]})
	if err != nil {
		t.Fatal(err)
	}
	if d, err := hook.Verify(header, []byte(`{"a":1}`), time.Now()); err != nil || d.Event != "push" {
		t.Errorf("%+v, %v", d, err)
	}

	out, _, code = call(t, "", env, "--config", file, "webhooks", "sign", "ci", "--file", body, "--id", "d1")
	if code != 0 || !strings.HasPrefix(out, "curl -sS 'http://127.0.0.1:7999/webhooks/ci' \\\n") || !strings.Contains(out, "X-Github-Delivery: d1") {
		t.Errorf("ended with %d: %s", code, out)
	}
	// The address that the server announces takes precedence over the configured one.
	if err := os.WriteFile(filepath.Join(dir, "server.json"), []byte(`{"addr":"127.0.0.1:7888","pid":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	there := map[string]string{"CI_SECRET": env["CI_SECRET"], "LILAC_DATA_DIR": dir}
	if out, errOut, code := call(t, "", there, "--config", file, "webhooks", "sign", "ci", "--file", body); code != 0 || !strings.HasPrefix(out, "curl -sS 'http://127.0.0.1:7888/webhooks/ci' \\\n") {
		t.Errorf("ended with %d: %s %s", code, out, errOut)
	}
	// The shell must parse the quoted arguments back to the original values.
	args, err := exec.Command("sh", "-c", `curl() { printf '%s\n' "$@"; }; `+out).Output()
	if err != nil || !strings.Contains(string(args), "@"+body+"\n") {
		t.Errorf("%s, %v", args, err)
	}

	if _, errOut, code := call(t, "", env, "--config", file, "webhooks", "sign", "nobody", "--file", body); code != 4 || !strings.Contains(errOut, "Webhooks: ci") {
		t.Errorf("an unknown name ended with %d: %s", code, errOut)
	}
	if _, errOut, code := call(t, "", nil, "webhooks", "sign", "nobody", "--file", body); code != 4 || !strings.Contains(errOut, "Webhooks: none") {
		t.Errorf("without a webhook it ended with %d: %s", code, errOut)
	}
}

func TestSourcesAreListed(t *testing.T) {
	env := fake(t, map[string]string{
		"GET /sources": `{"sources":[{"kind":"webhook","name":"ci","accepted":7,"dropped":3},{"kind":"files","name":"inbox","trouble":"too many directories"}]}`,
	})
	out, errOut, code := call(t, "", env, "sources")
	if code != 0 || !strings.Contains(out, "too many directories") || !strings.Contains(out, "webhook") {
		t.Errorf("ended with %d: %s %s", code, out, errOut)
	}
}
