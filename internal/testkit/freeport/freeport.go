package freeport

import (
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

const (
	// lowest is above what well-known services use, and what browsers refuse to open:
	// 10080 is the last of those (Fetch Standard, bad ports).
	lowest = 10_100
	// blocks times blockSize end below 32768, where Linux begins with the
	// ports that it chooses by itself.
	blocks    = 438
	blockSize = 50
)

// shared are the ports of this process.
var shared ports

// ports hands out the ports of the blocks that it has claimed.
type ports struct {
	mu sync.Mutex
	// claims keep the blocks until the process ends.
	claims []net.Listener
	// next to end are what is left of the last block.
	next, end int
}

// Loopback returns an address on loopback that nobody listens on. Each one is
// given once, over all processes that ask here at the same time.
func Loopback(t testing.TB) string {
	t.Helper()
	addr, err := shared.take()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

func (p *ports) take() (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if p.next == p.end {
			if err := p.claim(); err != nil {
				return "", err
			}
		}
		addr := loopback(p.next)
		p.next++
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue // somebody else has it
		}
		return addr, giveBack(l.(*net.TCPListener))
	}
}

// giveBack frees a port. To close the listener alone would leave that to a child
// that is just being started: until it becomes another program it has a copy of
// every open file.
func giveBack(l *net.TCPListener) error {
	conn, err := l.SyscallConn()
	if err == nil {
		// Where a listener cannot be shut down it is only closed.
		err = conn.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) })
	}
	return errors.Join(err, l.Close())
}

// claim takes a block that nobody has, beginning at one that depends on the
// process, so that those that end and begin do not meet what the last one's
// servers have left in the system.
func (p *ports) claim() error {
	first := os.Getpid() + len(p.claims)
	for i := range blocks {
		port := lowest + (first+i)%blocks*blockSize
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			continue
		}
		p.claims = append(p.claims, l)
		p.next, p.end = port+1, port+blockSize
		return nil
	}
	return errors.New("no free port on loopback")
}

func (p *ports) release() {
	for _, l := range p.claims {
		_ = l.Close()
	}
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
