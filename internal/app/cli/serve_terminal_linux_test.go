package cli

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"lilac/internal/testkit/e2e"
)

// reloaded is the line of the log about a reload.
const reloaded = "the configuration was reloaded"

// inTerminal is a server that was started in a terminal.
type inTerminal struct {
	t        *testing.T
	cmd      *exec.Cmd
	terminal *os.File
	file     string
	ended    chan error
}

// serveInTerminal starts a server in a terminal, behind other arguments such as nohup.
func serveInTerminal(t *testing.T, before ...string) *inTerminal {
	t.Helper()
	home := t.TempDir()
	args := append(before, os.Args[0], "-test.run=^$")
	s := &inTerminal{t: t, cmd: exec.Command(args[0], args[1:]...), file: filepath.Join(home, "log"), ended: make(chan error, 1)}
	out, err := os.Create(s.file)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	s.cmd.Dir, s.cmd.Stdout, s.cmd.Stderr = home, out, out
	s.cmd.Env = []string{servePipe + "=usual", "HOME=" + home, "PATH=" + os.Getenv("PATH"), "LILAC_MODEL=demo"}
	// What a process ignores, its children ignore, and the tests may run under nohup.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	defer signal.Stop(hangups)
	if s.terminal, err = pty.Start(s.cmd); err != nil {
		t.Fatal(err)
	}
	go func() { s.ended <- s.cmd.Wait() }()
	t.Cleanup(func() {
		_ = s.terminal.Close()
		_ = s.cmd.Process.Kill()
		<-s.ended
	})
	s.waitFor("Lilac is ready")
	return s
}

// output returns what the server has printed and logged.
func (s *inTerminal) output() string {
	text, _ := os.ReadFile(s.file)
	return string(text)
}

func (s *inTerminal) waitFor(text string) {
	s.t.Helper()
	if !e2e.Poll(time.Minute, func() bool { return strings.Contains(s.output(), text) }) {
		s.t.Fatalf("the log does not contain %q:\n%s", text, s.output())
	}
}

func (s *inTerminal) close() {
	s.t.Helper()
	if err := s.terminal.Close(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *inTerminal) signal(sig os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}

// waitForEnd waits until the server has stopped gracefully.
func (s *inTerminal) waitForEnd() {
	s.t.Helper()
	select {
	case err := <-s.ended:
		s.ended <- err
		if err != nil {
			s.t.Errorf("it ended with %v:\n%s", err, s.output())
		}
	case <-time.After(20 * time.Second):
		s.t.Fatalf("it runs on:\n%s", s.output())
	}
}

func TestTheServerEndsWithItsTerminal(t *testing.T) {
	s := serveInTerminal(t)
	s.close()
	s.waitForEnd()
}

func TestAHangupReloadsWhileTheTerminalIsOpen(t *testing.T) {
	s := serveInTerminal(t)
	s.signal(syscall.SIGHUP)
	s.waitFor(reloaded)
	s.signal(syscall.SIGTERM)
	s.waitForEnd()
}

func TestTheServerOutlivesItsTerminalUnderNohup(t *testing.T) {
	s := serveInTerminal(t, "nohup")
	s.close()
	s.waitFor(reloaded)
	s.signal(syscall.SIGTERM)
	s.waitForEnd()
}
