package e2e_test

import (
	"io"
	"net"
	"testing"

	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/postgrestest"
)

// PostgreSQL can be lost between the moment at which a process becomes the owner of the database and
// the one at which it is ready, for example if a proxy is not sure yet who the primary is. The process
// tries again.
func TestAStartDuringAFailoverIsRepeated(t *testing.T) {
	t.Parallel()
	effort.SkipPostgres(t)
	server := postgrestest.Start(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	const ofTheLease = 2 // its own, and one that looks for a pooler
	go func() {
		for n := 1; ; n++ {
			client, err := l.Accept()
			if err != nil {
				return
			}
			if n == ofTheLease+1 {
				_ = client.Close()
				continue
			}
			go relay(client, server.Addr())
		}
	}()
	s := e2e.Start(t, e2e.OnPostgres(postgrestest.URLAt(l.Addr().String(), ""))...)
	s.Kill()
}

func relay(client net.Conn, to string) {
	defer func() { _ = client.Close() }()
	server, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	_, _ = io.Copy(client, server)
}
