package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"lilac/internal/agent/rundir"
	"lilac/internal/testkit/freeport"
	"lilac/internal/testkit/logtest"
)

// Token is the operator's token of every test server.
const Token = "e2e-token-0123456789abcdef0123456789"

// startWithin bounds the time until a server answers, on a machine that runs other tests.
const startWithin = 60 * time.Second

var build struct {
	once sync.Once
	path string
	err  error
}

// Binary builds the program once for all tests of the process, and returns its path.
func Binary(t testing.TB) string {
	t.Helper()
	build.once.Do(func() {
		dir, err := os.MkdirTemp("", "lilac-e2e-")
		if err != nil {
			build.err = err
			return
		}
		build.path = filepath.Join(dir, "lilac")
		// Unlike go build, go run links a program only once for all packages of tests.
		out, err := exec.Command("go", "run", "-exec", "cp", "lilac/internal/testkit/killpoints/lilac", build.path).CombinedOutput()
		if err != nil {
			build.err = fmt.Errorf("build the program: %w\n%s", err, out)
		}
	})
	if build.err != nil {
		t.Fatal(build.err)
	}
	return build.path
}

// RemoveBinary removes the binary that [Binary] built. TestMain calls it at the end.
func RemoveBinary() {
	if build.path != "" {
		_ = os.RemoveAll(filepath.Dir(build.path))
	}
}

// A Server is a data directory and the process that serves it, if one is running.
type Server struct {
	t    testing.TB
	Dir  string
	Addr string
	// Env is added to a clean environment at each start.
	Env []string
	// Within is an optional command that wraps the program. The program's command line is appended
	// to it, and the command must exec it.
	Within []string

	client *http.Client
	cmd    *exec.Cmd
	exited chan struct{}
	log    *logtest.Log
}

// New prepares a server with its own directories, but does not start it.
func New(t testing.TB, env ...string) *Server {
	t.Helper()
	s := &Server{
		t: t, Dir: t.TempDir(), Addr: freeport.Loopback(t), Env: slices.Clone(env), log: &logtest.Log{},
		client: &http.Client{Transport: &http.Transport{}},
	}
	t.Cleanup(func() {
		s.Kill()
		s.removeSockets()
		s.client.CloseIdleConnections()
		if t.Failed() {
			t.Logf("log of the server:\n%s", s.Log())
		}
	})
	return s
}

// Start prepares a server and starts it.
func Start(t testing.TB, env ...string) *Server {
	t.Helper()
	s := New(t, env...)
	s.Restart()
	return s
}

// Restart starts the process and waits until it is ready. The extra environment applies to this
// start only.
func (s *Server) Restart(extra ...string) {
	s.t.Helper()
	s.Spawn(extra...)
	s.WaitReady()
}

// Spawn starts the process and does not wait until it is ready.
func (s *Server) Spawn(extra ...string) {
	s.t.Helper()
	if s.cmd != nil {
		s.t.Fatal("the server runs already")
	}
	// Idle connections to the previous process would make the first request fail.
	s.client.CloseIdleConnections()
	argv := append(slices.Clone(s.Within), Binary(s.t), "serve", "--addr", s.Addr, "--data", filepath.Join(s.Dir, "data"))
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env = append([]string{
		"PATH=" + os.Getenv("PATH"),
		"HOME=" + s.Dir,
		"LILAC_TOKEN=" + Token,
		"LILAC_WORKSPACE=" + filepath.Join(s.Dir, "workspace"),
		"LILAC_DELAYS=" + os.Getenv("LILAC_DELAYS"),
	}, append(s.Env, extra...)...)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("start the server: %v", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	s.cmd, s.exited = cmd, exited
}

// WaitReady waits until /readyz returns 200.
func (s *Server) WaitReady() {
	s.t.Helper()
	Eventually(s.t, startWithin, "the server is ready", func() bool {
		if s.Exited() {
			s.t.Fatalf("the server ended instead of starting:\n%s", s.Log())
		}
		return s.Ready()
	})
}

// Ready reports whether /readyz returns 200 now.
func (s *Server) Ready() bool { return s.Request("GET", "/readyz", nil, nil) == http.StatusOK }

// Kill ends the process with kill -9. It does nothing if none is running.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.exited
	s.cmd = nil
}

// removeSockets removes the socket directory that a killed process left behind, as the next start
// would do.
func (s *Server) removeSockets() {
	data := filepath.Join(s.Dir, "data")
	if _, err := os.Stat(data); err != nil {
		return // the process was never started
	}
	dir, err := rundir.Open(data)
	if err == nil {
		err = dir.Close()
	}
	if err != nil {
		s.t.Errorf("remove the sockets: %v", err)
	}
}

// Terminate asks the process to stop, and returns how long that took.
func (s *Server) Terminate(within time.Duration) time.Duration {
	s.t.Helper()
	start := time.Now()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(within):
		s.t.Fatalf("the server did not stop within %s", within)
	}
	s.cmd = nil
	return time.Since(start)
}

// Pause suspends the process, to simulate a machine that hangs.
func (s *Server) Pause() { _ = s.cmd.Process.Signal(syscall.SIGSTOP) }

// Resume ends a [Server.Pause].
func (s *Server) Resume() { _ = s.cmd.Process.Signal(syscall.SIGCONT) }

// Exited reports whether the process has exited by itself.
func (s *Server) Exited() bool {
	select {
	case <-s.exited:
		return true
	default:
		return false
	}
}

// WaitExit waits until the process has exited by itself. It returns false after the timeout.
func (s *Server) WaitExit(within time.Duration) bool {
	select {
	case <-s.exited:
		s.cmd = nil
		return true
	case <-time.After(within):
		return false
	}
}

// PID returns the process ID of the running server.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Log returns the output of all processes of this server.
func (s *Server) Log() string { return s.log.String() }

// Get makes an authorized request and returns the body of whatever response comes. The status is 0
// if there was none.
func (s *Server) Get(path string) (status int, body string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodGet, "http://"+s.Addr+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+Token)
	res, err := s.client.Do(req)
	if err != nil {
		return 0, ""
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, ""
	}
	return res.StatusCode, string(data)
}

// Workspace returns the workspace of a session, which it creates if necessary.
func (s *Server) Workspace(session string) string {
	s.t.Helper()
	dir := filepath.Join(s.Dir, "data", "workspaces", "s-"+session)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		s.t.Fatal(err)
	}
	return dir
}

// Request makes an authorized request and decodes the response into out, which may be nil. It
// returns the status, or 0 if there was no response.
func (s *Server) Request(method, path string, body, out any, header ...string) int {
	s.t.Helper()
	var reader io.Reader
	if body != nil {
		data, err := json.Marshal(body)
		if err != nil {
			s.t.Fatal(err)
		}
		reader = bytes.NewReader(data)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.Addr+path, reader)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+Token)
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := s.client.Do(req)
	if err != nil {
		return 0
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		return 0
	}
	if out != nil && res.StatusCode < 300 {
		if err := json.Unmarshal(data, out); err != nil {
			s.t.Fatalf("%s %s answered %q: %v", method, path, data, err)
		}
	}
	return res.StatusCode
}

// Poll calls cond until it returns true, and reports whether it did so in time. The interval
// grows, because many tests wait at the same time and must not slow down the work that they wait
// for.
func Poll(within time.Duration, cond func() bool) bool {
	began := time.Now()
	for !cond() {
		waited := time.Since(began)
		if waited > within {
			return false
		}
		time.Sleep(max(5*time.Millisecond, min(waited/10, 50*time.Millisecond)))
	}
	return true
}

// Eventually polls until cond returns true, or fails the test.
func Eventually(t testing.TB, within time.Duration, what string, cond func() bool) {
	t.Helper()
	if !Poll(within, cond) {
		t.Fatalf("not within %s: %s", within, what)
	}
}
