package e2e_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// A nameServer is a DNS server that a program uses instead of the system's. It records every query
// on the wire.
type nameServer struct {
	address string
	// within is the command prefix that starts a program with this DNS server.
	within []string

	mu    sync.Mutex
	names []string
}

const resolvConf = "/etc/resolv.conf"

// newNameServer starts a DNS server. It returns nil if that is not possible, for example without
// root. For root in CI, that fails the test.
func newNameServer(t *testing.T) *nameServer {
	t.Helper()
	s := &nameServer{}
	err := s.listen(t)
	if err == nil {
		err = s.become(t)
	}
	if err == nil {
		return s
	}
	if _, missing := os.Stat(resolvConf); os.Getenv("CI") == "true" && os.Geteuid() == 0 && missing == nil {
		t.Fatalf("this test needs a name server of its own: %v", err)
	}
	t.Logf("what is looked up is not seen, because there is no name server of the test's own: %v", err)
	return nil
}

// listen opens port 53 on a loopback address that is derived from the process ID, so that no other
// process uses it.
func (s *nameServer) listen(t *testing.T) error {
	for n := range 20 {
		id := os.Getpid()*20 + n
		s.address = fmt.Sprintf("127.%d.%d.%d", 64+id>>14&63, id>>7&127, 1+id&127)
		udp, err := net.ListenPacket("udp", s.address+":53")
		if errors.Is(err, os.ErrPermission) {
			return err
		}
		if err != nil {
			continue
		}
		tcp, err := net.Listen("tcp", s.address+":53")
		if err != nil {
			_ = udp.Close()
			continue
		}
		var serving sync.WaitGroup
		serving.Go(func() { s.packets(udp) })
		serving.Go(func() { s.streams(tcp, &serving) })
		t.Cleanup(func() {
			_ = udp.Close()
			_ = tcp.Close()
			serving.Wait()
		})
		return nil
	}
	return errors.New("port 53 is taken everywhere")
}

// become finds a command that mounts a file over resolv.conf in a mount namespace of its own, so
// that other processes are not affected.
func (s *nameServer) become(t *testing.T) error {
	file := filepath.Join(t.TempDir(), "resolv.conf")
	if err := os.WriteFile(file, []byte("nameserver "+s.address+"\noptions timeout:1 attempts:1\n"), 0o644); err != nil {
		return err
	}
	const mount = `mount --bind "$0" ` + resolvConf + ` && exec "$@"`
	var failed error
	for _, unshare := range [][]string{{"unshare", "--mount", "--propagation", "private"}, {"unshare", "--user", "--map-root-user", "--mount"}} {
		s.within = append(unshare, "sh", "-c", mount, file)
		out, err := exec.Command(s.within[0], append(s.within[1:], "cat", resolvConf)...).CombinedOutput()
		if err == nil && strings.Contains(string(out), s.address) {
			return nil
		}
		failed = fmt.Errorf("%v: %s", err, out)
	}
	return failed
}

func (s *nameServer) packets(udp net.PacketConn) {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := udp.ReadFrom(buf)
		if err != nil {
			return
		}
		if answer := s.answer(buf[:n]); answer != nil {
			_, _ = udp.WriteTo(answer, from)
		}
	}
}

func (s *nameServer) streams(tcp net.Listener, serving *sync.WaitGroup) {
	for {
		c, err := tcp.Accept()
		if err != nil {
			return
		}
		serving.Go(func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(10 * time.Second))
			data, _ := io.ReadAll(io.LimitReader(c, 64<<10))
			if len(data) > 2 {
				data = data[2:] // skip the length prefix of DNS over TCP
			}
			s.answer(data)
		})
	}
}

// answer records a query and answers that the name does not exist.
func (s *nameServer) answer(query []byte) []byte {
	const header = 12
	name, rest := "", []byte(nil)
	if len(query) > header {
		rest = query[header:]
	}
	for len(rest) > 0 && rest[0] > 0 && int(rest[0]) < len(rest) {
		name += string(rest[1:1+rest[0]]) + "."
		rest = rest[1+rest[0]:]
	}
	s.mu.Lock()
	if len(s.names) < 10_000 {
		// A malformed query may leak data too.
		s.names = append(s.names, name+" "+string(query))
	}
	s.mu.Unlock()
	const question = 5 // the root byte of the name, type, and class
	if len(rest) < question {
		return nil
	}
	answer := append([]byte{}, query[:len(query)-len(rest)+question]...)
	binary.BigEndian.PutUint16(answer[2:], 0x8183) // response flags: NXDOMAIN
	binary.BigEndian.PutUint16(answer[4:], 1)
	for i := 6; i < header; i++ {
		answer[i] = 0
	}
	return answer
}

// asked returns all queries.
func (s *nameServer) asked() string {
	if s == nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.names, "\n")
}
