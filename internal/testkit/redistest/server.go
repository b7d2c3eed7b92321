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

// startWithin bounds how long a server may take until it answers. It takes
// some hundredths of a second where nothing else runs.
const startWithin = time.Minute

// programEnv names another program than redis-server, which takes the same
// configuration: valkey-server.
const programEnv = "REDISTEST_SERVER"

// Program is what is started.
func Program() string { return cmp.Or(os.Getenv(programEnv), "redis-server") }

// Options say which server to start. The zero value keeps an append-only file
// that it syncs every second, and asks nobody for a password.
type Options struct {
	// User, with Password, is the only one who may log in. Without User,
	// Password is that of the default user.
	User, Password string
	// TLS serves TLS only, with a certificate for 127.0.0.1 and localhost that
	// an authority of the test has signed; see [Server.CAFile].
	TLS bool
	// Volatile keeps no append-only file: what a kill finds is gone.
	Volatile bool
	// Config is added to the configuration file, a directive in each.
	Config []string
}

// Server is one server with its data, running or not.
type Server struct {
	t   testing.TB
	opt Options
	dir string
	log *os.File
	// Addr is where it listens, as host:port, also after a restart.
	Addr string
	// CAFile is the PEM file of the authority that signed the certificate of
	// a server with TLS.
	CAFile string

	mu     sync.Mutex // guards what follows
	cmd    *exec.Cmd
	exited chan struct{}
}

// Start starts a server that ends with the test.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	if _, err := exec.LookPath(Program()); err != nil {
		hint := Program() + " is needed: apt-get install redis-server"
		if os.Getenv("CI") == "true" {
			t.Fatal(hint)
		}
		t.Skip(hint)
	}
	s := &Server{t: t, opt: o, dir: t.TempDir(), Addr: freeport.Loopback(t)}
	s.prepare()
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("log of redis-server:\n%s", s.Log())
		}
		if err := s.log.Close(); err != nil {
			t.Error(err)
		}
	})
	s.Restart()
	return s
}

// prepare writes what the server reads.
func (s *Server) prepare() {
	s.t.Helper()
	var err error
	if s.log, err = os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err != nil {
		s.t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(s.Addr)
	if err != nil {
		s.t.Fatal(err)
	}
	lines := []string{
		"bind 127.0.0.1", "dir " + s.dir, `save ""`, "loglevel notice",
		// A rewrite would change the files under [Server.Snapshot].
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
	lines = append(lines, s.opt.Config...)
	if err := os.WriteFile(s.configFile(), []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func (s *Server) configFile() string { return filepath.Join(s.dir, "redis.conf") }

// URL is how a client finds the server, with user and password.
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

// Log is what the server wrote, in all its lives.
func (s *Server) Log() string {
	data, err := os.ReadFile(s.log.Name())
	if err != nil {
		return err.Error()
	}
	return string(data)
}

// Restart starts the server with the data that it has and waits until it
// answers.
func (s *Server) Restart() {
	s.t.Helper()
	cmd := exec.Command(Program(), s.configFile())
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
		// Another server on the same address would answer, too, and one that
		// still loads what it has answers this and nothing else.
		reply, err := s.TryDo("INFO")
		info, _ := reply.(string)
		if strings.Contains(info, fmt.Sprintf("\r\nprocess_id:%d\r\n", cmd.Process.Pid)) && strings.Contains(info, "\r\nloading:0\r\n") {
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

// Kill ends the server as kill -9 does. It is nothing when none runs.
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

// Pause makes the server stand still: connections stay open and nothing
// answers, as when a machine hangs or a cable is pulled.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume ends a [Server.Pause].
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
