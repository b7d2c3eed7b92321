package redisbus_test

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// way is the way to a server. A toxiproxy on which much is going on leaves
// goroutines behind.
type way struct {
	listener net.Listener
	serving  sync.WaitGroup
	mute     atomic.Bool  // nobody answers the next connection
	rate     atomic.Int64 // bytes in a second, 0 without a bound

	mu    sync.Mutex
	addr  string     // of the server, for the next connections
	conns []net.Conn // to servers
	ended bool       // a further one is closed at once
	deaf  bool       // the next answer is lost, with the connection
	deafs string     // and so it is once this was asked
}

// url is what a client is given that is to go this way.
func (y *way) url() string { return "redis://" + y.listener.Addr().String() }

func (y *way) setDeaf(deaf bool) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.deaf, y.deafs = deaf, ""
}

// leadTo has the next connections end at another server.
func (y *way) leadTo(addr string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.addr = addr
}

func (y *way) keep(conn net.Conn) {
	y.mu.Lock()
	defer y.mu.Unlock()
	if y.ended {
		_ = conn.Close()
		return
	}
	y.conns = append(y.conns, conn)
}

// end closes what is open, and what is opened from now on. A client that is closed while it
// dials keeps the connection until the garbage is collected.
func (y *way) end() {
	y.mu.Lock()
	y.ended = true
	y.mu.Unlock()
	y.closeAll()
}

func (y *way) closeAll() {
	y.mu.Lock()
	defer y.mu.Unlock()
	for _, c := range y.conns {
		_ = c.Close()
	}
	y.conns = nil
}

func (y *way) target() string {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.addr
}

// deafTo makes an answer get lost that follows a question which holds a text.
func (y *way) deafTo(text string) {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.deafs = text
}

// ask passes a question on. No answer closes the connection meanwhile.
func (y *way) ask(to net.Conn, question []byte) error {
	y.mu.Lock()
	defer y.mu.Unlock()
	y.deaf = y.deaf || y.deafs != "" && bytes.Contains(question, []byte(y.deafs))
	_, err := to.Write(question)
	return err
}

func (y *way) isDeaf() bool {
	y.mu.Lock()
	defer y.mu.Unlock()
	return y.deaf
}

func newWay(t testing.TB, addr string) *way {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	y := &way{listener: listener, addr: addr}
	t.Cleanup(func() {
		_ = listener.Close()
		y.end()
		y.serving.Wait()
	})
	y.serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			if y.mute.CompareAndSwap(true, false) {
				defer client.Close()
				continue
			}
			if server, err := net.Dial("tcp", y.target()); err == nil {
				y.keep(server)
				y.serving.Go(func() { y.carry(client, server, false) })
				y.serving.Go(func() { y.carry(server, client, true) })
			} else {
				_ = client.Close()
			}
		}
	})
	return y
}

// carry copies until one of the two ends.
func (y *way) carry(from, to net.Conn, answers bool) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if rate := y.rate.Load(); rate > 0 {
			time.Sleep(time.Duration(n) * time.Second / time.Duration(rate))
		}
		if err != nil || answers && y.isDeaf() {
			return
		}
		if answers {
			_, err = to.Write(buf[:n])
		} else {
			err = y.ask(to, buf[:n])
		}
		if err != nil {
			return
		}
	}
}
