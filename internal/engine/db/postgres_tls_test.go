package db_test

import (
	"crypto/tls"
	"io"
	"net"
	"net/http/httptest"
	"strings"
	"testing"

	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// A server whose certificate is not trusted is not "unreachable": the start ends and says why.
func TestACertificateThatIsNotTrusted(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := io.ReadFull(conn, make([]byte, 8)); err == nil { // SSLRequest
				_, _ = conn.Write([]byte("S"))
				_ = tls.Server(conn, certified.TLS).HandshakeContext(t.Context())
			}
			_ = conn.Close()
		}
	}()
	defer func() {
		_ = l.Close()
		<-ended
	}()
	_, err = db.AwaitLease(t.Context(), db.LeaseOptions{URL: "postgres://lilac@" + l.Addr().String() + "/lilac?sslmode=verify-full", Dir: t.TempDir(), Migrations: tables})
	if wire := fault.ToWire(err); wire.Code != "database_certificate" || !strings.Contains(wire.Message, "unknown authority") {
		t.Errorf("%+v, want that the certificate is the reason", wire)
	}
}
