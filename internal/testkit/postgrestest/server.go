package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// startWithin is the timeout for the start of a server.
	startWithin = time.Minute
	startPause  = 20 * time.Millisecond
	// userName is the superuser of the server.
	userName = "postgres"
	hint     = "PostgreSQL is needed: apt-get install postgresql"
)

// binaries returns the directory of the server programs, or "".
func binaries() string {
	if path, err := exec.LookPath("initdb"); err == nil {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return filepath.Dir(real)
		}
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is valid
	if len(found) == 0 {
		return ""
	}
	slices.Sort(found)
	return filepath.Dir(found[len(found)-1])
}

// Missing returns what to install if PostgreSQL is not installed, or "".
func Missing() string {
	if binaries() == "" {
		return hint
	}
	return ""
}

// Server is one server with its data, running or not.
type Server struct {
	dir, data string
	port      int
	log       *os.File
	owner     *syscall.Credential // nil: the user of this process

	mu     sync.Mutex // guards the following fields
	cmd    *exec.Cmd
	exited chan struct{}
}

// Start starts a server that stops when the test ends. The settings are lines of
// postgresql.conf, in addition to those that make a test fast.
func Start(t testing.TB, settings ...string) *Server {
	t.Helper()
	if missing := Missing(); missing != "" {
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	s, err := New(settings...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of PostgreSQL:\n%s", s.Log())
		}
		if err := s.Remove(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// New starts a server. The caller must call Remove.
func New(settings ...string) (_ *Server, err error) {
	s, err := prepare(0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Remove())
		}
	}()
	if err := s.run("initdb", "--pgdata", s.data, "--username", userName, "--auth", "trust", "--encoding", "UTF8", "--locale", "C", "--no-sync", "--no-instructions"); err != nil {
		return nil, err
	}
	config := append([]string{
		"listen_addresses = '127.0.0.1'", "unix_socket_directories = ''", fmt.Sprintf("port = %d", s.port),
		"fsync = off", "full_page_writes = off", "max_connections = 400", "shared_buffers = 32MB", "autovacuum = off",
		"max_wal_size = 256MB", "min_wal_size = 32MB", "log_min_messages = warning", "log_statement = none",
	}, settings...)
	if err := s.configure(config...); err != nil {
		return nil, err
	}
	return s, s.Restart()
}

// unprivileged returns the user that runs the server, or nil if this process is not root.
func unprivileged() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return nil, err
		}
		return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
	}
	return nil, errors.New("PostgreSQL does not run as root, and there is neither a user postgres nor nobody")
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

func (s *Server) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(filepath.Join(binaries(), name), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, s.log, s.log
	cmd.Env = []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner, Setpgid: true}
	return cmd
}

func (s *Server) run(name string, args ...string) error {
	if err := s.command(name, args...).Run(); err != nil {
		return fmt.Errorf("%s: %w\n%s", name, err, s.Log())
	}
	return nil
}

// Restart starts the server again, and returns when it accepts connections.
func (s *Server) Restart() error {
	cmd, exited := s.command("postgres", "-D", s.data), make(chan struct{})
	if err := cmd.Start(); err != nil {
		return err
	}
	s.mu.Lock()
	s.cmd, s.exited = cmd, exited
	s.mu.Unlock()
	go func() {
		_ = cmd.Wait() // its log says why it ended
		close(exited)
	}()
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	for {
		err := s.Do("SELECT 1")
		if err == nil {
			return nil
		}
		select {
		case <-exited:
			return fmt.Errorf("PostgreSQL ended:\n%s", s.Log())
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL does not start: %w", err)
		case <-time.After(startPause):
		}
	}
}

// Kill ends the server at once, as a power cut would, and waits for it. It does nothing if
// the server does not run.
func (s *Server) Kill() { s.signal(syscall.SIGQUIT) }

// Stop ends the server after it has closed all connections.
func (s *Server) Stop() { s.signal(syscall.SIGINT) }

func (s *Server) signal(sig syscall.Signal) {
	s.mu.Lock()
	cmd, exited := s.cmd, s.exited
	s.cmd = nil
	s.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Signal(sig) // it may have ended
	<-exited
}

// Addr returns the server's address, as host:port. A restart does not change it.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL returns the address of a database of the server whose tables are in a schema.
func (s *Server) URL(schema string) string { return URLAt(s.Addr(), schema) }

// URLAt is like [Server.URL] for an address that leads to the server, such as a proxy's.
func URLAt(addr, schema string) string {
	u := url.URL{Scheme: "postgres", User: url.User(userName), Host: addr, Path: "/postgres", RawQuery: "sslmode=disable"}
	if schema != "" {
		u.RawQuery += "&search_path=" + url.QueryEscape(schema)
	}
	return u.String()
}

// Do runs statements as the superuser.
func (s *Server) Do(statements string) error {
	_, err := s.Ask(statements)
	return err
}

// Ask runs a query as the superuser, and returns its rows as text.
func (s *Server) Ask(query string) (rows [][]string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	c, err := pgconn.Connect(ctx, s.URL(""))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close(ctx)) }()
	results, err := c.Exec(ctx, query).ReadAll()
	for _, r := range results {
		for _, row := range r.Rows {
			var out []string
			for _, value := range row {
				out = append(out, string(value))
			}
			rows = append(rows, out)
		}
	}
	return rows, err
}

// Log returns the end of the server's log.
func (s *Server) Log() string {
	const most = 8 << 10
	if s.log == nil {
		return ""
	}
	raw, err := os.ReadFile(s.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(raw[max(0, len(raw)-most):])
}

// Remove kills the server and deletes its data.
func (s *Server) Remove() error {
	s.Kill()
	var err error
	if s.log != nil {
		err = s.log.Close()
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
