package app

import (
	"errors"
	"net"
	"sync"
	"time"
)

// acceptPause is the pause after a failure to accept a connection, such as one for lack of file
// descriptors.
const acceptPause = 50 * time.Millisecond

// port is a listener that outlives the servers on it. A process that waits and then takes over has
// two servers, one after the other; connections that arrive between them wait.
type port struct {
	listener net.Listener
	refuse   func() error // closes the listener, once
	conns    chan net.Conn
	closed   chan struct{}
	work     sync.WaitGroup
}

func openPort(l net.Listener) *port {
	p := &port{listener: l, refuse: sync.OnceValue(l.Close), conns: make(chan net.Conn), closed: make(chan struct{})}
	p.work.Go(p.accept)
	return p
}

func (p *port) accept() {
	for {
		c, err := p.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			select {
			case <-p.closed:
				return
			case <-time.After(acceptPause):
				continue
			}
		}
		select {
		case p.conns <- c:
		case <-p.closed:
			_ = c.Close()
			return
		}
	}
}

// share returns a listener for one server. Its Close leaves the port open.
func (p *port) share() net.Listener { return &shared{port: p, closed: make(chan struct{})} }

// stop refuses connections from now on, because there is no next server: a client that is refused
// knows that its request was not handled.
func (p *port) stop() { _ = p.refuse() } // close returns the error

// close closes the port and the connections that wait.
func (p *port) close() error {
	close(p.closed)
	err := p.refuse()
	p.work.Wait()
	return err
}

type shared struct {
	port   *port
	once   sync.Once
	closed chan struct{}
}

// Accept implements [net.Listener].
func (s *shared) Accept() (net.Conn, error) {
	select {
	case <-s.closed: // a connection that waits is for the next server
		return nil, net.ErrClosed
	default:
	}
	select {
	case c := <-s.port.conns:
		return c, nil
	case <-s.closed:
		return nil, net.ErrClosed
	case <-s.port.closed:
		return nil, net.ErrClosed
	}
}

// Addr implements [net.Listener].
func (s *shared) Addr() net.Addr { return s.port.listener.Addr() }

// Close implements [net.Listener].
func (s *shared) Close() error {
	s.once.Do(func() { close(s.closed) })
	return nil
}
