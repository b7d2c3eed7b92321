package doctor

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"lilac/internal/foundation/fault"
)

func TestAdviceForARedisThatCannotBeReached(t *testing.T) {
	for want, err := range map[string]error{
		"bus.caFile":             x509.UnknownAuthorityError{},
		"Name the host":          x509.HostnameError{Certificate: &x509.Certificate{}, Host: "redis"},
		"tls-auth-clients to no": &net.OpError{Op: "remote error", Err: errors.New("tls: certificate required")},
		"TLS for rediss://":      fmt.Errorf("dial: %w", context.DeadlineExceeded),
		"without it for redis":   &net.OpError{Op: "read", Err: syscall.ECONNRESET},
		"whether that port":      io.EOF,
		"new certificate":        fmt.Errorf("tls: %w", x509.CertificateInvalidError{Reason: x509.Expired}),
		"the log of Redis":       fault.New(fault.Unavailable, "Redis at host:6379 cannot do its work: BUSY."),
		"Start Redis":            &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED},
	} {
		if got := adviceForRedis(fault.Wrap(fault.Unavailable, err, "Redis cannot be reached")); !strings.Contains(got, want) {
			t.Errorf("%v: %q, want it to say %q", err, got, want)
		}
	}
}
