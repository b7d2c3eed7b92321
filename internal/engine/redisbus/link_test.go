package redisbus

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"syscall"
	"testing"

	"lilac/internal/foundation/fault"
)

// Each reason of an outage is logged once, however many attempts to connect follow.
func TestEachReasonOfAnOutageIsLoggedOnce(t *testing.T) {
	reset := func(port int) error {
		err := &net.OpError{Op: "read", Net: "tcp", Source: &net.TCPAddr{Port: port}, Err: syscall.ECONNRESET}
		return fault.Wrap(fault.Unavailable, fmt.Errorf("dial: %w", err), "Redis cannot be reached")
	}
	expired := func(now string) error {
		err := x509.CertificateInvalidError{Reason: x509.Expired, Detail: "current time " + now}
		return fault.Wrap(fault.Unavailable, &tls.CertificateVerificationError{Err: err}, "Redis cannot be reached")
	}
	loading := errors.New("it is loading its data")
	l := newLink(Options{})
	for i, step := range []struct {
		why  error
		news bool
	}{
		{reset(1), true},
		{reset(2), false},
		{loading, true},
		{reset(3), false},
		{loading, false},
		{nil, true},
		{nil, false},
		{reset(4), true},
		{expired("10:00:01"), true},
		{expired("10:00:02"), false},
	} {
		if news := l.set(step.why); news != step.news {
			t.Errorf("step %d (%v): news is %v", i+1, step.why, news)
		}
		if l.away() != step.why {
			t.Errorf("step %d: it is away because of %v", i+1, l.away())
		}
	}
}
