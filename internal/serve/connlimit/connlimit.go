// Package connlimit bounds how many connections a server has at a time, and how long
// one is held by who reads nothing. Whoever opens them without end, a command of the
// agent or a stranger, must not take the descriptors that the rest of the program
// works with.
package connlimit

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// writeLimit is how long the other side may take to take in a piece of what
	// is written to it.
	writeLimit = 30 * time.Second
	// pieceBytes keeps what is long within the limit for who is slow and reads on.
	pieceBytes = 32 << 10
)

// Listener returns a listener that closes what comes while most connections are open.
// Writing to one fails when the other side has long read nothing; this deadline takes
// the place of any other for writing.
func Listener(l net.Listener, most int) net.Listener {
	return &limited{Listener: l, most: int64(most)}
}

type limited struct {
	net.Listener
	most int64
	open atomic.Int64
}

// Accept implements [net.Listener].
func (l *limited) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.most {
			return &counted{Conn: c, gone: sync.OnceFunc(func() { l.open.Add(-1) })}, nil
		}
		l.open.Add(-1)
		_ = c.Close()
	}
}

// counted is a connection that counts until it is closed.
type counted struct {
	net.Conn
	gone func()
}

// Close implements [net.Conn].
func (c *counted) Close() error {
	defer c.gone()
	return c.Conn.Close()
}

// Write implements [net.Conn].
func (c *counted) Write(p []byte) (n int, err error) {
	for {
		if err := c.Conn.SetWriteDeadline(time.Now().Add(writeLimit)); err != nil {
			return n, err
		}
		m, err := c.Conn.Write(p[n:min(n+pieceBytes, len(p))])
		if n += m; err != nil || n == len(p) {
			return n, err
		}
	}
}

// CloseWrite ends our direction: an answer is read to its end although we read no
// more of what it answers.
func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
