package fault_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"lilac/internal/foundation/fault"
)

func TestTheAnswersOfAProxy(t *testing.T) {
	asked := &http.Request{Host: "api.example.com:443"}
	for status, want := range map[int]string{
		http.StatusOK:                "",
		http.StatusProxyAuthRequired: "proxy_login",
		http.StatusUnauthorized:      "proxy_login",
		http.StatusForbidden:         "proxy_refuses",
		http.StatusBadGateway:        "proxy_fails",
	} {
		err := fault.ProxyAnswer(t.Context(), nil, asked, &http.Response{StatusCode: status, Status: fmt.Sprint(status)})
		if (err == nil) != (want == "") || err != nil && fault.ToWire(err).Code != want {
			t.Errorf("%d: %v, want %q", status, err, want)
		}
		if retried := err != nil && fault.ToWire(err).Retryable; retried != (status == http.StatusBadGateway) {
			t.Errorf("%d is tried again: %t", status, retried)
		}
	}
}

func TestTheFaultOfATransport(t *testing.T) {
	known := fault.New(fault.Denied, "No.")
	certificate := &tls.CertificateVerificationError{Err: errors.New("signed by unknown authority")}
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"a fault":       {fmt.Errorf("call: %w", known), "No."},
		"a certificate": {fmt.Errorf("call: %w", certificate), "The certificate of it is not accepted: signed by unknown authority. If an authority of your organization signed it, name its file in SSL_CERT_FILE, and start Lilac again."},
		"anything else": {errors.New("connection reset"), ""},
	} {
		got := fault.OfTransport(c.err, "it")
		if (got == nil) != (c.want == "") || got != nil && got.Message != c.want {
			t.Errorf("%s: %v, want %q", name, got, c.want)
		}
	}
}
