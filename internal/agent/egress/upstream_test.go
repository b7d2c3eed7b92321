package egress_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"lilac/internal/agent/egress"
	"lilac/internal/foundation/fault"
	"lilac/internal/testkit/netproxy"
)

// Names: public.lilac.test can be looked up here, intranet.lilac.test leads inside, and the others are known
// to the proxy of the network only.
func lookUp(_ context.Context, host string) ([]netip.Addr, error) {
	switch host {
	case "public.lilac.test":
		return []netip.Addr{netip.MustParseAddr("8.8.8.8")}, nil
	case "intranet.lilac.test":
		return []netip.Addr{netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("10.0.0.1")}, nil
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
}

// network is a network that is left through a proxy only. All its names lead to one server.
func network(t *testing.T, serve http.HandlerFunc) (through egress.Upstream, proxy *netproxy.Proxy, tls *httptest.Server) {
	t.Helper()
	proxy = netproxy.Start(t)
	plain, tls := httptest.NewServer(serve), httptest.NewTLSServer(serve)
	t.Cleanup(plain.Close)
	t.Cleanup(tls.Close)
	for _, host := range []string{"public.lilac.test", "intranet.lilac.test", "hidden.lilac.test", "example.com", "10.0.0.1", "8.8.8.8"} {
		proxy.Know(host+":80", plain.Listener.Addr().String())
		proxy.Know(host+":443", tls.Listener.Addr().String())
	}
	return http.ProxyURL(proxy.URL), proxy, tls
}

func roots(server *httptest.Server) *http.Transport {
	return server.Client().Transport.(*http.Transport)
}

// In a network that is left through a proxy, files are fetched from listed names, and from names of a
// wildcard that lead to the public internet here, too.
func TestFilesAreFetchedThroughTheProxyOfTheNetwork(t *testing.T) {
	file := func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "file") }
	for _, c := range []struct {
		hosts, url string
		refused    bool
	}{
		{"hidden.lilac.test", "https://hidden.lilac.test/", false},
		{"*.lilac.test", "https://public.lilac.test/", false},
		{"*.lilac.test", "https://intranet.lilac.test/", true},
		{"*.lilac.test", "https://hidden.lilac.test/", true},
		{"*", "https://10.0.0.1/", true},
	} {
		through, proxy, server := network(t, file)
		// The certificate of the test server is for example.com.
		trust := roots(server).TLSClientConfig.RootCAs
		f := egress.NewFetcher(egress.FetchOptions{Hosts: []string{c.hosts}, Resolve: lookUp, Roots: trust, Upstream: through})
		u, err := url.Parse(c.url)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Fetch(t.Context(), c.url, 1<<10)
		if refused := fault.KindOf(err) == fault.Denied; refused != c.refused {
			t.Errorf("%s with the list %s: %v", c.url, c.hosts, err)
		}
		if asked := proxy.Asked(u.Host + ":443"); asked == c.refused {
			t.Errorf("the proxy was asked for %s with the list %s: %t", c.url, c.hosts, asked)
		}
	}
	through, _, server := network(t, file)
	f := egress.NewFetcher(egress.FetchOptions{Hosts: []string{"example.com"}, Resolve: lookUp, Roots: roots(server).TLSClientConfig.RootCAs, Upstream: through})
	if got, err := f.Fetch(t.Context(), "https://example.com/", 1<<10); err != nil || string(got.Data) != "file" {
		t.Errorf("%q, %v", got.Data, err)
	}
}

func TestAServiceIsReachedThroughTheProxyOfTheNetwork(t *testing.T) {
	through, _, server := network(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "answer") })
	origin := &url.URL{Scheme: "https", Host: "example.com"}
	client := egress.NewService(egress.ServiceOptions{Origin: origin, Resolve: lookUp, Roots: roots(server).TLSClientConfig.RootCAs, Upstream: through})
	defer client.CloseIdleConnections()
	res, err := client.Get("https://example.com/")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); string(body) != "answer" || err != nil {
		t.Errorf("%q, %v", body, err)
	}
	broken := egress.NewService(egress.ServiceOptions{Origin: origin, Upstream: func(*http.Request) (*url.URL, error) { return nil, errors.New("no such proxy") }})
	if _, err := broken.Post("https://example.com/", "text/plain", strings.NewReader("x")); err == nil || !strings.Contains(err.Error(), "no such proxy") {
		t.Errorf("%v", err)
	}
}

// Commands leave such a network in the same way: with tunnels, with plain requests, and with credentials.
func TestCommandsLeaveThroughTheProxyOfTheNetwork(t *testing.T) {
	through, proxy, server := network(t, func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%s tls=%t token=%s", r.Host, r.TLS != nil, r.Header.Get("Authorization"))
	})
	gate, client := open(t, egress.Options{Resolve: lookUp, Upstream: through, Roots: roots(server).TLSClientConfig.RootCAs, Rules: []egress.Rule{
		{Host: "hidden.lilac.test"}, {Host: "*.lilac.test"}, {Host: "10.0.0.1"}, {Host: "8.8.8.8"}, {Host: "example.com", Headers: map[string]string{"Authorization": "canary"}},
	}})
	for target, want := range map[string]string{
		"http://hidden.lilac.test/":   "hidden.lilac.test tls=false token=",
		"http://public.lilac.test/":   "public.lilac.test tls=false token=",
		"http://example.com/":         "example.com tls=true token=canary",
		"http://other.lilac.test/":    "cannot be looked up here",
		"http://intranet.lilac.test/": "not on the public internet",
		"http://10.0.0.1/":            "not on the public internet",
	} {
		res, err := client.Get(target)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%s: %s %q, %v", target, res.Status, body, err)
		}
	}
	for target, want := range map[string]int{
		"hidden.lilac.test:443": http.StatusOK, "public.lilac.test:443": http.StatusOK, "8.8.8.8:443": http.StatusOK,
		"intranet.lilac.test:443": http.StatusForbidden, "other.lilac.test:443": http.StatusForbidden, "10.0.0.1:443": http.StatusForbidden,
	} {
		if got := tunnel(t, gate, target); got != want {
			t.Errorf("a tunnel to %s: %d, want %d", target, got, want)
		}
		if proxy.Asked(target) != (want == http.StatusOK) {
			t.Errorf("the proxy was asked for %s: %t", target, proxy.Asked(target))
		}
	}
}

// A server that speaks first, such as that of SSH, is heard from its first byte, and the end of what
// a command sends arrives.
func TestATunnelThroughTheProxyCarriesEverything(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		conn, err := server.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		fmt.Fprint(conn, "SSH-2.0\n")
		sent, _ := io.ReadAll(conn)
		fmt.Fprintf(conn, "%d bytes", len(sent))
	}()
	proxy := netproxy.Start(t)
	proxy.Know("git.lilac.test:22", server.Addr().String())
	gate, _ := open(t, egress.Options{Resolve: lookUp, Upstream: http.ProxyURL(proxy.URL), Rules: []egress.Rule{{Host: "git.lilac.test", Ports: []int{22}}}})
	conn, err := dial(t.Context(), gate)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "CONNECT git.lilac.test:22 HTTP/1.1\r\nHost: git.lilac.test:22\r\n\r\n")
	in := bufio.NewReader(conn)
	if res, err := http.ReadResponse(in, &http.Request{Method: http.MethodConnect}); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", res, err)
	}
	if banner, err := in.ReadString('\n'); banner != "SSH-2.0\n" {
		t.Fatalf("%q, %v", banner, err)
	}
	if _, err := io.WriteString(conn, strings.Repeat("x", 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := conn.(*net.UnixConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if rest, err := io.ReadAll(in); string(rest) != "1048576 bytes" || err != nil {
		t.Errorf("%q, %v", rest, err)
	}
}

func TestAProxyThatRefusesIsNamed(t *testing.T) {
	proxy := netproxy.Start(t)
	stranger := *proxy.URL
	stranger.User = nil
	for want, at := range map[string]*url.URL{
		"does not accept the login":              &stranger,
		"502 Bad Gateway":                        proxy.URL,
		"connect to the proxy of the network":    {Scheme: "http", Host: "127.0.0.1:1"},
		"connect to the proxy of the network: d": {Scheme: "https", Host: "127.0.0.1:1"},
		"connect: connection refused":            {Scheme: "socks5", Host: "127.0.0.1:1"},
	} {
		gate, _ := open(t, egress.Options{Resolve: lookUp, Upstream: http.ProxyURL(at), Rules: []egress.Rule{{Host: "hidden.lilac.test"}}})
		conn, err := dial(t.Context(), gate)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(conn, "CONNECT hidden.lilac.test:443 HTTP/1.1\r\nHost: hidden.lilac.test:443\r\n\r\n")
		res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: http.MethodGet})
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || !strings.Contains(string(body), want) {
			t.Errorf("%q, %v, want %q", body, err, want)
		}
		_ = conn.Close()
	}
}
