package toolcli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/foundation/fault"
	"lilac/internal/operate/toolcli"
	"lilac/internal/serve/toolwire"
)

// world is a server on a socket that records its requests.
type world struct {
	env    map[string]string
	stdin  string
	body   string
	header http.Header
	answer toolwire.Answer
}

func serve(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("", "cli") // t.TempDir may be too long for the path of a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{answer: toolwire.Answer{Status: toolwire.OK, Value: json.RawMessage(`{"id":"7","tags":["a","b"]}`)}}
	w.env = map[string]string{toolwire.EnvSocket: socket, toolwire.EnvToken: "secret", "LILAC_SESSION_ID": "s1", "LILAC_CWD": "/w"}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /list", func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, `{"callables":[{"id":"a.b","summary":"does \u001b[31mit"},{"id":"a.long","summary":"more"}]}`)
	})
	mux.HandleFunc("GET /help/a.b", func(rw http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(rw, `{"id":"a.b","summary":"does it","changes":true,"examples":["tools a.b --session-id=1"],
			"input":{"type":"object","required":["sessionId"],"properties":{"sessionId":{"type":"string","description":"Where."}}}}`)
	})
	mux.HandleFunc("POST /call", func(rw http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body)
		w.body, w.header = string(data), r.Header
		_ = json.NewEncoder(rw).Encode(w.answer)
	})
	server := &http.Server{Handler: mux}
	done := make(chan struct{})
	go func() { _ = server.Serve(l); close(done) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return w
}

func (w *world) run(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	c := toolcli.Command{Getenv: func(k string) string { return w.env[k] }, Stdin: strings.NewReader(w.stdin), Stdout: &out, Stderr: &errs}
	code = c.Main(context.Background(), args)
	return code, out.String(), errs.String()
}

func TestFlagsBecomeTheInput(t *testing.T) {
	w := serve(t)
	file := filepath.Join(t.TempDir(), "in.json")
	if err := os.WriteFile(file, []byte(`{"text":"from the file","n":1}`), 0o600); err != nil {
		t.Fatal(err)
	}
	w.stdin = `{"a":12345678901234567890}`
	for want, args := range map[string][]string{
		`{}`:                                 nil,
		`{"session-id":"#ops","text":"a=b"}`: {"--session-id=#ops", "--text=a=b"},
		`{"path":["a","b"]}`:                 {"--path=a", "--path=b"},
		`{"force":true,"payload":{"x":[1]}}`: {"--force", `--payload:json={"x":[1]}`},
		`{"n":"2","text":"from the file"}`:   {"--n=2", "--input=@" + file},
		`{"a":12345678901234567890}`:         {"--input=-"},
		`{"b":null}`:                         {`--input={"b":null}`},
	} {
		code, _, stderr := w.run(append([]string{"a.b"}, args...)...)
		if want := `{"callableId":"a.b","input":` + want + `}`; code != 0 || w.body != want {
			t.Errorf("%q: %d %s sent %s, want %s", args, code, stderr, w.body, want)
		}
	}
	for name, want := range map[string]string{"Authorization": "Bearer secret", "X-Lilac-Session-Id": "s1", "X-Lilac-Cwd": "/w", "X-Lilac-Request-Id": ""} {
		if got := w.header.Get(name); got != want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestWrongCommandLinesAreUsageErrors(t *testing.T) {
	w := serve(t)
	for _, args := range [][]string{
		{},
		{"--nonsense"},
		{"a.b", "value"},
		{"a.b", "--"},
		{"a.b", "--=x"},
		{"a.b", "--x:yaml=1"},
		{"a.b", "--x:json={"},
		{"a.b", "--output=xml"},
		{"a.b", "--input=[]"},
		{"a.b", "--input=@/nonexistent"},
	} {
		if code, stdout, stderr := w.run(args...); code != 2 || stdout != "" || !strings.HasPrefix(stderr, "tools: ") {
			t.Errorf("%q: %d %q %q", args, code, stdout, stderr)
		}
	}
	if w.body != "" {
		t.Errorf("something was sent: %s", w.body)
	}
}

func TestExitCodesFollowFromTheKind(t *testing.T) {
	w := serve(t)
	for kind, want := range map[fault.Kind]int{
		fault.Invalid: 2, fault.Denied: 3, fault.Unauthenticated: 3, fault.NotFound: 4, fault.Conflict: 5,
		fault.Unavailable: 6, fault.Timeout: 7, fault.Cancelled: 8, fault.Internal: 1, "of tomorrow": 1,
	} {
		w.answer = toolwire.Answer{Status: toolwire.Error, Error: &fault.Wire{Kind: kind, Message: "It did\nnot \x1b[31mwork."}}
		code, stdout, stderr := w.run("a.b")
		if code != want || stdout != "" || stderr != "tools: It did not [31mwork.\n" {
			t.Errorf("%s: %d %q %q", kind, code, stdout, stderr)
		}
		var wire fault.Wire
		code, _, stderr = w.run("a.b", "--output=json")
		if err := json.Unmarshal([]byte(stderr), &wire); err != nil || code != want {
			t.Errorf("%s as JSON: %d %q %v", kind, code, stderr, err)
		}
	}
}

func TestValuesArePrintedAsTextOrJSON(t *testing.T) {
	w := serve(t)
	if _, out, _ := w.run("a.b", "--output=json"); out != "{\n  \"id\": \"7\",\n  \"tags\": [\n    \"a\",\n    \"b\"\n  ]\n}\n" {
		t.Errorf("JSON: %q", out)
	}
	for value, want := range map[string]string{
		`{"id":"7","tags":["a","b"]}`: "id: 7\ntags: [\"a\",\"b\"]\n",
		`"plain \u001b[31m text"`:     "plain [31m text\n",
		`[{"a":1},"x",3]`:             "{\"a\":1}\nx\n3\n",
		`12`:                          "12\n",
	} {
		w.answer.Value = json.RawMessage(value)
		if _, out, _ := w.run("a.b"); out != want {
			t.Errorf("%s: %q, want %q", value, out, want)
		}
	}
}

func TestListAndHelpComeFromTheServer(t *testing.T) {
	w := serve(t)
	if code, out, _ := w.run("--list"); code != 0 || out != "a.b     does [31mit\na.long  more\n" {
		t.Errorf("%d %q", code, out)
	}
	for _, args := range [][]string{{"help", "a.b"}, {"a.b", "--help"}} {
		_, out, _ := w.run(args...)
		for _, want := range []string{"a.b: does it", "--session-id (string; needed)  Where.", "It changes something.", "tools a.b --session-id=1"} {
			if !strings.Contains(out, want) {
				t.Errorf("%q lacks %q: %s", args, want, out)
			}
		}
	}
	if code, out, _ := w.run("--help"); code != 0 || !strings.Contains(out, "Examples:") {
		t.Errorf("%d %q", code, out)
	}
}

func TestAServerThatIsNotThereIsSaidClearly(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "gone")
	for want, env := range map[string]map[string]string{
		"There is no tool server here":                              {},
		"No tool server answers at " + gone + ". Is Lilac running?": {toolwire.EnvSocket: gone},
	} {
		w := &world{env: env}
		if code, _, stderr := w.run("--list"); code != 6 || !strings.Contains(stderr, want) || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%d %q", code, stderr)
		}
	}
}
