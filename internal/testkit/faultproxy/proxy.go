package faultproxy

import (
	"bytes"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// maxChunk is how much is read from one end before it is passed on, in bytes.
const maxChunk = 64 << 10

// Proxy forwards connections to a server.
type Proxy struct {
	// Addr is the address that clients connect to.
	Addr string

	serving sync.WaitGroup

	// mu guards the following fields. It is held while a request is written, so
	// that LoseAnswerTo applies to the answer that follows.
	mu       sync.Mutex
	listener net.Listener // nil while connections are refused
	server   string
	conns    []net.Conn // both ends of every open connection
	ended    bool
	faults   faults
}

type faults struct {
	reset      bool          // connections are reset when they carry data
	silent     bool          // nothing is passed on in either direction
	ignoreNext bool          // the next connection is accepted and never served
	closeAfter int           // the connection of this number from now is closed at once; 0 is none
	loseAnswer bool          // the next answer is lost and its connection closed
	loseAfter  []byte        // a request with this text sets loseAnswer
	loseOne    bool          // after one lost answer, loseAnswer and loseAfter end
	delay      time.Duration // before each chunk of an answer
	rate       int64         // bytes per second in each direction; 0 is unlimited
}

// Start starts a proxy to the server's address.
func Start(t testing.TB, server string) *Proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("start the proxy: %v", err)
	}
	p := &Proxy{Addr: listener.Addr().String(), listener: listener, server: server}
	p.serving.Go(func() { p.accept(listener) })
	t.Cleanup(func() {
		p.mu.Lock()
		p.ended = true
		p.closeListenerLocked()
		p.mu.Unlock()
		p.Cut()
		p.serving.Wait()
	})
	return p
}

// Route makes later connections reach another server.
func (p *Proxy) Route(server string) { p.set(func() { p.server = server }) }

// Reset resets every connection, open or new, when it carries data.
func (p *Proxy) Reset(on bool) { p.set(func() { p.faults.reset = on }) }

// Refuse closes every open connection and refuses new ones until [Proxy.Accept].
func (p *Proxy) Refuse() {
	p.mu.Lock()
	p.closeListenerLocked()
	p.mu.Unlock()
	p.Cut()
}

// Accept accepts connections again, at the same address.
func (p *Proxy) Accept(t testing.TB) {
	t.Helper()
	listener, err := net.Listen("tcp", p.Addr)
	if err != nil {
		t.Fatalf("accept connections at %s again: %v", p.Addr, err)
	}
	p.set(func() { p.listener = listener })
	p.serving.Go(func() { p.accept(listener) })
}

// Silence passes nothing on in either direction while it is on, as a half-open
// connection does. Turning it off closes the connections that were silent.
func (p *Proxy) Silence(on bool) {
	p.set(func() { p.faults.silent = on })
	if !on {
		p.Cut()
	}
}

// Delay delays each chunk of an answer by d.
func (p *Proxy) Delay(d time.Duration) { p.set(func() { p.faults.delay = d }) }

// Limit limits each direction of a connection to a number of bytes per second; 0
// removes the limit.
func (p *Proxy) Limit(bytesPerSecond int64) { p.set(func() { p.faults.rate = bytesPerSecond }) }

// IgnoreNext accepts the next connection and never serves it.
func (p *Proxy) IgnoreNext() { p.set(func() { p.faults.ignoreNext = true }) }

// CloseAfter closes one later connection at once: the one after n others.
func (p *Proxy) CloseAfter(n int) { p.set(func() { p.faults.closeAfter = n + 1 }) }

// IgnoredOne reports whether no connection is left to be ignored.
func (p *Proxy) IgnoredOne() bool { return !p.fault().ignoreNext }

// LoseAnswers makes every answer get lost, with its connection, until it is called
// with false, which also undoes [Proxy.LoseAnswerTo].
func (p *Proxy) LoseAnswers(on bool) {
	p.set(func() { p.faults.loseAnswer, p.faults.loseAfter = on, nil })
}

// LoseAnswerTo loses answers, as [Proxy.LoseAnswers] does, once a request that
// contains the text has been passed on.
func (p *Proxy) LoseAnswerTo(text string) { p.set(func() { p.faults.loseAfter = []byte(text) }) }

// LoseOneAnswerTo is like LoseAnswerTo, but only one answer is lost.
func (p *Proxy) LoseOneAnswerTo(text string) {
	p.set(func() { p.faults.loseAfter, p.faults.loseOne = []byte(text), true })
}

// LostOne reports whether the answer of LoseOneAnswerTo was lost.
func (p *Proxy) LostOne() bool { return !p.fault().loseOne }

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *Proxy) fault() faults {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.faults
}

func (p *Proxy) closeListenerLocked() {
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
}

// Cut closes every open connection. Clients can connect again.
func (p *Proxy) Cut() {
	p.mu.Lock()
	conns := p.conns
	p.conns = nil
	p.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
	}
}

// track remembers a connection so that it can be closed, and reports false if the
// proxy has ended.
func (p *Proxy) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended {
		return false
	}
	p.conns = append(p.conns, conns...)
	return true
}

func (p *Proxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = slices.DeleteFunc(p.conns, func(other net.Conn) bool { return other == c })
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return // the listener was closed
		}
		p.mu.Lock()
		server, ignore := p.server, p.faults.ignoreNext
		p.faults.ignoreNext = false
		closes := p.faults.closeAfter == 1
		p.faults.closeAfter = max(p.faults.closeAfter-1, 0)
		p.mu.Unlock()
		if closes {
			_ = client.Close()
			continue
		}
		if ignore {
			if !p.track(client) {
				_ = client.Close()
			}
			continue
		}
		upstream, err := net.Dial("tcp", server)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !p.track(client, upstream) {
			_, _ = client.Close(), upstream.Close()
			continue
		}
		p.serving.Go(func() { p.forward(client, upstream, p.request) })
		p.serving.Go(func() { p.forward(upstream, client, p.answer) })
	}
}

// forward copies from one end to the other until either closes.
func (p *Proxy) forward(from, to net.Conn, pass func(to net.Conn, chunk []byte) (ok bool)) {
	defer func() {
		for _, c := range []net.Conn{from, to} {
			_ = c.Close()
			p.forget(c)
		}
	}()
	buf := make([]byte, maxChunk)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		f := p.fault()
		if f.rate > 0 {
			time.Sleep(time.Duration(n) * time.Second / time.Duration(f.rate))
		}
		switch {
		case f.reset:
			for _, c := range []net.Conn{from, to} {
				_ = c.(*net.TCPConn).SetLinger(0) // closing then sends a reset
			}
			return
		case f.silent:
			continue
		}
		if !pass(to, buf[:n]) {
			return
		}
	}
}

func (p *Proxy) request(to net.Conn, chunk []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if after := p.faults.loseAfter; len(after) > 0 && bytes.Contains(chunk, after) {
		p.faults.loseAnswer = true
	}
	_, err := to.Write(chunk)
	return err == nil
}

func (p *Proxy) answer(to net.Conn, chunk []byte) bool {
	f := p.fault()
	if f.loseAnswer {
		if f.loseOne {
			p.set(func() { p.faults.loseAnswer, p.faults.loseAfter, p.faults.loseOne = false, nil, false })
		}
		return false
	}
	sleep(f.delay)
	_, err := to.Write(chunk)
	return err == nil
}
