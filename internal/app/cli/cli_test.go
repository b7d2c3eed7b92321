package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"lilac/internal/testkit/freeport"
)

// call runs a command line with an environment that contains only HOME and env.
func call(t *testing.T, in string, env map[string]string, args ...string) (out, errOut string, code int) {
	t.Helper()
	home := t.TempDir()
	var stdout, stderr bytes.Buffer
	c := &cli{in: strings.NewReader(in), printer: printer{out: &stdout, err: &stderr}, locator: locator{getenv: func(name string) string {
		if name == "HOME" {
			return home
		}
		return env[name]
	}}}
	code = c.run(t.Context(), args)
	return stdout.String(), stderr.String(), code
}

// fake starts a server with fixed responses by method and path, and returns the environment
// variables to reach it.
func fake(t *testing.T, answers map[string]string) map[string]string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.Method+" "+r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"error":{"kind":"not_found","message":"There is no such thing."}}`
		}
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(s.Close)
	return map[string]string{"LILAC_ADDR": strings.TrimPrefix(s.URL, "http://"), "LILAC_TOKEN": "0123456789abcdef"}
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if !cmd.Hidden && (cmd.Short == "" || cmd.Example == "") {
			t.Errorf("%s lacks a description or an example", cmd.CommandPath())
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk((&cli{}).root())
	for args, want := range map[string]string{"dlq --help": "replay", "-h dlq replay": "replay ID", "dlq -h replay": "replay ID", "help dlq replay": "replay ID", "requests show r1 -h": "--json"} {
		if out, errOut, code := call(t, "", nil, strings.Fields(args)...); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s ended with %d, without %q: %s%s", args, code, want, out, errOut)
		}
	}
}

func TestExitCodesComeFromKinds(t *testing.T) {
	env := fake(t, nil)
	for _, tt := range []struct {
		name string
		env  map[string]string
		args []string
		code int
		want string
	}{
		{"unknown command", nil, []string{"frobnicate"}, 2, "unknown command \"frobnicate\" (see"},
		{"mistyped command", nil, []string{"requests", "lsit"}, 2, "did you mean \"list\"?"},
		{"unknown subcommand", nil, []string{"dlq", "frobnicate"}, 2, "frobnicate"},
		{"help about an unknown command", nil, []string{"help", "frobnicate"}, 2, "unknown command \"frobnicate\" (see lilac --help)"},
		{"help about a mistyped command", nil, []string{"help", "requests", "lsit"}, 2, "did you mean \"list\"?"},
		{"help about more than a command", nil, []string{"help", "serve", "now"}, 2, "see lilac serve --help"},
		{"an unknown command and --help", nil, []string{"srve", "--help"}, 2, "did you mean \"serve\"?"},
		{"-h and an unknown subcommand", nil, []string{"-h", "dlq", "frobnicate"}, 2, "see lilac dlq --help"},
		{"unknown shell", nil, []string{"completion", "frobnicate"}, 2, "see lilac completion --help"},
		{"unknown flag", nil, []string{"serve", "--frobnicate"}, 2, "frobnicate"},
		{"missing argument", nil, []string{"requests", "show"}, 2, "lilac: ID is missing; usage: lilac requests show ID (see"},
		{"second argument missing", nil, []string{"groups", "drop", "env"}, 2, "lilac: GROUP is missing; usage: lilac groups drop TOPIC GROUP (see"},
		{"one of many missing", nil, []string{"dlq", "drop"}, 2, "lilac: ID is missing;"},
		{"argument too many", nil, []string{"requests", "show", "a", "b"}, 2, `the argument "b" is one too many; usage: lilac requests show ID (see`},
		{"argument of a command without any", nil, []string{"serve", "now"}, 2, `lilac serve takes no argument such as "now"; usage: lilac serve (see`},
		{"argument of a command with required flags", nil, []string{"migrate", "now"}, 2, `lilac migrate takes no argument such as "now";`},
		{"missing required flag", nil, []string{"webhooks", "sign", "deploy"}, 2, "lilac: --file is missing (see"},
		{"empty argument", env, []string{"requests", "show", ""}, 2, "empty"},
		{"empty directory", env, []string{"serve", "--data", ""}, 2, "--data is empty"},
		{"empty directory of a backup", env, []string{"backup", "x.tar.gz", "--data="}, 2, "--data is empty"},
		{"empty workspace", env, []string{"serve", "--workspace", ""}, 2, "--workspace is empty"},
		{"empty file", env, []string{"config", "check", "--config", ""}, 2, "--config is empty"},
		{"empty directory of a chat", env, []string{"chat", "--data", "", "hi"}, 2, "--data is empty"},
		{"empty conversation", env, []string{"chat", "--session=", "hi"}, 2, "--session is empty"},
		{"missing flag", env, []string{"events", "publish"}, 2, "events publish --help"},
		{"bad configuration", map[string]string{"LILAC_MODEL": "x"}, []string{"config", "check"}, 2, "provider/model"},
		{"no server", nil, []string{"sessions", "list"}, 6, "lilac serve"},
		{"not found", env, []string{"requests", "show", "r"}, 4, "no such thing"},
		{"nothing to say", env, []string{"chat"}, 2, "no message"},
		{"only spaces to say", env, []string{"chat", "  "}, 2, "no message"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			out, errOut, code := call(t, "", tt.env, tt.args...)
			if code != tt.code || !strings.Contains(errOut, tt.want) {
				t.Errorf("ended with %d: %q, want %d with %q", code, errOut, tt.code, tt.want)
			}
			if strings.Count(errOut, "\n") != 1 || out != "" {
				t.Errorf("an error is one line on stderr, got %q and %q", errOut, out)
			}
		})
	}
}

// Commands reach the server even if the configuration file has a mistake. Otherwise, a failing
// health check would cause a restart of a working server, which then could not start.
func TestServerIsReachedDespiteAConfigurationMistake(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("webhooks: {ci: {secret: \"${NOT_OF_THIS_SHELL}\"}}\nlog: {level: loud}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := fake(t, map[string]string{"GET /readyz": `{"ready":true,"parts":[{"name":"bus","status":"ok"}]}`, "GET /sessions": `{"sessions":[]}`})
	for _, command := range []string{"health", "sessions list"} {
		args := append([]string{"--config", file}, strings.Fields(command)...)
		if out, errOut, code := call(t, "", env, args...); code != 0 || out == "" || errOut != "" {
			t.Errorf("%s ended with %d: %s%s", command, code, out, errOut)
		}
	}
	if _, errOut, code := call(t, "", env, "--config", file, "config", "check"); code != 2 || !strings.Contains(errOut, "loud") {
		t.Errorf("control: the configuration has no mistake: %d %s", code, errOut)
	}
}

func TestUsageIsPrinted(t *testing.T) {
	env := fake(t, map[string]string{"GET /usage": `{"days":[{"name":"2026-11-25","requests":0,"usage":{"inputTokens":0,"outputTokens":0}},{"name":"2026-11-26","requests":2,"usage":{"inputTokens":1000,"outputTokens":20,"cacheReadTokens":900,"costMicros":1500}}],"models":[{"name":"a/b","requests":2,"latency":{"medianMs":1500,"p95Ms":62000},"usage":{"inputTokens":1000,"outputTokens":20}}],"clients":[],"rules":[{"name":"ci","requests":1,"usage":{"inputTokens":1,"outputTokens":2}}],"channels":[{"name":"s1","title":"a\u001b[31m title","requests":1,"usage":{"inputTokens":1,"outputTokens":2}},{"name":"*","requests":1,"usage":{}}],"purposes":[{"name":"title","requests":3,"usage":{"inputTokens":5}}]}`})
	out, errOut, code := call(t, "", env, "usage", "--days", "2")
	want := "DAY         REQUESTS  INPUT  OUTPUT  CACHED  COST     TOOK\n2026-11-26  2         1000   20      90 %    $0.0015  -\n\nMODEL  REQUESTS  INPUT  OUTPUT  CACHED  COST  TOOK\na/b    2         1000   20      0 %     -     1.5s/1m2s\n\nCLIENT  REQUESTS  INPUT  OUTPUT  CACHED  COST  TOOK\n\n" +
		"CHANNEL      REQUESTS  INPUT  OUTPUT  CACHED  COST  TOOK\na[31m title  1         1      2       0 %     -     -\n(others)     1         0      0       -       -     -\n\nRULE  REQUESTS  INPUT  OUTPUT  CACHED  COST  TOOK\nci    1         1      2       0 %     -     -\n\nCALLS-FOR  REQUESTS  INPUT  OUTPUT  CACHED  COST  TOOK\ntitle      3         5      0       0 %     -     -\n\n"
	if code != 0 || errOut != "" || out != want {
		t.Errorf("it ended with %d, %q, and printed:\n%s", code, errOut, out)
	}
}

func TestListsPrintTablesAndJSON(t *testing.T) {
	env := fake(t, map[string]string{
		"GET /sessions": `{"sessions":[{"id":"s1","client":"web","state":"idle","title":"A \u001b[31mtitle"}]}`,
		"GET /requests": `{"requests":[{"id":"web:s1:r1","state":"done","steps":2,"usage":{"inputTokens":5,"outputTokens":7,"costMicros":1500}},{"id":"web:s1:r0","sessionId":"","client":"","state":"damaged","detail":"It is damaged.","createdAt":0,"steps":0,"usage":{}}]}`,
		"GET /dlq":      `{"deadLetters":[{"id":"7","group":"runner","attempts":5,"reason":"it broke","event":{"type":"user_query"}}]}`,
	})
	for command, want := range map[string][]string{
		"sessions": {"s1", "A [31mtitle"},
		"requests": {"web:s1:r1", "done", "12", "$0.0015", "web:s1:r0", "damaged"},
		"dlq":      {"7", "runner", "it broke"},
	} {
		out, errOut, code := call(t, "", env, command, "list")
		if code != 0 {
			t.Errorf("%s list ended with %d: %s", command, code, errOut)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%s list lacks %q:\n%s", command, w, out)
			}
		}
		out, _, _ = call(t, "", env, command, "list", "--json")
		if !json.Valid([]byte(out)) {
			t.Errorf("%s list --json is no JSON: %s", command, out)
		}
	}
}

func TestConfigCommands(t *testing.T) {
	env := map[string]string{"OPENAI_API_KEY": "canary-key"}
	out, _, code := call(t, "", env, "config", "check")
	if code != 0 || !strings.Contains(out, "openai/gpt-5") {
		t.Errorf("check ended with %d: %s", code, out)
	}
	_, errOut, code := call(t, "", map[string]string{"LILAC_MODEL": "x", "LILAC_LOG_LEVEL": "inof"}, "config", "check")
	if lines := strings.Split(strings.TrimSpace(errOut), "\n"); code != 2 || len(lines) != 2 ||
		!strings.HasPrefix(lines[0], "lilac: LILAC_LOG_LEVEL: ") || !strings.HasPrefix(lines[1], "lilac: LILAC_MODEL: ") {
		t.Errorf("check of two mistakes ended with %d: %s", code, errOut)
	}
	for _, args := range [][]string{{"config", "print"}, {"config", "print", "--json"}} {
		out, _, code = call(t, "", env, args...)
		if code != 0 || strings.Contains(out, "canary") || !strings.Contains(out, "***") {
			t.Errorf("%v ended with %d: %s", args, code, out)
		}
	}
	out, _, code = call(t, "", nil, "config", "schema")
	if code != 0 || !json.Valid([]byte(out)) || !strings.Contains(out, "allowedHosts") {
		t.Errorf("schema ended with %d: %s", code, out)
	}
}

func TestPipedChatPrintsOnlyTheAnswer(t *testing.T) {
	frame := func(kind, payload string) string {
		return fmt.Sprintf("id: c\nevent: %s\ndata: {\"id\":\"e\",\"type\":%q,\"payload\":%s}\n\n", kind, kind, payload)
	}
	answers := map[string]string{
		"POST /sessions":            `{"id":"s1"}`,
		"GET /sessions/s1/messages": `{"messages":[],"cursor":"c0"}`,
		"POST /sessions/s1/prompt":  `{"requestId":"terminal:s1:m","messageId":"m"}`,
		"GET /events": frame("stream.start", `{"requestId":"terminal:s1:m"}`) +
			frame("stream.tool_call", `{"requestId":"terminal:s1:m","name":"bash","status":"start"}`) +
			frame("stream.text", `{"requestId":"terminal:s1:m","content":"Hel","offset":0}`) +
			frame("stream.file", `{"requestId":"terminal:s1:m","filename":"a.csv","bytes":8,"url":"/sessions/s1/files/ab","path":"/home/ann/lilac/a\u001b.csv"}`) +
			frame("stream.file", `{"requestId":"terminal:s1:m","filename":"b.csv","bytes":9,"url":"/sessions/s1/files/cd"}`) +
			frame("stream.completed", `{"requestId":"terminal:s1:m","content":"Hello\u001b"}`),
	}
	out, errOut, code := call(t, "hi\n", fake(t, answers), "chat")
	if out != "Hello\n" || code != 0 {
		t.Errorf("printed %q, ended with %d: %s", out, code, errOut)
	}
	if !strings.Contains(errOut, "a.csv (8 bytes): /home/ann/lilac/a.csv\n") || !strings.Contains(errOut, "b.csv (9 bytes): http://127.0.0.1:") || !strings.Contains(errOut, "/sessions/s1/files/cd\n") {
		t.Errorf("where the files are is told as %q", errOut)
	}
	answers["GET /events"] = frame("stream.error", `{"requestId":"terminal:s1:m","error":{"kind":"limit_reached","message":"The limit of steps is reached."}}`)
	_, errOut, code = call(t, "", fake(t, answers), "chat", "hi")
	if code != 1 || !strings.Contains(errOut, "limit of steps") {
		t.Errorf("a failed answer ended with %d: %s", code, errOut)
	}
	answers["GET /events"] = frame("session.paused", `{"requestId":"terminal:s1:m","pause":1,"question":"50 steps. Go on?"}`)
	_, errOut, code = call(t, "", fake(t, answers), "chat", "hi")
	if code != 1 || !strings.Contains(errOut, "50 steps. Go on?") || !strings.Contains(errOut, "lilac requests continue terminal:s1:m") {
		t.Errorf("an answer that waits at a limit ended with %d: %s", code, errOut)
	}
}

// The chat reports that an earlier request of the session is paused. The stream repeats that
// event to clients that connect later.
func TestChatReportsARequestPausedAtALimit(t *testing.T) {
	frame := func(kind, payload string) string {
		return fmt.Sprintf("id: c\nevent: %s\ndata: {\"id\":\"e\",\"type\":%q,\"payload\":%s}\n\n", kind, kind, payload)
	}
	answers := map[string]string{
		"GET /sessions/s1/messages": `{"messages":[],"cursor":"c0"}`,
		"POST /sessions/s1/prompt":  `{"requestId":"terminal:s1:m","messageId":"m"}`,
		"GET /events": frame("session.paused", `{"requestId":"terminal:s1:a","question":"50 steps. Go on?"}`) +
			frame("stream.completed", `{"requestId":"terminal:s1:m","content":"Hello"}`),
	}
	const told = "Waiting: 50 steps. Go on? Use: lilac requests continue terminal:s1:a\n"
	if out, errOut, code := call(t, "", fake(t, answers), "chat", "--session", "s1", "hi"); code != 0 || out != "Hello\n" || errOut != told {
		t.Errorf("ended with %d: %s%s", code, out, errOut)
	}
}

func TestDoctorSuggestsFixes(t *testing.T) {
	// Use another address, because Lilac may run on this machine at the default address.
	out, errOut, code := call(t, "", nil, "doctor", "--addr", freeport.Loopback(t))
	if code != 0 || !strings.Contains(out, "lilac serve") || !strings.Contains(out, "demo") {
		t.Errorf("ended with %d: %s%s", code, out, errOut)
	}
	out, _, _ = call(t, "", nil, "doctor", "--json")
	if !json.Valid([]byte(out)) {
		t.Errorf("--json is no JSON: %s", out)
	}
}

func TestDoctorReportsWhatServeRefuses(t *testing.T) {
	out, errOut, code := call(t, "", map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "collector"}, "doctor", "--addr", freeport.Loopback(t))
	if code == 0 || !strings.Contains(out, "OTEL_EXPORTER_OTLP_ENDPOINT is not the URL") {
		t.Errorf("ended with %d: %s%s", code, out, errOut)
	}
}

func TestDoctorReportsUnreadableFiles(t *testing.T) {
	data := t.TempDir()
	if err := os.Mkdir(filepath.Join(data, "server.json"), 0o700); err != nil { // not readable as a file, even by root
		t.Fatal(err)
	}
	out, errOut, code := call(t, "", nil, "doctor", "--data", data)
	if !strings.Contains(out, "data directory") || !strings.Contains(out, "server.json cannot be read") {
		t.Errorf("ended with %d: %s%s", code, out, errOut)
	}
}

func TestMeaninglessFlagsAreRefused(t *testing.T) {
	for _, args := range []string{
		"sessions list --limit 0", "dlq list --limit -3", "requests list --limit 1001", "events tail --from-begin",
	} {
		if out, errOut, code := call(t, "", nil, strings.Fields(args)...); code != 2 || !strings.Contains(errOut, "--") || out != "" {
			t.Errorf("%s ended with %d: %s%s", args, code, out, errOut)
		}
	}
}
