package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/proxy"

	"lilac/internal/foundation/fault"
)

// Upstream returns the proxy that a request has to use to leave the operator's network, or nil.
// [http.ProxyFromEnvironment] is one.
type Upstream func(*http.Request) (*url.URL, error)

// listing says how the operator has listed a host.
type listing struct {
	// exact means that its name is listed, not only a wildcard.
	exact bool
	// internal means that it may be on a private network.
	internal bool
}

// find returns the proxy for an address, or nil. The proxy itself looks the name up and connects, so
// that addresses cannot be checked then. So it gets the names that the operator has listed exactly, and
// of those that match a wildcard, the ones that lead to public addresses here, too.
func (up Upstream) find(ctx context.Context, u *url.URL, how listing, lookup func(context.Context, string) ([]netip.Addr, error)) (*url.URL, error) {
	at, err := up(&http.Request{URL: u})
	if at == nil || err != nil || how.internal || how.exact && !isAddress(u.Hostname()) {
		return at, err
	}
	addrs, err := addresses(ctx, u.Hostname(), lookup)
	switch {
	case err != nil:
		return nil, fault.Wrap(fault.Denied, err, "The name %s cannot be looked up here, and the proxy of this network would connect to it unchecked. List it without a wildcard to allow that.", u.Hostname())
	case slices.ContainsFunc(addrs, func(a netip.Addr) bool { return !Public(a) }):
		return nil, errRefused
	}
	return at, nil
}

// addresses returns the addresses of a host, which may be an address itself.
func addresses(ctx context.Context, host string, lookup func(context.Context, string) ([]netip.Addr, error)) ([]netip.Addr, error) {
	if addr, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return []netip.Addr{addr.Unmap()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	addrs, err := lookup(ctx, host)
	if err != nil {
		return nil, fmt.Errorf("look up %s: %w", host, err)
	}
	for i := range addrs {
		addrs[i] = addrs[i].Unmap()
	}
	return addrs, nil
}

// transports sends each request directly or through the proxy of the network.
type transports struct {
	direct, proxied *http.Transport
	find            func(*http.Request) (*url.URL, error)
}

// newTransports returns direct, which checks the addresses that it connects to, and one like it for the
// proxy; find is as in [Upstream.find].
func newTransports(direct *http.Transport, upstream Upstream, find func(*http.Request) (*url.URL, error)) *transports {
	proxied := direct.Clone()
	proxied.OnProxyConnectResponse = fault.ProxyAnswer
	proxied.Proxy, proxied.DialContext = upstream, (&net.Dialer{Timeout: dialTimeout}).DialContext
	return &transports{direct, proxied, find}
}

// RoundTrip implements [http.RoundTripper].
func (t *transports) RoundTrip(req *http.Request) (*http.Response, error) {
	at, err := t.find(req)
	switch {
	case err != nil:
		if req.Body != nil {
			err = errors.Join(err, req.Body.Close())
		}
		return nil, err
	case at != nil:
		return t.proxied.RoundTrip(req)
	}
	return t.direct.RoundTrip(req)
}

func (t *transports) CloseIdleConnections() {
	t.direct.CloseIdleConnections()
	t.proxied.CloseIdleConnections()
}

// tunnel opens a connection to host:port through a proxy: with CONNECT (RFC 9110 section 9.3.6) or SOCKS 5.
func tunnel(ctx context.Context, at *url.URL, target string, roots *x509.CertPool) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	var dialer net.Dialer
	switch at.Scheme {
	case "socks5", "socks5h":
		var login *proxy.Auth
		if at.User != nil {
			password, _ := at.User.Password()
			login = &proxy.Auth{User: at.User.Username(), Password: password}
		}
		through, err := proxy.SOCKS5("tcp", hostPort(at), login, &dialer)
		if err != nil {
			return nil, fmt.Errorf("use the proxy of the network: %w", err)
		}
		return through.(proxy.ContextDialer).DialContext(ctx, "tcp", target)
	case "https":
		conn, err := (&tls.Dialer{Config: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}).DialContext(ctx, "tcp", hostPort(at))
		return ask(ctx, conn, err, at, target)
	}
	conn, err := dialer.DialContext(ctx, "tcp", hostPort(at))
	return ask(ctx, conn, err, at, target)
}

// ask asks a proxy for a tunnel on a connection to it.
func ask(ctx context.Context, conn net.Conn, err error, at *url.URL, target string) (net.Conn, error) {
	if err != nil {
		return nil, fmt.Errorf("connect to the proxy of the network: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	req := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: target}, Host: target, Header: http.Header{}}
	if login := at.User; login != nil {
		password, _ := login.Password()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(login.Username()+":"+password)))
	}
	err = req.Write(conn)
	in := bufio.NewReader(conn)
	var res *http.Response
	if err == nil {
		res, err = http.ReadResponse(in, req)
	}
	switch {
	case !stop() && err == nil:
		err = ctx.Err()
	case err == nil:
		err = fault.ProxyAnswer(ctx, at, req, res)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("ask the proxy of the network for %s: %w", target, err), conn.Close())
	}
	return &tunnelled{conn, in}, nil
}

// tunnelled is a connection of which the beginning was read with the proxy's answer.
type tunnelled struct {
	net.Conn
	in *bufio.Reader
}

func (t *tunnelled) Read(p []byte) (int, error) { return t.in.Read(p) }

// CloseWrite closes the sending direction only.
func (t *tunnelled) CloseWrite() error {
	if half, ok := t.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return t.Close()
}
