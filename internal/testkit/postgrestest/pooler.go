package postgrestest

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// Pooler starts PgBouncer in front of the server, with one of its pool modes, and returns its address.
// It ends with the test.
func (s *Server) Pooler(t testing.TB, mode string) (addr string) {
	t.Helper()
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		const hint = "PgBouncer is needed: apt-get install pgbouncer"
		if os.Getenv("CI") == "true" {
			t.Fatal(hint)
		}
		t.Skip(hint)
	}
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(s.dir, "pgbouncer.ini")
	text := fmt.Sprintf("[databases]\n* = host=127.0.0.1 port=%d user=%s\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\nauth_type = any\npool_mode = %s\n", s.port, userName, port, mode)
	if err := os.WriteFile(config, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, config)
	cmd.Stdout, cmd.Stderr = s.log, s.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: s.owner}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan struct{})
	go func() {
		_ = cmd.Wait() // its log says why it ended
		close(exited)
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		<-exited
	})
	addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	for until := time.Now().Add(startWithin); ; {
		if conn, err := net.Dial("tcp", addr); err == nil {
			_ = conn.Close()
			return addr
		}
		select {
		case <-exited:
			t.Fatal("PgBouncer ended")
		case <-time.After(startPause):
		}
		if time.Now().After(until) {
			t.Fatal("PgBouncer does not start")
		}
	}
}
