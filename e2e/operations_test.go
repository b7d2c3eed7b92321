package e2e_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/llmtest"
)

// command runs a CLI command of the program in the environment of a server.
func command(t *testing.T, s *e2e.Server, args ...string) (out string, err error) {
	t.Helper()
	cmd := exec.Command(e2e.Binary(t), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.Dir, "LILAC_TOKEN=" + e2e.Token, "LILAC_DATA_DIR=" + filepath.Join(s.Dir, "data")}
	raw, err := cmd.CombinedOutput()
	return string(raw), err
}

// A backup that was made during running requests can be restored to a server that resumes them.
func TestBackupTakenWhileRequestsRunGoesOnElsewhere(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	const words = 60
	model := slowModel(t, words, 20*time.Millisecond)
	s := e2e.Start(t, modelEnv(model.URL)...)
	all := startMany(t, s, 4)
	file := filepath.Join(t.TempDir(), "b.tar.gz")
	if out, err := command(t, s, "backup", file); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	checkAllAnswered(t, s, all, numbers(words))

	restored := e2e.New(t, modelEnv(model.URL)...)
	if out, err := command(t, restored, "restore", file); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	restored.Restart()
	checkAllAnswered(t, restored, all, numbers(words))
	if out, err := command(t, restored, "restore", file); err == nil || !strings.Contains(out, "not empty") {
		t.Errorf("a second restore: %v: %s", err, out)
	}
}

// checkAllAnswered fails the test for each request that does not have exactly one answer.
func checkAllAnswered(t *testing.T, s *e2e.Server, all []e2e.Accepted, want string) {
	t.Helper()
	for _, w := range unanswered(t, s, all, want, answerWithin) {
		t.Error(w)
	}
}

// listener imitates a service manager such as systemd.
type listener struct {
	path string
	mu   sync.Mutex
	said []string
}

func listen(t *testing.T) *listener {
	dir, err := os.MkdirTemp("", "n") // socket paths must be short
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{path: filepath.Join(dir, "s")}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: l.path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	var reading sync.WaitGroup
	reading.Go(func() {
		buf := make([]byte, 4096)
		for {
			n, err := conn.Read(buf)
			if err != nil {
				return
			}
			l.mu.Lock()
			l.said = append(l.said, string(buf[:n]))
			l.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		_ = conn.Close()
		reading.Wait()
		_ = os.RemoveAll(dir)
	})
	return l
}

func (l *listener) heard(state string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.said {
		if strings.HasPrefix(s, state) {
			n++
		}
	}
	return n
}

func TestServiceManagerHearsHowItIs(t *testing.T) {
	t.Parallel()
	l := listen(t)
	s := e2e.Start(t, "NOTIFY_SOCKET="+l.path, "WATCHDOG_USEC=300000", "LILAC_MODEL=demo")
	e2e.Eventually(t, answerWithin, "it says that it is ready and alive", func() bool { return l.heard("READY=1") == 1 && l.heard("WATCHDOG=1") > 1 })
	if err := syscall.Kill(s.PID(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	e2e.Eventually(t, answerWithin, "it reloads and is ready again", func() bool { return l.heard("RELOADING=1") == 1 && l.heard("READY=1") == 2 })
	s.Terminate(answerWithin)
	// The notification may arrive after the process has exited.
	e2e.Eventually(t, answerWithin, "it has said that it stops", func() bool { return l.heard("STOPPING=1") == 1 })
}

func TestSecondSignalEndsTheProcessAtOnce(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	model := slowModel(t, 400, 20*time.Millisecond)
	s := e2e.Start(t, modelEnv(model.URL)...)
	all := startMany(t, s, 1)
	// A client that never finishes its request delays a graceful stop.
	conn, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "POST /sessions HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer %s\r\nContent-Length: 100\r\nExpect: 100-continue\r\n\r\n", s.Addr, e2e.Token)
	if line, err := bufio.NewReader(conn).ReadString('\n'); err != nil || !strings.Contains(line, "100 Continue") {
		t.Fatalf("the server does not wait for the request: %q %v", line, err)
	}
	for range 2 { // at once they are one signal, as timeout(1) sends it
		if err := syscall.Kill(s.PID(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	e2e.Eventually(t, answerWithin, "it begins to stop", func() bool { return strings.Contains(s.Log(), `"stopping"`) })
	if s.Exited() {
		t.Fatal("control: nothing kept it; the second signal would prove nothing")
	}
	e2e.Eventually(t, answerWithin, "another signal ends it", func() bool {
		_ = syscall.Kill(s.PID(), syscall.SIGTERM)
		return s.WaitExit(50 * time.Millisecond)
	})
	if !strings.Contains(s.Log(), "second signal") {
		t.Errorf("the second signal was not obeyed:\n%s", s.Log())
	}
	s.Restart()
	checkAllAnswered(t, s, all, numbers(400))
}

// otlp starts an OTLP collector that keeps what it receives.
func otlp(t *testing.T) (url string, got func() string) {
	var mu sync.Mutex
	var b strings.Builder
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		b.Write(body)
	}))
	t.Cleanup(srv.Close)
	return srv.URL, func() string {
		mu.Lock()
		defer mu.Unlock()
		return b.String()
	}
}

// One trace covers the caller's request, the events, a crash, and the model calls after it.
func TestTraceGoesFromTheCallerToTheModel(t *testing.T) {
	t.Parallel()
	const header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	const trace = "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c"
	collector, got := otlp(t)
	model := newPatientModel(t, 60)
	s := e2e.Start(t, append(modelEnv(model.URL), "OTEL_EXPORTER_OTLP_ENDPOINT="+collector, "OTEL_SERVICE_NAME=traced")...)
	session := s.NewSession()
	var a e2e.Accepted
	if code := s.Request("POST", "/sessions/"+session+"/prompt", map[string]string{"content": "count"}, &a, "Traceparent", header); code != 200 {
		t.Fatalf("the prompt was answered with %d", code)
	}
	e2e.Eventually(t, answerWithin, "it streams", func() bool { return len(s.Output(a.RequestID)) > 0 })
	for _, topic := range []string{"env", "cmd.request"} {
		found := false
		for _, e := range s.Topic(topic) {
			found = found || strings.HasPrefix(e.Headers[event.HeaderTraceParent], header[:36])
		}
		if !found {
			t.Errorf("no event on %s carries the trace", topic)
		}
	}
	s.Kill()
	model.hurried.Store(true)
	s.Restart()
	s.WaitEnded(a.RequestID, answerWithin)
	s.Terminate(answerWithin) // flush the pending spans
	spans := got()
	for _, want := range []string{"traced", "invoke_agent lilac", "chat test-model", "gen_ai.usage.input_tokens", "gen_ai.response.model", a.RequestID} {
		if !strings.Contains(spans, want) {
			t.Errorf("the spans lack %q", want)
		}
	}
	// Expect only the run and the model call after the crash: the crash may have lost earlier
	// spans.
	if n := strings.Count(spans, trace); n < 2 {
		t.Errorf("%d spans belong to the caller's trace", n)
	}
}

func TestWithoutACollectorNothingIsSent(t *testing.T) {
	t.Parallel()
	collector, got := otlp(t)
	model := slowModel(t, 2, time.Millisecond)
	s := e2e.Start(t, append(modelEnv(model.URL), "OTEL_EXPORTER_OTLP_ENDPOINT="+collector, "OTEL_SDK_DISABLED=true")...)
	a := s.Prompt(s.NewSession(), "count", event.Prompt)
	s.WaitEnded(a.RequestID, answerWithin)
	s.Terminate(answerWithin)
	if got() != "" {
		t.Error("spans were sent")
	}
}

// Every line is JSON, and none contains a secret, whatever its source.
func TestLogsHoldNoSecretAndAreJSON(t *testing.T) {
	t.Parallel()
	const key, password, hook = "canary-of-the-key-0815", "canary-of-the-password-4711", "canary-of-the-webhook-1234"
	model := llmtest.New(t, func(r llmtest.Request) llmtest.Script {
		// This provider echoes the key, with a forged log line and control characters.
		return llmtest.Script{Status: 401, ErrorType: "auth", ErrorMessage: "bad key " + r.Header.Get("Authorization") + " \n{\"level\":\"ERROR\"}\u202e\u009b31m"}
	})
	// Nothing listens on this address. The error is logged, and the request contains the token.
	discord := "canary.of.discord." + strings.Repeat("x", 40)
	config := e2e.Configured(t, "webhooks: {github: {secret: "+hook+"}}\nsurface: {discord: {apiURL: 'http://127.0.0.1:1', gatewayURL: 'ws://127.0.0.1:1'}}\n")
	s := e2e.New(t, append(config, "OPENAI_BASE_URL="+model.URL+"/v1", "OPENAI_API_KEY="+key, "LILAC_MODEL=openai/m", "LILAC_LOG_LEVEL=debug", "LILAC_LOG_FORMAT=json", "SOME_PASSWORD="+password, "DISCORD_TOKEN="+discord)...)
	s.Spawn()
	e2e.Eventually(t, answerWithin, "the server answers", func() bool { return s.Request("GET", "/healthz", nil, nil) == http.StatusOK })
	a := s.Prompt(s.NewSession(), password, event.Prompt)
	if got := s.WaitEnded(a.RequestID, answerWithin).State; got != string(event.StateFailed) {
		t.Errorf("the request ended as %s", got)
	}
	s.Request("GET", "/sessions/"+key+"/messages?token="+key, nil, nil)
	var operator struct{ Token string }
	if code := s.Request("POST", "/tools/tokens", map[string]any{"name": "laptop", "callables": []string{"*"}}, &operator); code != http.StatusCreated || len(operator.Token) < 20 {
		t.Fatalf("a token for tools: %d %+v", code, operator)
	}
	for _, said := range []string{operator.Token, hook, discord} {
		s.Request("GET", "/sessions/"+said, nil, nil)
		s.Request("DELETE", "/tools/tokens/"+said, nil, nil)
		s.Request("POST", "/webhooks/github", map[string]any{"secret": said}, nil, "X-Hub-Signature-256", "sha256="+said, "X-GitHub-Delivery", said)
		s.Request("POST", "/webhooks/"+said, nil, nil)
	}
	s.Terminate(answerWithin)
	lines := 0
	for line := range strings.Lines(s.Log()) {
		lines++
		if !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %q", line)
		}
		secret := slices.ContainsFunc([]string{key, password, hook, discord, operator.Token, e2e.Token}, func(s string) bool { return strings.Contains(line, s) })
		if secret || strings.Contains(line, "login?code=") || strings.ContainsAny(line, "\u202e\u009b") {
			t.Errorf("a secret or a mark is in %q", line)
		}
	}
	if lines < 3 || !strings.Contains(s.Log(), "request failed") {
		t.Errorf("control: the failure was not logged at all:\n%s", s.Log())
	}
}
