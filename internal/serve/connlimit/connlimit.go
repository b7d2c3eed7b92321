// Package connlimit limits the open connections of a server, and disconnects clients
// that do not read. A client that opens connections without end (a command of the
// agent, or a stranger) must not use up the file descriptors of the rest of the
// program.
package connlimit

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// writeLimit is the time that the client has to read one piece of a response.
	writeLimit = 30 * time.Second
	// pieceBytes is small enough for a slow client to read within writeLimit.
	pieceBytes = 32 << 10
)

// Listener returns a listener that closes new connections while most are open. Writing
// to a connection fails if the client reads nothing for writeLimit; this deadline
// replaces any other write deadline.
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

// counted is a connection that counts towards the limit until it is closed.
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

// CloseWrite closes the write direction only, so that the client can read a response to
// its end although the server stopped reading the request.
func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
