package redistest

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// replyWithin is the timeout of one command, so that a paused server cannot block a test
// forever.
const replyWithin = 30 * time.Second

// Do runs a command on a new connection and returns its reply: a string, an int64, nil,
// or a []any of them. An error ends the test.
func (s *Server) Do(args ...string) any {
	s.t.Helper()
	reply, err := s.TryDo(args...)
	if err != nil {
		s.t.Fatalf("redis %s: %v", args[0], err)
	}
	return reply
}

// TryDo is like Do, but returns the error. Use it for a server that may be down.
func (s *Server) TryDo(args ...string) (reply any, err error) {
	return s.TryDoAs(s.opt.User, s.opt.Password, args...)
}

// TryDoAs is like TryDo, but logs in as the given user, or not at all if password is
// empty.
func (s *Server) TryDoAs(user, password string, args ...string) (reply any, err error) {
	conn, err := s.dial()
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if err := conn.SetDeadline(time.Now().Add(replyWithin)); err != nil {
		return nil, err
	}
	r := bufio.NewReader(conn)
	if password != "" {
		auth := []string{"AUTH", password}
		if user != "" {
			auth = []string{"AUTH", user, password}
		}
		if _, err := call(conn, r, auth); err != nil {
			return nil, err
		}
	}
	return call(conn, r, args)
}

func (s *Server) dial() (net.Conn, error) {
	dialer := &net.Dialer{Timeout: replyWithin}
	if !s.opt.TLS {
		return dialer.Dial("tcp", s.Addr)
	}
	authority, err := os.ReadFile(s.CAFile)
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority)
	return tls.DialWithDialer(dialer, "tcp", s.Addr, &tls.Config{RootCAs: roots})
}

func call(w io.Writer, r *bufio.Reader, args []string) (any, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(args))
	for _, a := range args {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(a), a)
	}
	if _, err := io.WriteString(w, b.String()); err != nil {
		return nil, err
	}
	return readReply(r)
}

// readReply reads one reply of the RESP2 protocol.
func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("an empty reply")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, errors.New(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read reply %q: %w", line, err)
	}
	switch {
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		data := make([]byte, n+2)
		if _, err := io.ReadFull(r, data); err != nil {
			return nil, err
		}
		return string(data[:n]), nil
	case kind == '*':
		items := make([]any, n)
		for i := range items {
			if items[i], err = readReply(r); err != nil {
				return nil, err
			}
		}
		return items, nil
	}
	return nil, fmt.Errorf("a reply of unknown kind %q", line)
}
