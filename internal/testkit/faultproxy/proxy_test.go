package faultproxy_test

import (
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lilac/internal/testkit/faultproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo starts a server that answers each connection with what it receives.
func echo(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return l.Addr().String()
}

// ask sends a text over a connection and returns the answer, or "" if none comes
// within the time.
func ask(c net.Conn, text string, within time.Duration) (string, error) {
	if _, err := io.WriteString(c, text); err != nil {
		return "", err
	}
	_ = c.SetReadDeadline(time.Now().Add(within))
	buf := make([]byte, len(text))
	n, err := io.ReadFull(c, buf)
	return string(buf[:n]), err
}

func TestFaults(t *testing.T) {
	const patience = 10 * time.Second
	for name, tt := range map[string]struct {
		begin     func(p *faultproxy.Proxy)
		want      string // the answer on an open connection during the fault
		timeout   bool   // no answer comes, but the connection stays open
		end       func(t *testing.T, p *faultproxy.Proxy)
		reconnect bool // clients can connect during the fault
	}{
		"none":    {begin: func(*faultproxy.Proxy) {}, want: "hello", reconnect: true},
		"cut":     {begin: func(p *faultproxy.Proxy) { p.Cut() }, reconnect: true},
		"reset":   {begin: func(p *faultproxy.Proxy) { p.Reset(true) }, end: func(_ *testing.T, p *faultproxy.Proxy) { p.Reset(false) }, reconnect: true},
		"refuse":  {begin: func(p *faultproxy.Proxy) { p.Refuse() }, end: func(t *testing.T, p *faultproxy.Proxy) { p.Accept(t) }},
		"silence": {begin: func(p *faultproxy.Proxy) { p.Silence(true) }, timeout: true, end: func(_ *testing.T, p *faultproxy.Proxy) { p.Silence(false) }, reconnect: true},
		"delay":   {begin: func(p *faultproxy.Proxy) { p.Delay(time.Millisecond) }, want: "hello", reconnect: true},
		"limit":   {begin: func(p *faultproxy.Proxy) { p.Limit(1 << 20) }, want: "hello", reconnect: true},
		"lost":    {begin: func(p *faultproxy.Proxy) { p.LoseAnswers(true) }, end: func(_ *testing.T, p *faultproxy.Proxy) { p.LoseAnswers(false) }, reconnect: true},
		"lost to": {begin: func(p *faultproxy.Proxy) { p.LoseAnswerTo("ell") }, end: func(_ *testing.T, p *faultproxy.Proxy) { p.LoseAnswers(false) }, reconnect: true},
	} {
		t.Run(name, func(t *testing.T) {
			p := faultproxy.Start(t, echo(t))
			c, err := net.Dial("tcp", p.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if got, err := ask(c, "before", patience); got != "before" {
				t.Fatalf("before the fault: answer %q, %v", got, err)
			}
			tt.begin(p)
			within := patience
			if tt.timeout {
				within = 50 * time.Millisecond
			}
			got, err := ask(c, "hello", within)
			if got != tt.want {
				t.Errorf("during the fault: answer %q, %v; want %q", got, err, tt.want)
			}
			if errors.Is(err, os.ErrDeadlineExceeded) != tt.timeout {
				t.Errorf("during the fault: %v; want a timeout %v", err, tt.timeout)
			}
			if during, err := net.Dial("tcp", p.Addr); (err == nil) != tt.reconnect {
				t.Errorf("connect during the fault: %v; want success %v", err, tt.reconnect)
			} else if err == nil {
				_ = during.Close()
			}
			if tt.end != nil {
				tt.end(t, p)
			}
			after, err := net.Dial("tcp", p.Addr)
			if err != nil {
				t.Fatalf("connect after the fault: %v", err)
			}
			defer after.Close()
			if got, err := ask(after, "after", patience); got != "after" {
				t.Errorf("after the fault: answer %q, %v", got, err)
			}
		})
	}
}

func TestCloseAfterClosesOneConnection(t *testing.T) {
	p := faultproxy.Start(t, echo(t))
	p.CloseAfter(1)
	for n, want := range []string{"x", "", "x"} {
		c, err := net.Dial("tcp", p.Addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if got, err := ask(c, "x", 10*time.Second); got != want {
			t.Errorf("connection %d: %q, %v; want %q", n, got, err, want)
		}
	}
}

func TestIgnoreNextServesOnlyLaterConnections(t *testing.T) {
	p := faultproxy.Start(t, echo(t))
	p.IgnoreNext()
	first, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer first.Close()
	if got, err := ask(first, "x", 50*time.Millisecond); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("first connection: %q, %v; want no answer", got, err)
	}
	second, err := net.Dial("tcp", p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	if got, err := ask(second, "x", 10*time.Second); got != "x" || !p.IgnoredOne() {
		t.Errorf("second connection: %q, %v; want an answer", got, err)
	}
}
