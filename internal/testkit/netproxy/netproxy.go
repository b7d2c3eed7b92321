// Package netproxy is an HTTP proxy such as that of a company's network. It takes CONNECT and requests
// for http:// addresses (RFC 9110 sections 7.3 and 9.3.6), knows the addresses of names that nobody
// else knows, and remembers what it was asked for.
package netproxy

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"testing"
)

// Proxy is a running proxy. It is safe for concurrent use. The test that started it ends it.
type Proxy struct {
	// URL is the address for the variables HTTP_PROXY and HTTPS_PROXY, with the login.
	URL *url.URL

	server *httptest.Server

	mu    sync.Mutex
	hosts map[string]string // the address of each name, as host:port
	asked []string
}

const (
	user     = "lilac"
	password = "a-password-of-the-proxy"
)

// Start starts a proxy without names.
func Start(t testing.TB) *Proxy {
	t.Helper()
	p := &Proxy{hosts: map[string]string{}}
	p.server = httptest.NewServer(p)
	t.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})
	at, err := url.Parse(p.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	at.User = url.UserPassword(user, password)
	p.URL = at
	return p
}

// Know makes host:port lead to the address of a server.
func (p *Proxy) Know(hostport, address string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hosts[hostport] = address
}

// Asked reports whether somebody asked for host:port.
func (p *Proxy) Asked(hostport string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Contains(p.asked, hostport)
}

// address returns where a name leads, and remembers the question.
func (p *Proxy) address(hostport string) (address string, known bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, hostport)
	address, known = p.hosts[hostport]
	return address, known
}

// ServeHTTP implements [http.Handler].
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	login := http.Request{Header: http.Header{"Authorization": r.Header["Proxy-Authorization"]}}
	if name, word, _ := login.BasicAuth(); name != user || word != password {
		w.Header().Set("Proxy-Authenticate", `Basic realm="network"`)
		http.Error(w, "Who are you?", http.StatusProxyAuthRequired)
		return
	}
	target := r.Host
	if r.Method != http.MethodConnect && r.URL.Port() == "" {
		target = net.JoinHostPort(r.URL.Hostname(), "80")
	}
	address, known := p.address(target)
	switch {
	case !known:
		http.Error(w, "There is no such host.", http.StatusBadGateway)
	case r.Method == http.MethodConnect:
		connect(w, address)
	default:
		(&httputil.ReverseProxy{Rewrite: func(pr *httputil.ProxyRequest) { pr.Out.URL.Host = address }, FlushInterval: -1}).ServeHTTP(w, r)
	}
}

func connect(w http.ResponseWriter, address string) {
	there, err := net.Dial("tcp", address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer there.Close()
	here, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer here.Close()
	fmt.Fprint(here, "HTTP/1.1 200 Connection established\r\n\r\n")
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(there, buffered)
		_ = there.(*net.TCPConn).CloseWrite()
	})
	_, _ = io.Copy(here, there)
	_ = here.(*net.TCPConn).CloseWrite()
	both.Wait()
}
