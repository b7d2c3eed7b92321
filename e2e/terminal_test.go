//go:build unix

package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/ptytest"
)

// chatIn starts "lilac chat" in a terminal, in a directory of its own.
func chatIn(t *testing.T, s *e2e.Server, dir string, env []string, args ...string) *ptytest.Terminal {
	t.Helper()
	cmd := exec.Command(e2e.Binary(t), append([]string{"chat", "--addr", s.Addr, "--data", filepath.Join(s.Dir, "data")}, args...)...)
	cmd.Dir = dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.Dir, "LILAC_TOKEN=" + e2e.Token}, env...)
	return ptytest.Start(t, 80, 24, cmd)
}

// full is the environment of an ordinary terminal.
var full = []string{"TERM=xterm-256color", "LANG=C.UTF-8"}

var (
	address = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	seconds = regexp.MustCompile(`(?m) · \d+ s( ·|$)`)
	tokens  = regexp.MustCompile(`[\d.k]+ in, \d+ out`)
)

// settled waits until the screen has become a golden one, in which addresses, times, and tokens
// are always the same.
func settled(t *testing.T, p *ptytest.Terminal, want string) {
	t.Helper()
	var diff string
	if !e2e.Poll(time.Minute, func() bool {
		got := address.ReplaceAllString(p.Screen(), "ADDRESS")
		got = tokens.ReplaceAllString(seconds.ReplaceAllString(got, "$1"), "N in, N out")
		diff = cmp.Diff(strings.Trim(want, "\n"), strings.Trim(got, "\n"))
		return diff == ""
	}) {
		t.Errorf("the screen differs (-want +got):\n%s", diff)
	}
}

const line = "────────────────────────────────────────────────────────────────────────────────"

func TestTheTerminalShowsTheConversation(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, append(e2e.Configured(t, "channels: {terminal: {workspace: {shared: true}}}"), "LILAC_MODEL=demo")...)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "notes.txt"), []byte("hi"), 0o600); err != nil {
		t.Fatal(err)
	}
	hostile := filepath.Join(s.Dir, "workspace", "hostile.txt")
	if err := os.WriteFile(hostile, []byte("x\x1b]0;stolen\x07y\n1\n2\n3\n4\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	p := chatIn(t, s, dir, full)
	settled(t, p, `
✿ Lilac
  demo · http://ADDRESS
  /help shows commands and keys · @ attaches a file


`+line+`
›
`+line+`
  / commands · @ files · Ctrl+O everything                                demo
`)
	// What looks like a command is never sent to the model.
	p.Type("/nwe\r")
	p.WaitFor("There is no command /nwe. Did you mean /new?")
	p.Type("\x03")
	// A message of several lines with a file. The tool's output contains an attack.
	p.Paste("think about @notes.txt\nread hostile.txt")
	p.Type("\r")
	settled(t, p, `
  ⊕ notes.txt

  I will use the tool read.

● read hostile.txt
  └      1    x␛]0;stolen␇y
         2    1
         3    2
    … 2 more lines (Ctrl+O)

  The tool read ({"path":"hostile.txt"}) returned:

         1    x␛]0;stolen␇y
         2    1
         3    2
         4    3
         5    4
  demo · N in, N out


`+line+`
›
`+line+`
  / commands · @ files · Ctrl+O everything                                demo
`)
	if raw := p.Raw(); strings.Contains(raw, "]0;stolen\x07") || !strings.Contains(raw, "stolen") {
		t.Error("an escape sequence of a file reached the terminal")
	}
	p.Type("\x0f") // the alternate screen has everything
	p.WaitFor("  5    4\n", "Esc closes", "› think about @notes.txt")
	p.Type("\x0f")
	// Copying works over SSH: the terminal is asked to copy.
	p.Type("/copy\r")
	p.WaitFor("Copied the last answer.")
	p.Wait("the terminal is asked to copy", func(string) bool { return strings.Contains(p.Raw(), "\x1b]52;c;") })
	p.Type("\x04")
	if code := p.Exit(); code != 0 {
		t.Errorf("the exit code is %d", code)
	}
	if all := p.All(); !strings.Contains(all, "To continue: lilac chat --session ") || strings.Contains(all, "/ commands") {
		t.Errorf("after leaving, the terminal shows:\n%s", all)
	}
}

// What is typed during an answer is not mixed with it, and the answer can be stopped. The
// conversation can be continued later.
func TestTheTerminalSteersStopsAndResumes(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, "LILAC_MODEL=demo")
	p := chatIn(t, s, t.TempDir(), full)
	p.WaitFor("@ files")
	p.Type("count to 500\r")
	p.WaitFor("1 2 3 4 5")
	p.Type("and then")
	p.WaitFor("› and then\n", "Tab queues")
	p.Type(" stop\r")
	p.WaitFor("› and then stop  (the answer reads it at the next step)")
	p.Type("later\t")
	p.WaitFor("› later  (queued, first in line)")
	// After a kill, the status says why no answer comes, and the answer goes on by itself.
	s.Kill()
	p.WaitFor("Waiting: No server answers at")
	s.Restart()
	p.Wait("the answer continues", func(screen string) bool { return strings.Contains(screen, "Answering") })
	p.Type("\x1b")
	p.WaitFor("◆ Stopped")
	// If the answer is stopped before it has read the message of the steer, that becomes a prompt after
	// the one that waits already.
	p.Wait("all messages are answered", func(screen string) bool {
		return strings.Contains(p.All(), "said: “later”") && strings.Contains(screen, "/ commands") && !strings.Contains(screen, "queued")
	})
	for _, message := range []string{"› count to 500\n", "› later\n"} {
		if n := strings.Count(p.All(), message); n != 1 {
			t.Errorf("%q is shown %d times:\n%s", message, n, p.All())
		}
	}
	p.Type("/quit\r")
	p.Exit()
	again := chatIn(t, s, t.TempDir(), full, "--resume")
	again.WaitFor("❯ count to 500")
	again.Type("\r")
	again.Wait("the conversation is there", func(screen string) bool {
		return strings.Contains(again.All(), "said: “later”") && strings.Contains(screen, "/ commands")
	})
}

// The question at a limit is answered where it is asked.
func TestTheTerminalAnswersAQuestionInPlace(t *testing.T) {
	t.Parallel()
	s := e2e.New(t, "LILAC_MODEL=demo")
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("limits: {request: {steps: 1}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Env = append(s.Env, "LILAC_CONFIG="+file)
	s.Restart()
	p := chatIn(t, s, t.TempDir(), full)
	p.WaitFor("@ files")
	p.Type("run echo hi\r")
	p.WaitFor("❯ 1 Continue", "  2 Stop", "Waiting for your answer")
	p.Type("\r")
	p.WaitFor("out\n")
	if screen := p.Screen(); strings.Contains(screen, "❯ 1 Continue") {
		t.Errorf("the answered question is still there:\n%s", screen)
	}
}

// So is a question of the agent.
func TestTheTerminalAnswersTheAgentInPlace(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, "LILAC_MODEL=demo")
	p := chatIn(t, s, t.TempDir(), full)
	p.WaitFor("@ files")
	p.Type("ask me something\r")
	p.WaitFor("? Shall I count to three, or to ten?", "Type your answer and press Enter")
	p.Type("to three\r")
	p.Wait("the answer arrived", func(screen string) bool {
		return strings.Contains(screen, "to three") && strings.Contains(screen, "out\n") && !strings.Contains(screen, "? Shall I count")
	})
}

// Terminals that cannot move the cursor, and --plain, get lines.
func TestADumbTerminalGetsLines(t *testing.T) {
	t.Parallel()
	s := e2e.Start(t, "LILAC_MODEL=demo")
	for _, p := range []*ptytest.Terminal{chatIn(t, s, t.TempDir(), []string{"TERM=dumb"}), chatIn(t, s, t.TempDir(), full, "--plain")} {
		p.WaitFor("To stop an answer, press Ctrl-C; to leave")
		p.Type("count to 3\r")
		p.WaitFor("1 2 3\n›")
		p.Type("\x04")
		if p.Exit(); strings.Contains(p.Raw(), "\x1b") {
			t.Errorf("a dumb terminal got escape sequences: %q", p.Raw())
		}
	}
}
