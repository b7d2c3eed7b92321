// Package connlimit bounds how many connections a server has at a time. Whoever opens
// them without end, a command of the agent or a stranger, must not take the
// descriptors that the rest of the program works with.
package connlimit

import (
	"net"
	"sync"
	"sync/atomic"
)

// Listener returns a listener that closes what comes while most connections are open.
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

// CloseWrite ends our direction: an answer is read to its end although we read no
// more of what it answers.
func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
