package cli

import (
	"bufio"
	"context"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lilac/internal/operate/client"
	"lilac/internal/telemetry/health"
	"lilac/internal/testkit/effort"
)

// hungReader is a server whose log goes to a pipe that nobody reads.
type hungReader struct {
	cmd    *exec.Cmd
	server *client.Client
	ended  chan error
}

// serveUnread starts a server. Its pipe has room for one page of log lines.
func serveUnread(t *testing.T, mode string) *hungReader {
	t.Helper()
	h := &hungReader{cmd: exec.Command(os.Args[0], "-test.run=^$"), ended: make(chan error, 1)}
	home := t.TempDir()
	h.cmd.Env = []string{servePipe + "=" + mode, "HOME=" + home, "PATH=" + os.Getenv("PATH"), "LILAC_MODEL=demo"}
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = read.Close() }) // open, but not read, for the whole test
	if _, err := unix.FcntlInt(read.Fd(), unix.F_SETPIPE_SZ, os.Getpagesize()); err != nil {
		t.Fatal(err)
	}
	h.cmd.Stderr = write
	stdout, err := h.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := h.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	write.Close()
	t.Cleanup(func() {
		_ = h.cmd.Process.Kill()
		<-h.ended
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	go func() { h.ended <- h.cmd.Wait() }()
	if err != nil {
		t.Fatalf("no login link: %v", err)
	}
	_, link, _ := strings.Cut(line, "http://")
	addr, _, _ := strings.Cut(link, "/")
	if h.server, err = client.Connect(client.Options{Addr: addr, DataDir: home + "/.lilac"}); err != nil {
		t.Fatal(err)
	}
	return h
}

// answers asks questions, and reports whether all are answered within a time.
func (h *hungReader) answers(t *testing.T, within time.Duration) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	var session struct{ ID string }
	if err := h.server.Call(ctx, "POST", "/sessions", map[string]any{}, &session); err != nil {
		return false
	}
	var asked struct{ RequestID string }
	if err := h.server.Call(ctx, "POST", "/sessions/"+session.ID+"/prompt", map[string]string{"content": "hello"}, &asked); err != nil {
		return false
	}
	for ctx.Err() == nil {
		// A reload is logged.
		_ = h.cmd.Process.Signal(syscall.SIGHUP)
		var request struct{ State string }
		if err := h.server.Call(ctx, "GET", "/requests/"+asked.RequestID, nil, &request); err == nil && request.State == "done" {
			return true
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond):
		}
	}
	return false
}

// log returns the health of the log.
func (h *hungReader) log(t *testing.T) (part health.Part) {
	t.Helper()
	var report health.Report
	if err := h.server.Call(t.Context(), "GET", "/readyz", nil, &report); err != nil {
		t.Log(err) // not ready yet, right after the start
		return part
	}
	for _, p := range report.Parts {
		if p.Name == "log" {
			part = p
		}
	}
	return part
}

func TestServerWorksWithALogThatNobodyReads(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	h := serveUnread(t, "serve")
	// The pipe is full after a few lines, and one write into it does not return.
	deadline := time.Now().Add(30 * time.Second)
	for h.log(t).Status != health.Warning {
		if !h.answers(t, 20*time.Second) {
			t.Fatal("a question is not answered while nobody reads the log")
		}
		if time.Now().After(deadline) {
			t.Fatalf("/readyz does not report that nobody reads the log: %+v", h.log(t))
		}
	}
	if !h.answers(t, 20*time.Second) {
		t.Error("a question is not answered after the log is full")
	}
	// The end does not wait for the reader either.
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-h.ended:
		h.ended <- err
		if err != nil {
			t.Errorf("the server ended with %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the server does not stop while nobody reads its log")
	}
}

// Control: if logging waits for the reader, the server soon answers nothing.
func TestServerWorksWithALogThatNobodyReadsControl(t *testing.T) {
	effort.SkipDetail(t)
	t.Parallel()
	h := serveUnread(t, "blocking")
	for range 50 {
		if !h.answers(t, 3*time.Second) {
			return
		}
	}
	t.Error("a server whose log blocks answers everything: the test shows nothing")
}
