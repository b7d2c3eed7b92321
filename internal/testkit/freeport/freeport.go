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
	// lowest is above the ports of well-known services and above the ports that browsers block.
	// The highest of those is 10080 (Fetch Standard, "bad port").
	lowest = 10_100
	// blocks × blockSize ends below 32768, where the ephemeral port range of Linux starts.
	blocks    = 438
	blockSize = 50
)

// shared holds the ports of this process.
var shared ports

// ports allocates ports from the blocks that it has claimed.
type ports struct {
	mu sync.Mutex
	// claims keeps the blocks reserved until the process ends.
	claims []net.Listener
	// next and end delimit the unused ports of the last block.
	next, end int
}

// Loopback returns a loopback address on which no process listens. It returns each address only
// once, across all test processes that run at the same time.
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
			continue // another process uses it
		}
		return addr, giveBack(l.(*net.TCPListener))
	}
}

// giveBack frees a port. Closing the listener is not enough: a child process that is being started
// holds copies of all open files until it calls exec.
func giveBack(l *net.TCPListener) error {
	conn, err := l.SyscallConn()
	if err == nil {
		// On systems that cannot shut down a listener, it is only closed.
		err = conn.Control(func(fd uintptr) { _ = syscall.Shutdown(int(fd), syscall.SHUT_RDWR) })
	}
	return errors.Join(err, l.Close())
}

// claim reserves a block that no other process has. It starts at a block that depends on the
// process ID, so that consecutive processes do not reuse ports whose connections the system has
// not released yet.
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
