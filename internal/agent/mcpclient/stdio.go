package mcpclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lilac/internal/agent/egress"
	"lilac/internal/agent/sandbox"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
	"lilac/internal/foundation/text"
)

const (
	// writeTime limits how long a stdio server may refuse to read a message.
	writeTime = 10 * time.Second
	// stderrBytes limits the part of a server's standard error that is kept to explain its end.
	stderrBytes = 8 << 10
)

// process is a running stdio server.
type process struct {
	mcp.IOTransport
	done   chan struct{} // closed when no process of the server is left
	stderr *tail
	denied func() []string // the hosts that it may not reach, and tried to
	// result and err may be read after done.
	result sandbox.Result
	err    error
}

// startProcess starts a stdio server in the sandbox. The server ends with ctx; stop ends
// it with a cause.
func (s *server) startProcess(ctx context.Context, stop context.CancelCauseFunc) (*process, error) {
	policy, dir, err := s.policy()
	if err != nil {
		return nil, err
	}
	command := sandbox.Command{Argv: append([]string{s.config.Command}, s.config.Args...), Dir: dir}
	for name, value := range s.config.Env {
		command.Env = append(command.Env, name+"="+value.Reveal())
	}
	slices.Sort(command.Env)
	closeGate, denied := func() {}, func() []string { return nil }
	if rules := s.config.rules(); len(rules) > 0 {
		proxy, err := egress.Open(egress.Options{Rules: rules, Dir: s.dir, Logger: s.log})
		if err != nil {
			return nil, fmt.Errorf("open the network of an MCP server: %w", err)
		}
		gate, err := proxy.Open(ctx, s.log)
		if err != nil {
			return nil, err
		}
		policy.Proxy = gate.Path()
		// Programs on Node.js use a proxy only if this variable says so.
		command.Env = append([]string{"NODE_USE_ENV_PROXY=1"}, command.Env...)
		closeGate, denied = func() { _ = gate.Close() }, gate.Denied
	}
	input, write, err := os.Pipe()
	if err != nil {
		closeGate()
		return nil, fmt.Errorf("make pipe: %w", err)
	}
	read, output := io.Pipe()
	p := &process{done: make(chan struct{}), stderr: &tail{limit: stderrBytes}, denied: denied}
	p.IOTransport = mcp.IOTransport{Reader: read, Writer: patientWriter{write}, MaxLineLength: s.o.limits.message}
	flood := s.meter(stop)
	messages := &messageWriter{to: output, other: p.stderr, limit: s.o.limits.message}
	command.Input, command.Stdout, command.Stderr = input, &metered{messages, flood}, &metered{p.stderr, flood}
	// Output that nobody reads must not keep the command from ending.
	unblock := context.AfterFunc(ctx, func() { _ = read.Close() })
	go func() {
		defer close(p.done)
		p.result, p.err = s.o.Sandbox.Run(ctx, command, policy)
		_ = messages.flush() // before unblock: nobody may read it anymore
		unblock()
		_, _, _ = output.Close(), input.Close(), write.Close()
		closeGate()
	}()
	return p, nil
}

// policy returns what a stdio server may see, and the directory in which it starts.
func (s *server) policy() (policy sandbox.Policy, dir string, err error) {
	policy = s.o.Policy
	policy.Limits.OutputBytes = math.MaxInt64 // it runs for long; its meter bounds it
	if s.config.Memory > 0 {
		policy.Limits.MemoryBytes = int64(s.config.Memory)
	}
	policy.TmpBytes = s.o.TmpBytes
	if s.o.Home != nil {
		if policy.Home, err = s.o.Home(s.name); err != nil {
			return policy, "", err
		}
	}
	s.dir = filepath.Join(s.o.Dir, "mcp-"+strconv.Itoa(s.number))
	own := filepath.Join(s.dir, "work")
	if err := os.MkdirAll(own, 0o700); err != nil {
		return policy, "", fmt.Errorf("make a directory for an MCP server: %w", err)
	}
	policy.Binds = slices.Clone(policy.Binds)
	switch s.config.Files {
	case filesRead, filesNone:
		for i := range policy.Binds {
			policy.Binds[i].Writable = false
		}
		if s.config.Files == filesRead {
			policy.Binds = append(policy.Binds, sandbox.Bind{Source: policy.Workspace})
		}
		policy.Workspace = own
		return policy, "", nil
	}
	return policy, s.config.CWD, nil
}

// ended explains the end of the process, or of the connection that ended it.
func (p *process) ended(connection error) string {
	said := lastWords(p.stderr.String())
	out := fmt.Sprintf("it ended with exit code %d", p.result.ExitCode)
	switch {
	case errors.Is(p.err, context.Canceled):
		out = reason(connection)
	case p.err != nil:
		return fault.ToWire(p.err).Message
	case p.result.Exceeded != "":
		out = "it exceeded its limit of " + string(p.result.Exceeded)
	case p.result.Signal != 0:
		out = fmt.Sprintf("it was killed by signal %d", p.result.Signal)
	}
	if said != "" {
		out += "; its last words: " + said
	}
	return out
}

// errorLine matches a line that begins with an error, perhaps after a prefix, as programs print it before a trace or
// their usage.
var errorLine = lazyregexp.New(`(?im)^.*\b(\w*error|\w*exception|fatal|panic): .*`)

// lastWords returns the part of the standard error that says why a program ended: its last error, or else its last line.
func lastWords(said string) string {
	said = strings.TrimSpace(said)
	at := strings.LastIndexByte(said, '\n')
	if found := errorLine().FindAllString(said, -1); at >= 0 && strings.HasPrefix(said[at+1:], "npm error") { // npm says the cause first
		at = strings.Index(said, "npm error") - 1
	} else if len(found) > 0 {
		said, at = found[len(found)-1], -1
	}
	if at >= 0 && len(said)-at > 20 {
		said = said[at+1:]
	}
	return text.TruncateRunes(text.SingleLine(said), 300)
}

// networkAdvice says which setting opens the network for a stdio server that does not start.
// Without a network, most programs wait for long or say nothing that leads to the setting.
func (c ServerConfig) networkAdvice(denied []string, slow bool) string {
	command := filepath.Base(c.Command)
	switch {
	case len(denied) > 0:
		return "its network refused " + strings.Join(denied, ", ") + ", which hosts of the server can allow"
	case len(c.Hosts) == 0 && (slow || command == "npx" || command == "uvx"):
		return "it has no network, which hosts of the server can allow (npx needs registry.npmjs.org, uvx pypi.org and files.pythonhosted.org)"
	}
	return ""
}

// patientWriter writes to a pipe, and fails if nobody reads it for a while.
type patientWriter struct{ *os.File }

func (w patientWriter) Write(b []byte) (int, error) {
	if err := w.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return 0, err
	}
	return w.File.Write(b)
}

// meter counts the bytes that a server sends.
type meter struct {
	limit int64
	now   func() time.Time
	stop  func()

	mu    sync.Mutex
	since time.Time
	bytes int64
}

// meter returns a meter that stops the server if it sends too much.
func (s *server) meter(stop context.CancelCauseFunc) *meter {
	return &meter{limit: s.o.limits.minute, now: time.Now, stop: func() { stop(errFlood) }}
}

var errFlood = fault.New(fault.TooLarge, "it sent more than a server may send in a minute")

// add counts n bytes, and returns an error if they are too many.
func (m *meter) add(n int) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.now(); now.Sub(m.since) > time.Minute {
		m.since, m.bytes = now, 0
	}
	if m.bytes += int64(n); m.bytes > m.limit {
		m.stop()
		return errFlood
	}
	return nil
}

// metered counts what is written to a writer.
type metered struct {
	to    io.Writer
	count *meter
}

func (w *metered) Write(b []byte) (int, error) {
	if err := w.count.add(len(b)); err != nil {
		return 0, err
	}
	return w.to.Write(b)
}

// tail keeps the last bytes that are written to it.
type tail struct {
	limit int

	mu  sync.Mutex
	buf []byte
}

func (t *tail) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.buf = append(t.buf, b[max(0, len(b)-t.limit):]...)
	t.buf = bytes.Clone(t.buf[max(0, len(t.buf)-t.limit):])
	return len(b), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(bytes.ToValidUTF8(t.buf, nil))
}
