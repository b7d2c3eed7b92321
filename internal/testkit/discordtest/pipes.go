package discordtest

import (
	"context"
	"net"
	"sync"
)

// pipes is an in-memory listener. In a synctest bubble, goroutines that wait on a pipe
// count as durably blocked; goroutines that wait on a socket do not.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes {
	return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (p *pipes) dial(ctx context.Context) (net.Conn, error) {
	theirs, ours := net.Pipe()
	select {
	case p.conns <- ours:
		return theirs, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr returns an address that is reserved for documentation (RFC 5737), so it cannot be a
// real host. Its host and port form a valid URL, from which attachments can be fetched.
func (p *pipes) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "192.0.2.1:80" }
