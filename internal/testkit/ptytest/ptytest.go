//go:build unix

// Package ptytest runs programs in a pseudo-terminal with a terminal emulator behind it,
// so that tests can type and compare screens. Only tests import it.
package ptytest

import (
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	uv "github.com/charmbracelet/ultraviolet"
	"github.com/charmbracelet/x/vt"
	"github.com/creack/pty"
)

// within bounds the wait for a screen, on a machine that runs other tests.
const within = 30 * time.Second

// A Terminal runs one program.
type Terminal struct {
	t      testing.TB
	in     *inputs
	exited chan struct{}
	code   int

	mu      sync.Mutex // guards the fields below
	screen  *vt.Emulator
	raw     strings.Builder
	changed chan struct{} // closed and replaced at each output
}

// inputs serializes what is typed and what the emulator answers to queries.
type inputs struct {
	mu   sync.Mutex
	send func([]byte) error
}

func (i *inputs) Write(p []byte) (int, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(p), i.send(p)
}

// Start runs a command in a terminal of a size in cells. The test's cleanup ends it.
func Start(t testing.TB, columns, rows int, cmd *exec.Cmd) *Terminal {
	t.Helper()
	f, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: uint16(columns), Rows: uint16(rows)})
	if err != nil {
		t.Fatalf("start in a terminal: %v", err)
	}
	p := &Terminal{t: t, exited: make(chan struct{}), screen: vt.NewEmulator(columns, rows), changed: make(chan struct{})}
	p.in = &inputs{send: func(b []byte) error { _, err := f.Write(b); return err }}
	var wg sync.WaitGroup
	wg.Go(func() { // the emulator answers queries, as terminals do
		buf := make([]byte, 256)
		for {
			n, err := p.screen.Read(buf)
			if err != nil {
				return
			}
			_, _ = p.in.Write(buf[:n]) // fails when the program has ended
		}
	})
	read := make(chan struct{})
	wg.Go(func() {
		defer close(read)
		buf := make([]byte, 32<<10)
		for {
			n, err := f.Read(buf)
			if n > 0 {
				p.write(buf[:n])
			}
			if err != nil { // Linux reports EIO at the end of the program
				return
			}
		}
	})
	go func() {
		_ = cmd.Wait()
		p.code = cmd.ProcessState.ExitCode()
		<-read
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-p.exited
		_ = f.Close()
		_ = p.screen.Close()
		wg.Wait()
		if t.Failed() {
			t.Logf("the last screen:\n%s", p.Screen())
		}
	})
	return p
}

func (p *Terminal) write(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = p.screen.Write(b) // it never fails
	p.raw.Write(b)
	close(p.changed)
	p.changed = make(chan struct{})
}

// Type sends keys as a terminal would.
func (p *Terminal) Type(keys string) {
	p.t.Helper()
	if _, err := p.in.Write([]byte(keys)); err != nil {
		p.t.Fatalf("type: %v", err)
	}
}

// Paste sends text as a bracketed paste.
func (p *Terminal) Paste(text string) {
	p.t.Helper()
	p.Type("\x1b[200~" + strings.ReplaceAll(text, "\n", "\r") + "\x1b[201~")
}

// Raw returns everything that the program wrote.
func (p *Terminal) Raw() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.raw.String()
}

// Screen returns the visible lines without trailing spaces and empty lines.
func (p *Terminal) Screen() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return tidy(p.screen.String())
}

// Styled returns the visible screen with its styles as escape sequences.
func (p *Terminal) Styled() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.screen.Render()
}

// All returns the lines that were scrolled out and the visible ones.
func (p *Terminal) All() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	for _, l := range p.screen.Scrollback().Lines() {
		b.WriteString(lineText(l) + "\n")
	}
	return tidy(b.String() + p.screen.String())
}

func lineText(l uv.Line) string {
	var b strings.Builder
	for _, c := range l {
		b.WriteString(c.Content)
	}
	return b.String()
}

func tidy(screen string) string {
	lines := strings.Split(screen, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimRight(l, " \r")
	}
	return strings.TrimRight(strings.Join(lines, "\n"), "\n")
}

// WaitFor waits until the screen contains all texts.
func (p *Terminal) WaitFor(texts ...string) {
	p.t.Helper()
	p.Wait("the screen contains "+strings.Join(texts, " and "), func(screen string) bool {
		for _, text := range texts {
			if !strings.Contains(screen, text) {
				return false
			}
		}
		return true
	})
}

// Wait waits until the screen is as done says.
func (p *Terminal) Wait(what string, done func(screen string) bool) {
	p.t.Helper()
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	for {
		p.mu.Lock()
		screen, changed := tidy(p.screen.String()), p.changed
		p.mu.Unlock()
		if done(screen) {
			return
		}
		select {
		case <-changed:
		case <-p.exited:
			if screen := p.Screen(); !done(screen) {
				p.t.Fatalf("the program ended before %s:\n%s", what, screen)
			}
			return
		case <-deadline.C:
			p.t.Fatalf("it is not so after %v that %s:\n%s", within, what, screen)
		}
	}
}

// Exit waits for the end of the program and returns its exit code.
func (p *Terminal) Exit() int {
	p.t.Helper()
	select {
	case <-p.exited:
		return p.code
	case <-time.After(within):
		p.t.Fatalf("the program has not ended:\n%s", p.Screen())
		return -1
	}
}
