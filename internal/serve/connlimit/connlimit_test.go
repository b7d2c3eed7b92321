package connlimit_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"lilac/internal/serve/connlimit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// greet serves every connection with a word, and holds it until its client goes.
func greet(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			_, _ = io.WriteString(c, "in")
			_, _ = io.Copy(io.Discard, c)
		}()
	}
}

// enter reports whether a new connection is served, and returns it.
func enter(t *testing.T, l net.Listener) (net.Conn, bool) {
	t.Helper()
	c, err := net.Dial(l.Addr().Network(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	_ = c.SetReadDeadline(time.Now().Add(time.Minute))
	_, err = io.ReadFull(c, make([]byte, 2))
	return c, err == nil
}

// The control is the listener itself.
func TestConnectionsAreLimited(t *testing.T) {
	for _, network := range []string{"tcp", "unix"} {
		for _, limit := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, limited %t", network, limit), func(t *testing.T) {
				addr := map[string]string{"tcp": "127.0.0.1:0", "unix": filepath.Join(t.TempDir(), "s")}[network]
				l, err := net.Listen(network, addr)
				if err != nil {
					t.Fatal(err)
				}
				defer l.Close()
				if limit {
					l = connlimit.Listener(l, 2)
				}
				go greet(l)
				first, _ := enter(t, l)
				_, second := enter(t, l)
				if _, third := enter(t, l); !second || third == limit {
					t.Errorf("the second is served: %t, the third: %t", second, third)
				}
				_ = first.Close()
				for until := time.Now().Add(time.Minute); ; {
					if _, again := enter(t, l); again {
						break
					}
					if time.Now().After(until) {
						t.Fatal("nobody is served although one has gone")
					}
				}
			})
		}
	}
}

func TestConnectionClosedTwiceIsCountedOnce(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	l := connlimit.Listener(&one{conns: []net.Conn{ours, theirs, theirs}}, 1)
	c, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	_, _ = c.Close(), c.Close()
	if _, err := l.Accept(); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(); err != io.EOF {
		t.Errorf("one more than may be: %v", err)
	}
}

// Who reads nothing is let go, and who is slow is not, however long it takes.
func TestClientThatDoesNotReadIsDisconnected(t *testing.T) {
	words := bytes.Repeat([]byte("0123456789"), 50_000)
	for name, reads := range map[string]bool{"a slow reader": true, "no reader": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ours, theirs := net.Pipe()
				defer theirs.Close()
				c, err := connlimit.Listener(&one{conns: []net.Conn{ours}}, 1).Accept()
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				var read []byte
				var reading sync.WaitGroup
				if reads {
					reading.Go(func() {
						for piece := make([]byte, 20_000); len(read) < len(words); {
							time.Sleep(10 * time.Second)
							n, err := theirs.Read(piece)
							if read = append(read, piece[:n]...); err != nil {
								return
							}
						}
					})
				}
				n, err := c.Write(words)
				if reads && (n != len(words) || err != nil) {
					t.Errorf("%d of %d bytes were written: %v", n, len(words), err)
				}
				if !reads && !errors.Is(err, os.ErrDeadlineExceeded) {
					t.Errorf("written although nobody reads: %v", err)
				}
				reading.Wait()
				if reads && !bytes.Equal(read, words) {
					t.Errorf("%d bytes were read, not the %d that were written", len(read), len(words))
				}
			})
		})
	}
}

// one hands out what it was given.
type one struct {
	net.Listener
	conns []net.Conn
}

func (o *one) Accept() (net.Conn, error) {
	if len(o.conns) == 0 {
		return nil, io.EOF
	}
	c := o.conns[0]
	o.conns = o.conns[1:]
	return c, nil
}
