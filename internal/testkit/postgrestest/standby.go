package postgrestest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Synchronous is the setting of a primary whose commits wait for a standby.
const Synchronous = "synchronous_standby_names = '*'"

// StartStandby starts a hot standby of the server, which it reaches at an address (a proxy's, or
// that of the server). It stops with the test. If port is 0, it gets a free one.
func (s *Server) StartStandby(t testing.TB, from string, port int) *Server {
	t.Helper()
	standby, err := s.newStandby(from, port)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log of a standby:\n%s", standby.Log())
		}
		if err := standby.Remove(); err != nil {
			t.Error(err)
		}
	})
	return standby
}

func (s *Server) newStandby(from string, port int) (_ *Server, err error) {
	n, err := prepare(port)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.Remove())
		}
	}()
	host, fromPort, err := net.SplitHostPort(from)
	if err != nil {
		return nil, err
	}
	if err := n.run("pg_basebackup", "--pgdata", n.data, "--host", host, "--port", fromPort, "--username", userName, "--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"); err != nil {
		return nil, err
	}
	if err := n.configure(fmt.Sprintf("port = %d", n.port)); err != nil {
		return nil, err
	}
	return n, n.Restart()
}

// Port returns the server's port.
func (s *Server) Port() int { return s.port }

// Promote makes a standby the primary, and returns when it accepts writes.
func (s *Server) Promote() error { return s.Do("SELECT pg_promote(true, 60)") }

// prepare makes the directory of a server. If port is 0, it gets a free one.
func prepare(port int) (_ *Server, err error) {
	s := &Server{port: port}
	if s.dir, err = os.MkdirTemp("", "postgrestest"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Remove())
		}
	}()
	s.data = filepath.Join(s.dir, "data")
	if s.owner, err = unprivileged(); err != nil {
		return nil, err
	}
	if s.log, err = os.OpenFile(filepath.Join(s.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if s.owner != nil {
		if err := os.Chown(s.dir, int(s.owner.Uid), int(s.owner.Gid)); err != nil {
			return nil, err
		}
	}
	if port == 0 {
		s.port, err = freePort()
	}
	return s, err
}

// configure appends lines to postgresql.conf.
func (s *Server) configure(lines ...string) error {
	f, err := os.OpenFile(filepath.Join(s.data, "postgresql.conf"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString("\n" + strings.Join(lines, "\n") + "\n")
	return errors.Join(err, f.Close())
}
