package redistest

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"lilac/internal/testkit/freeport"
)

// startWithin is the timeout for the start of a server. On an idle machine, a start
// takes a few hundredths of a second.
const startWithin = time.Minute

// programEnv is the environment variable that replaces redis-server with another program
// that takes the same configuration, such as valkey-server.
const programEnv = "REDISTEST_SERVER"

// Program returns the name of the server program.
func Program() string { return cmp.Or(os.Getenv(programEnv), "redis-server") }

// Options configure the server. The zero value is a server with an append-only file that
// is synced every second, and without a password.
type Options struct {
	// User, with Password, is the only user who may log in. Without User, Password is
	// the password of the default user.
	User, Password string
	// TLS makes the server accept TLS only, with a certificate for 127.0.0.1 and
	// localhost that a test CA signed; see [Server.CAFile].
	TLS bool
	// Volatile disables the append-only file, so a kill loses all data.
	Volatile bool
	// Config holds additional directives for the configuration file.
	Config []string
}

// Server is one server with its data, running or not.
type Server struct {
	t   testing.TB
	opt Options
	dir string
	log *os.File
	// Addr is the server's address, as host:port. A restart does not change it.
	Addr string
	// CAFile is the PEM file of the CA that signed the certificate of a TLS server.
	CAFile string
	// sentinel makes the program a sentinel.
	sentinel bool

	mu     sync.Mutex // guards the following fields
	cmd    *exec.Cmd
	exited chan struct{}
}

// Start starts a server that stops when the test ends.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	if _, err := exec.LookPath(Program()); err != nil {
		hint := Program() + " is needed: apt-get install redis-server"
		if os.Getenv("CI") == "true" {
			t.Fatal(hint)
		}
		t.Skip(hint)
	}
	s := newServer(t, o)
	s.prepare()
	s.Restart()
	return s
}

// newServer returns a server that is not configured yet. It stops when the test ends.
func newServer(t testing.TB, o Options) *Server {
	t.Helper()
	s := &Server{t: t, opt: o, dir: t.TempDir(), Addr: freeport.Loopback(t)}
	var err error
	if s.log, err = os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("log of redis-server:\n%s", s.Log())
		}
		if err := s.log.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// prepare writes the server's configuration and certificates.
func (s *Server) prepare() {
	s.t.Helper()
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		s.t.Fatal(err)
	}
	lines := []string{
		"bind 127.0.0.1", "dir " + s.dir, `save ""`, "loglevel notice",
		// A rewrite would change the files while [Server.Snapshot] copies them.
		"auto-aof-rewrite-percentage 0",
	}
	if s.opt.Volatile {
		lines = append(lines, "appendonly no")
	} else {
		lines = append(lines, "appendonly yes", "appendfsync everysec")
	}
	switch {
	case s.opt.User != "":
		lines = append(lines, "user default off", "user "+s.opt.User+" on >"+s.opt.Password+" ~* &* +@all")
	case s.opt.Password != "":
		lines = append(lines, "requirepass "+s.opt.Password)
	}
	if s.opt.TLS {
		s.CAFile = filepath.Join(s.dir, "ca.pem")
		cert, key := filepath.Join(s.dir, "cert.pem"), filepath.Join(s.dir, "key.pem")
		if err := writeCertificate(s.CAFile, cert, key); err != nil {
			s.t.Fatal(err)
		}
		lines = append(lines, "port 0", "tls-port "+port, "tls-cert-file "+cert, "tls-key-file "+key, "tls-ca-cert-file "+s.CAFile, "tls-auth-clients no")
	} else {
		lines = append(lines, "port "+port)
	}
	s.write(append(lines, s.opt.Config...))
}

// write writes the configuration file.
func (s *Server) write(lines []string) {
	s.t.Helper()
	if err := os.WriteFile(s.configFile(), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *Server) configFile() string { return filepath.Join(s.dir, "redis.conf") }

// URL returns the server's URL, with user and password.
func (s *Server) URL() string {
	u := url.URL{Scheme: "redis", Host: s.Addr}
	if s.opt.TLS {
		u.Scheme = "rediss"
	}
	if s.opt.Password != "" {
		u.User = url.UserPassword(s.opt.User, s.opt.Password)
	}
	return u.String()
}

// Log returns the log of the server, including the runs before a restart.
func (s *Server) Log() string {
	data, err := os.ReadFile(s.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// Restart starts the server with its existing data and waits until it is ready.
func (s *Server) Restart() {
	s.t.Helper()
	cmd := exec.Command(Program(), s.configFile())
	if s.sentinel {
		cmd.Args = append(cmd.Args, "--sentinel")
	}
	cmd.Stdout, cmd.Stderr = s.log, s.log
	if err := cmd.Start(); err != nil {
		s.t.Fatalf("start redis-server: %v", err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait()
		close(exited)
	}()
	s.mu.Lock()
	s.cmd, s.exited = cmd, exited
	s.mu.Unlock()
	deadline := time.Now().Add(startWithin)
	for {
		// Check the reply: another server could use the same address, and a server
		// that is still loading its data already replies to INFO.
		reply, err := s.TryDo("INFO")
		info, _ := reply.(string)
		if strings.Contains(info, fmt.Sprintf("\r\nprocess_id:%d\r\n", cmd.Process.Pid)) && (s.sentinel || strings.Contains(info, "\r\nloading:0\r\n")) {
			return
		}
		select {
		case <-exited:
			s.t.Fatalf("redis-server ended instead of starting:\n%s", s.Log())
		case <-time.After(5 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			s.t.Fatalf("redis-server does not answer within %s: %v, %v", startWithin, reply, err)
		}
	}
}

// Kill stops the server with SIGKILL. It does nothing if the server is not running.
func (s *Server) Kill() {
	s.mu.Lock()
	cmd, exited := s.cmd, s.exited
	s.cmd = nil
	s.mu.Unlock()
	if cmd == nil {
		return
	}
	_ = cmd.Process.Kill()
	<-exited
}

// Pause suspends the server: connections stay open, but the server does not reply, as
// when a machine hangs or a cable is pulled.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume resumes the server after [Server.Pause].
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
		s.t.Fatal("redis-server does not run")
	}
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(fmt.Errorf("signal redis-server: %w", err))
	}
}
