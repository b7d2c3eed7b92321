package egress_test

import (
	"bufio"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"lilac/internal/agent/egress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOnlyAddressesOfThePublicInternetArePublic(t *testing.T) {
	for _, addr := range []string{
		"0.0.0.0", "10.1.2.3", "100.64.0.1", "100.127.255.255", "127.0.0.1", "127.255.0.1", "169.254.169.254", "172.16.0.1", "172.31.255.255",
		"192.0.0.1", "192.0.0.170", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255", "198.51.100.7", "203.0.113.9",
		"224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
		"::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:169.254.169.254", "::ffff:0:127.0.0.1",
		"64:ff9b::7f00:1", "64:ff9b::808:808", "64:ff9b:1::1", "100::1", "2001::1", "2001:0:a9fe:a9fe::1", "2001:10::1", "2001:20::1", "2001:db8::1",
		"2002:7f00:1::1", "2002:a9fe:a9fe::", "3fff::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "fe80::1%eth0", "2600::1%eth0",
	} {
		if egress.Public(netip.MustParseAddr(addr)) {
			t.Errorf("%s passes for public", addr)
		}
	}
	for _, addr := range []string{"1.1.1.1", "8.8.8.8", "140.82.112.3", "::ffff:8.8.8.8", "2606:4700:4700::1111", "2a00:1450:4001:831::200e", "100.128.0.1", "172.32.0.1", "192.0.1.1"} {
		if !egress.Public(netip.MustParseAddr(addr)) {
			t.Errorf("control: %s is refused", addr)
		}
	}
	if egress.Public(netip.Addr{}) {
		t.Error("no address passes for public")
	}
}

func TestRulesThatSayTooMuchAreRefused(t *testing.T) {
	for _, r := range []egress.Rule{
		{Host: ""},
		{Host: "*"},
		{Host: "*.com"},
		{Host: "a.*.org"},
		{Host: "https://api.github.com"},
		{Host: "api.github.com/x"},
		{Host: "api.github.com:443"},
		{Host: "API.github.com"},
		{Host: "*.10.0.0.1"},
		{Host: "a.org", Ports: []int{0}},
		{Host: "a.org", Ports: []int{65536}},
		{Host: "a.org", Headers: map[string]string{"A b": "x"}},
		{Host: "a.org", Headers: map[string]string{"A": "x\r\nB: y"}},
		{Host: "a.org", Headers: map[string]string{"host": "b.org"}},
		{Host: "*.a.org", Headers: map[string]string{"Authorization": "Bearer x"}},
	} {
		if r.Validate() == nil {
			t.Errorf("accepted: %+v", r)
		}
	}
	for _, r := range []egress.Rule{{Host: "a.org"}, {Host: "*.a.org", Ports: []int{8443}}, {Host: "10.0.0.1", Internal: true}, {Host: "a.org", Headers: map[string]string{"Authorization": "Bearer x"}}} {
		if err := r.Validate(); err != nil {
			t.Errorf("control: %v", err)
		}
	}
}

// here makes every name one of this machine.
func here(context.Context, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// open returns a gate and a client that goes through it.
func open(t *testing.T, opts egress.Options) (*egress.Gate, *http.Client) {
	t.Helper()
	if opts.Resolve == nil {
		opts.Resolve = here
	}
	opts.Dir = t.TempDir()
	proxy, err := egress.Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	gate, err := proxy.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{
		Proxy:       http.ProxyURL(&url.URL{Scheme: "http", Host: "proxy"}),
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, gate) },
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		if err := gate.Close(); err != nil {
			t.Error(err)
		}
	})
	return gate, &http.Client{Transport: transport, Timeout: time.Minute}
}

func dial(ctx context.Context, gate *egress.Gate) (net.Conn, error) {
	return (&net.Dialer{}).DialContext(ctx, "unix", gate.Path())
}

func portOf(t *testing.T, server *httptest.Server) int {
	t.Helper()
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, _ := strconv.Atoi(u.Port())
	return port
}

func TestOnlyListedHostsAndPortsAreReached(t *testing.T) {
	var reached atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		reached.Add(1)
		fmt.Fprintf(w, "%s %s", r.Host, r.URL.RequestURI())
	}))
	defer server.Close()
	port := portOf(t, server)
	gate, client := open(t, egress.Options{Rules: []egress.Rule{
		{Host: "a.test", Ports: []int{port}, Internal: true},
		{Host: "*.wide.test", Ports: []int{port}, Internal: true},
		{Host: "inside.test", Ports: []int{port}}, // listed, and yet of this machine
		{Host: "other.test", Internal: true},
	}})
	for host, want := range map[string]int{
		"a.test": 200, "A.Test": 200, "a.test.": 200, "x.wide.test": 200, "x.y.wide.test": 200,
		"wide.test": 403, "xwide.test": 403, "b.test": 403, "a.test.evil.org": 403, "inside.test": 403, "other.test": 403,
		"127.0.0.1": 403, "localhost": 403, "[::1]": 403, "169.254.169.254": 403, "0x7f.1": 403, "2130706433": 403,
	} {
		for _, method := range []string{"plain", "tunnel"} {
			before := reached.Load()
			var got int
			if method == "plain" {
				resp, err := client.Get(fmt.Sprintf("http://%s:%d/x?y=1", host, port))
				if err != nil {
					t.Fatal(err)
				}
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				got = resp.StatusCode
				if want == 403 && !strings.Contains(string(body), "is not allowed") {
					t.Errorf("%s: %s", host, body)
				}
			} else {
				got = tunnel(t, gate, fmt.Sprintf("%s:%d", host, port))
			}
			if got != want || (reached.Load() > before) != (want == 200) {
				t.Errorf("%s by %s: %d, want %d; the server saw %d", host, method, got, want, reached.Load()-before)
			}
		}
	}
	denied := strings.Join(gate.Denied(), " ")
	if !strings.Contains(denied, "b.test:"+strconv.Itoa(port)) || !strings.Contains(denied, "inside.test") {
		t.Errorf("the refused hosts are not told: %s", denied)
	}
}

// What a command asks for is of any length; what is told of it is not.
func TestALongNameIsToldInShort(t *testing.T) {
	gate, _ := open(t, egress.Options{})
	for i := range 20 {
		if got := tunnel(t, gate, strconv.Itoa(i)+strings.Repeat("x", 20_000)+":443"); got != http.StatusForbidden {
			t.Errorf("answered %d", got)
		}
	}
	var total int
	for _, name := range gate.Denied() {
		total += len(name)
	}
	if total == 0 || total > 16*260 {
		t.Errorf("%d bytes are told", total)
	}
}

// tunnel asks for a tunnel and, when it gets one, for a page through it.
func tunnel(t *testing.T, gate *egress.Gate, target string) int {
	t.Helper()
	conn, err := dial(t.Context(), gate)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "CONNECT %s HTTP/1.1\r\nHost: %s\r\n\r\n", target, target)
	reader := bufio.NewReader(conn)
	resp, err := http.ReadResponse(reader, &http.Request{Method: http.MethodConnect})
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
		if _, err := io.ReadAll(reader); err != nil {
			t.Fatal(err)
		}
	}
	return resp.StatusCode
}

func TestNameThatChangesWhereItPointsGainsNothing(t *testing.T) {
	var reached atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached.Add(1) }))
	defer server.Close()
	port := portOf(t, server)
	var asked atomic.Int32
	flip := func(context.Context, string) ([]netip.Addr, error) {
		if asked.Add(1) == 1 {
			return []netip.Addr{netip.MustParseAddr("::ffff:127.0.0.1")}, nil
		}
		return []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}, nil
	}
	_, client := open(t, egress.Options{Resolve: flip, Rules: []egress.Rule{{Host: "flip.test", Ports: []int{port}}}})
	for range 3 {
		resp, err := client.Get(fmt.Sprintf("http://flip.test:%d/", port))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != http.StatusForbidden {
			t.Errorf("status %d", resp.StatusCode)
		}
	}
	if reached.Load() != 0 {
		t.Error("it was reached")
	}
}

func TestCredentialIsAddedOutsideAndOnlyInsideTLS(t *testing.T) {
	seen := make(chan http.Header, 8)
	echo := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen <- r.Header.Clone() })
	secure, plain := httptest.NewTLSServer(echo), httptest.NewServer(echo)
	defer secure.Close()
	defer plain.Close()
	roots := x509.NewCertPool()
	roots.AddCert(secure.Certificate())
	_, client := open(t, egress.Options{Roots: roots, Rules: []egress.Rule{
		{Host: "example.com", Ports: []int{portOf(t, secure), portOf(t, plain)}, Internal: true, Headers: map[string]string{"Authorization": "Bearer canary"}},
	}})
	req, _ := http.NewRequest(http.MethodGet, fmt.Sprintf("http://example.com:%d/", portOf(t, secure)), nil)
	req.Header.Set("Authorization", "Bearer of-the-model")
	req.Header.Set("Proxy-Authorization", "x")
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if got := <-seen; got.Get("Authorization") != "Bearer canary" || got.Get("Proxy-Authorization") != "" || got.Get("X-Forwarded-For") != "" {
		t.Errorf("the host saw %v", got)
	}
	// A host that does not speak TLS gets nothing.
	if resp, err = client.Get(fmt.Sprintf("http://example.com:%d/", portOf(t, plain))); err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusBadGateway || len(seen) > 0 {
		t.Errorf("status %d; %d requests in the clear", resp.StatusCode, len(seen))
	}
}

// A server that follows the standard answers TRACE with the request that it got.
// The control is the same server without a credential.
func TestACredentialIsNotTracedBack(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = r.Header.Write(w) }))
	defer server.Close()
	plain := httptest.NewServer(server.Config.Handler)
	defer plain.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	gate, client := open(t, egress.Options{Roots: roots, Rules: []egress.Rule{
		{Host: "example.com", Ports: []int{portOf(t, server)}, Internal: true, Headers: map[string]string{"Authorization": "Bearer canary"}},
		{Host: "other.test", Ports: []int{portOf(t, plain)}, Internal: true},
	}})
	for address, want := range map[string]int{
		fmt.Sprintf("http://example.com:%d/", portOf(t, server)): http.StatusForbidden,
		fmt.Sprintf("http://other.test:%d/", portOf(t, plain)):   http.StatusOK,
	} {
		req, err := http.NewRequest(http.MethodTrace, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Mine", "echo")
		resp, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != want || strings.Contains(string(body), "canary") || want == http.StatusOK && !strings.Contains(string(body), "X-Mine: echo") {
			t.Errorf("%s: %d, %s", address, resp.StatusCode, body)
		}
	}
	if denied := gate.Denied(); !slices.Contains(denied, "TRACE to example.com") {
		t.Errorf("what was refused is not told: %v", denied)
	}
}

func TestBytesAndConnectionsAreBounded(t *testing.T) {
	const limit = 1 << 20
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/wait" {
			<-release
			return
		}
		for range 100 {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	defer close(release)
	port := portOf(t, server)
	gate, client := open(t, egress.Options{
		Rules:  []egress.Rule{{Host: "a.test", Ports: []int{port}, Internal: true}},
		Limits: egress.Limits{Bytes: limit, Connections: 2},
	})
	resp, err := client.Get(fmt.Sprintf("http://a.test:%d/", port))
	if err != nil {
		t.Fatal(err)
	}
	n, _ := io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	if n == 0 || n > limit+64<<10 {
		t.Errorf("%d bytes came through", n)
	}
	client.CloseIdleConnections()

	var conns []net.Conn
	for range 8 {
		conn, err := dial(t.Context(), gate)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	// Those above the limit are closed without an answer.
	for _, conn := range conns[2:] {
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := conn.Read(make([]byte, 1)); err == nil || strings.Contains(err.Error(), "timeout") {
			t.Errorf("a connection above the limit: %v", err)
		}
	}
	if denied := strings.Join(gate.Denied(), " "); !strings.Contains(denied, "bytes") || !strings.Contains(denied, "connections") {
		t.Errorf("the limits are not told: %q", denied)
	}
}

func TestClosingEndsTunnels(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	port := portOf(t, server)
	proxy, err := egress.Open(egress.Options{Dir: t.TempDir(), Resolve: here, Rules: []egress.Rule{{Host: "a.test", Ports: []int{port}, Internal: true}}})
	if err != nil {
		t.Fatal(err)
	}
	gate, err := proxy.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := dial(t.Context(), gate)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "CONNECT a.test:%d HTTP/1.1\r\nHost: a.test\r\n\r\n", port)
	reader := bufio.NewReader(conn)
	if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
		t.Fatalf("%q, %v", line, err)
	}
	if err := gate.Close(); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	if _, err := io.ReadAll(reader); err != nil && strings.Contains(err.Error(), "timeout") {
		t.Error("the tunnel is still open")
	}
}
