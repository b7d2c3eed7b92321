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

// A certificate that the server does not accept, such as one that has expired, is named.
func TestAClientCertificateThatIsRefused(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	refuses := certified.TLS.Clone()
	refuses.ClientAuth = tls.RequireAnyClientCert
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := serveTLS(t, l, refuses)
	defer func() {
		_ = l.Close()
		<-ended
	}()
	_, err = db.AwaitLease(t.Context(), db.LeaseOptions{URL: "postgres://lilac@" + l.Addr().String() + "/lilac?sslmode=require", Dir: t.TempDir(), Migrations: tables})
	if wire := fault.ToWire(err); wire.Code != "database_certificate" || !strings.Contains(wire.Message, "refused the TLS connection: tls: certificate required. Check that sslcert") {
		t.Errorf("%+v, want that the certificate of the client is the reason", wire)
	}
}

// A server whose certificate is not trusted is not "unreachable": the start ends and says why.
func TestACertificateThatIsNotTrusted(t *testing.T) {
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := serveTLS(t, l, certified.TLS)
	defer func() {
		_ = l.Close()
		<-ended
	}()
	_, err = db.AwaitLease(t.Context(), db.LeaseOptions{URL: "postgres://lilac@" + l.Addr().String() + "/lilac?sslmode=verify-full", Dir: t.TempDir(), Migrations: tables})
	if wire := fault.ToWire(err); wire.Code != "database_certificate" || !strings.Contains(wire.Message, "unknown authority") {
		t.Errorf("%+v, want that the certificate is the reason", wire)
	}
}

// serveTLS accepts the TLS connections of clients of PostgreSQL until the listener is closed, and ends
// each after the handshake.
func serveTLS(t *testing.T, l net.Listener, config *tls.Config) (ended chan struct{}) {
	t.Helper()
	ended = make(chan struct{})
	go func() {
		defer close(ended)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := io.ReadFull(conn, make([]byte, 8)); err == nil { // SSLRequest
				_, _ = conn.Write([]byte("S"))
				_ = tls.Server(conn, config).HandshakeContext(t.Context())
			}
			_ = conn.Close()
		}
	}()
	return ended
}
