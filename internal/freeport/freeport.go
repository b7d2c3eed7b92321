package freeport

import (
	"net"
	"os"
	"strconv"
	"sync"
	"testing"
)

const (
	// lowest is above what well-known services use.
	lowest = 10_000
	// count ends below 32768, where Linux begins with the ports that it
	// chooses by itself.
	count = 22_000
	// stride keeps test processes that run side by side, whose ids are close
	// to each other, apart.
	stride = 211
)

var (
	mu   sync.Mutex
	next = os.Getpid() * stride
)

// Loopback returns an address on loopback that nobody listens on. Within a
// process each one is given once.
func Loopback(t testing.TB) string {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	for range count {
		addr := net.JoinHostPort("127.0.0.1", strconv.Itoa(lowest+next%count))
		next++
		l, err := net.Listen("tcp", addr)
		if err != nil {
			continue
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		return addr
	}
	t.Fatal("no free port on loopback")
	return ""
}
