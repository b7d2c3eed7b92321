package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"lilac/internal/foundation/fault"
)

// ServiceOptions configure the client of one service; see [NewService].
type ServiceOptions struct {
	// Origin is the address of the service. Only its scheme, host and port matter.
	Origin *url.URL
	// Internal allows a host name that points to an address which is not public. An
	// address or localhost in Origin is allowed anyway: whoever writes it means it.
	Internal bool
	// Headers are added to each request.
	Headers map[string]string
	// BodyBytes bounds a response body that is not an event stream.
	BodyBytes int64
	// Read is called with the number of bytes of a response that were read. An error ends
	// the response. It may be nil.
	Read func(n int) error
	// Resolve looks up a name; nil means the system's resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Roots are the certificate authorities to trust; nil means the system's.
	Roots *x509.CertPool
	// Upstream finds the proxy of the network; nil means that of the environment.
	Upstream Upstream

	// unguarded skips the checks of addresses and redirects. Only tests set it, to prove
	// that the checks matter.
	unguarded bool
}

// NewService returns a client that reaches one service and nothing else. Requests to
// other origins are refused, also by redirects, so the headers never leave the service. The
// address is checked when the client connects. Responses are not unpacked.
//
// The caller bounds the time of each request by its context, and must call
// CloseIdleConnections at the end.
func NewService(o ServiceOptions) *http.Client {
	if o.Resolve == nil {
		o.Resolve = resolve
	}
	if o.Upstream == nil {
		o.Upstream = http.ProxyFromEnvironment
	}
	s := &service{o: o}
	s.base = newTransports(&http.Transport{
		DialContext: s.dial, TLSClientConfig: &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true,
		DisableCompression: true, TLSHandshakeTimeout: dialTimeout, MaxResponseHeaderBytes: maxAnswerHeader,
		MaxIdleConnsPerHost: 2, IdleConnTimeout: idleTimeout,
	}, o.Upstream, s.upstream)
	return &http.Client{Transport: s, CheckRedirect: func(r *http.Request, before []*http.Request) error {
		switch {
		case len(before) > maxRedirects:
			return fault.New(fault.Denied, "The service redirects more than %d times.", maxRedirects)
		case !o.unguarded && !s.own(r.URL):
			return fault.New(fault.Denied, "The service redirects to another host, %s, which is not followed.", r.URL.Host)
		}
		return nil
	}}
}

type service struct {
	o    ServiceOptions
	base *transports
}

// own reports whether a URL belongs to the service.
func (s *service) own(u *url.URL) bool {
	return u.Scheme == s.o.Origin.Scheme && strings.EqualFold(hostPort(u), hostPort(s.o.Origin)) && u.User == nil
}

// hostPort returns the host and the port of a URL, also if the port is the usual one.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[u.Scheme]
	}
	return net.JoinHostPort(u.Hostname(), port)
}

// CloseIdleConnections implements the method that [http.Client.CloseIdleConnections] calls.
func (s *service) CloseIdleConnections() { s.base.CloseIdleConnections() }

// RoundTrip implements [http.RoundTripper].
func (s *service) RoundTrip(r *http.Request) (*http.Response, error) {
	if !s.own(r.URL) && !s.o.unguarded {
		return nil, fault.New(fault.Denied, "%s is not the address of this service.", r.URL.Host)
	}
	if len(s.o.Headers) > 0 {
		r = r.Clone(r.Context())
		for name, value := range s.o.Headers {
			r.Header.Set(name, value)
		}
	}
	response, err := s.base.RoundTrip(r)
	if err != nil {
		if errors.Is(err, errRefused) {
			return nil, fault.Wrap(fault.Denied, err, "The service is on an address that is not on the public internet.")
		}
		return nil, err
	}
	body := &boundedBody{ReadCloser: response.Body, read: s.o.Read, left: -1}
	kind, _, _ := strings.Cut(response.Header.Get("Content-Type"), ";")
	if s.o.BodyBytes > 0 && !strings.EqualFold(strings.TrimSpace(kind), "text/event-stream") {
		body.left = s.o.BodyBytes
	}
	response.Body = body
	return response, nil
}

// upstream returns the proxy for a request to the service.
func (s *service) upstream(r *http.Request) (*url.URL, error) {
	return s.o.Upstream.find(r.Context(), r.URL, listing{exact: true, internal: s.named(r.URL.Hostname())}, s.o.Resolve)
}

// named reports whether the operator has named the host, so that it may be on a private network.
func (s *service) named(host string) bool {
	return s.o.Internal || s.o.unguarded || isAddress(host) || host == "localhost"
}

func (s *service) dial(ctx context.Context, network, hostport string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return nil, err
	}
	named := s.named(host)
	dialer := net.Dialer{}
	return connect(ctx, host, port, s.o.Resolve, func(ctx context.Context, address netip.AddrPort) (net.Conn, error) {
		if !named && !Public(address.Addr()) {
			return nil, errRefused
		}
		return dialer.DialContext(ctx, network, address.String())
	})
}

// errBody is returned when a response is larger than the limit.
var errBody = fault.New(fault.TooLarge, "The service sent a response that is larger than allowed.")

// boundedBody is a response body with a limit.
type boundedBody struct {
	io.ReadCloser
	read func(n int) error
	// left is the number of bytes that may still be read; negative means any number.
	left int64
}

func (b *boundedBody) Read(p []byte) (int, error) {
	if b.left >= 0 && int64(len(p)) > b.left+1 {
		p = p[:b.left+1]
	}
	n, err := b.ReadCloser.Read(p)
	if b.left >= 0 {
		if b.left -= int64(n); b.left < 0 {
			return 0, errBody
		}
	}
	if b.read != nil && n > 0 {
		if stop := b.read(n); stop != nil {
			return 0, stop
		}
	}
	return n, err
}
