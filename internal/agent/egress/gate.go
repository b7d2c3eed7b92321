package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

// Gate is the way out of one command.
type Gate struct {
	proxy  *Proxy
	log    *slog.Logger
	path   string
	ctx    context.Context
	cancel context.CancelFunc
	server *http.Server
	served chan struct{}
	// handlers are the requests that are answered now.
	handlers sync.WaitGroup

	mu     sync.Mutex
	closed bool
	open   int
	bytes  int64
	denied []string
}

// Open returns a gate that listens on its own socket until it is closed. log should
// carry the ids of the request.
func (p *Proxy) Open(ctx context.Context, log *slog.Logger) (*Gate, error) {
	path := p.socket()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
	if err != nil {
		return nil, fmt.Errorf("open gate: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("close gate to others: %w", err), listener.Close())
	}
	g := &Gate{proxy: p, log: log, path: path, served: make(chan struct{})}
	if g.log == nil {
		g.log = p.opts.Logger
	}
	g.ctx, g.cancel = context.WithCancel(context.WithoutCancel(ctx))
	g.server = &http.Server{
		Handler: g, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return g.ctx },
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
	}
	go func() {
		defer close(g.served)
		_ = g.server.Serve(&limitListener{listener, g})
	}()
	return g, nil
}

// Path returns the socket to show to the command.
func (g *Gate) Path() string { return g.path }

// Denied returns the refused targets, each once, as "host:port" or with the reason.
func (g *Gate) Denied() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.denied)
}

// Close ends every connection and waits for their goroutines.
func (g *Gate) Close() error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.cancel()
	err := g.server.Close()
	<-g.served
	g.handlers.Wait()
	if err != nil {
		return fmt.Errorf("close gate: %w", err)
	}
	return nil
}

// enter registers a request, unless the gate is closed.
func (g *Gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.handlers.Add(1)
	}
	return !g.closed
}

func (g *Gate) deny(what, reason string) {
	what = text.TruncateWith(what, maxDeniedName, "…")
	g.mu.Lock()
	known := slices.Contains(g.denied, what)
	if !known && len(g.denied) < maxDenied {
		g.denied = append(g.denied, what)
	}
	g.mu.Unlock()
	if !known {
		g.log.WarnContext(g.ctx, "network_denied", "target", what, "reason", reason)
	}
}

func (g *Gate) refuse(w http.ResponseWriter, what, reason string) {
	g.deny(what, reason)
	http.Error(w, "network: "+what+" is not allowed: "+reason, http.StatusForbidden)
}

// ServeHTTP answers a request of the command to its proxy.
func (g *Gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !g.enter() {
		return
	}
	defer g.handlers.Done()
	if r.Method == http.MethodConnect {
		g.connect(w, r)
		return
	}
	if !r.URL.IsAbs() || r.URL.Scheme != "http" {
		http.Error(w, "This is a proxy: it takes CONNECT and http:// requests.", http.StatusBadRequest)
		return
	}
	host, port, ok := target(r.URL.Host, httpPort)
	if !ok {
		http.Error(w, "The request names no host.", http.StatusBadRequest)
		return
	}
	rule, ok := match(g.proxy.opts.Rules, host, port)
	if !ok && port == httpPort {
		// A host with credentials that is open only for HTTPS accepts plain requests here.
		if rule, ok = match(g.proxy.opts.Rules, host, httpsPort); ok {
			ok = len(rule.Headers) > 0
		}
	}
	if !ok {
		g.refuse(w, net.JoinHostPort(host, strconv.Itoa(port)), "no rule lists it")
		return
	}
	if r.Method == http.MethodTrace && len(rule.Headers) > 0 {
		g.refuse(w, "TRACE to "+host, "its answer is the request, with the credential")
		return
	}
	g.forward(w, r, rule, host, port)
}

// forward sends a plain request on, as HTTPS when it carries a credential.
func (g *Gate) forward(w http.ResponseWriter, r *http.Request, rule Rule, host string, port int) {
	scheme := "http"
	if len(rule.Headers) > 0 {
		scheme = "https"
		if port == httpPort {
			port = httpsPort
		}
	}
	at := net.JoinHostPort(host, strconv.Itoa(port))
	upstream, err := g.proxy.upstream(r.Context(), rule, &url.URL{Scheme: scheme, Host: at})
	if err != nil {
		g.fail(w, at, err)
		return
	}
	transport := &http.Transport{
		Proxy: http.ProxyURL(upstream),
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if upstream != nil {
				return g.meter((&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, network, address))
			}
			return g.meter(g.proxy.dial(ctx, rule, host, port))
		},
		OnProxyConnectResponse: fault.ProxyAnswer,
		TLSClientConfig:        &tls.Config{RootCAs: g.proxy.opts.Roots}, TLSHandshakeTimeout: dialTimeout, DisableKeepAlives: true, DisableCompression: true,
		ResponseHeaderTimeout: idleTimeout, MaxResponseHeaderBytes: maxHeader,
	}
	(&httputil.ReverseProxy{
		Transport: transport,
		ErrorLog:  slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug),
		Rewrite: func(pr *httputil.ProxyRequest) {
			out := pr.Out
			out.URL = &url.URL{Scheme: scheme, Host: at, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
			// The host that was checked, whatever the command sends in Host.
			out.Host = strings.ToLower(r.URL.Host)
			out.Header.Del("Upgrade")
			out.Header.Del("Connection")
			for key, value := range rule.Headers {
				out.Header.Set(key, value)
			}
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) { g.fail(w, at, err) },
	}).ServeHTTP(w, r)
}

// fail answers a request whose host could not be reached.
func (g *Gate) fail(w http.ResponseWriter, at string, err error) {
	if errors.Is(err, errRefused) {
		g.refuse(w, at, errRefused.Error())
		return
	}
	if fault.KindOf(err) == fault.Denied {
		g.refuse(w, at, fault.ToWire(err).Message)
		return
	}
	http.Error(w, "network: "+err.Error(), http.StatusBadGateway)
}

// meter counts the bytes of a connection that was just opened.
func (g *Gate) meter(conn net.Conn, err error) (net.Conn, error) {
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(idleTimeout))
	return &metered{Conn: conn, gate: g}, nil
}

// connect opens a tunnel.
func (g *Gate) connect(w http.ResponseWriter, r *http.Request) {
	host, port, ok := target(r.Host, 0)
	if !ok {
		http.Error(w, "CONNECT needs host:port.", http.StatusBadRequest)
		return
	}
	at := net.JoinHostPort(host, strconv.Itoa(port))
	rule, ok := match(g.proxy.opts.Rules, host, port)
	if !ok {
		g.refuse(w, at, "no rule lists it")
		return
	}
	there, err := g.meter(g.proxy.tunnel(r.Context(), rule, host, port))
	if err != nil {
		g.fail(w, at, err)
		return
	}
	here, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		_ = there.Close()
		http.Error(w, "The connection cannot be taken over.", http.StatusInternalServerError)
		return
	}
	stop := context.AfterFunc(g.ctx, func() { closeBoth(here, there) })
	defer stop()
	if _, err := io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n"); err == nil {
		pipe(here, buffered, there)
	}
	closeBoth(here, there)
}

// pipe carries bytes both ways until both have ended.
func pipe(here net.Conn, buffered io.Reader, there net.Conn) {
	var both sync.WaitGroup
	carry := func(to net.Conn, from io.Reader) {
		_, _ = io.Copy(to, from)
		if half, ok := to.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
			return
		}
		closeBoth(here, there)
	}
	both.Go(func() { carry(there, buffered) })
	both.Go(func() { carry(here, there) })
	both.Wait()
}

func closeBoth(a, b net.Conn) {
	_ = a.Close()
	_ = b.Close()
}

// metered counts the bytes of a connection to a host.
type metered struct {
	net.Conn
	gate *Gate
}

var errSpent = errors.New("the command has used up what it may send and receive")

func (m *metered) spend(n int) error {
	_ = m.SetDeadline(time.Now().Add(idleTimeout))
	m.gate.mu.Lock()
	m.gate.bytes += int64(n)
	over := m.gate.bytes > m.gate.proxy.opts.Limits.Bytes
	m.gate.mu.Unlock()
	if over {
		m.gate.deny("more than "+strconv.FormatInt(m.gate.proxy.opts.Limits.Bytes, 10)+" bytes", "limit")
		_ = m.Close()
		return errSpent
	}
	return nil
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p)
	if spent := m.spend(n); spent != nil {
		return 0, spent
	}
	return n, err
}

func (m *metered) Write(p []byte) (int, error) {
	if err := m.spend(len(p)); err != nil {
		return 0, err
	}
	return m.Conn.Write(p)
}

// CloseWrite closes the sending direction only.
func (m *metered) CloseWrite() error {
	if half, ok := m.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return m.Close()
}

// limitListener drops connections above the limit.
type limitListener struct {
	net.Listener
	gate *Gate
}

func (l *limitListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		limit := l.gate.proxy.opts.Limits.Connections
		l.gate.mu.Lock()
		full := l.gate.open >= limit
		if !full {
			l.gate.open++
		}
		l.gate.mu.Unlock()
		if !full {
			return &counted{Conn: conn, gate: l.gate}, nil
		}
		l.gate.deny("more than "+strconv.Itoa(limit)+" connections at a time", "limit")
		_ = conn.Close()
	}
}

// counted is a connection of the command that counts as open until it is closed.
type counted struct {
	net.Conn
	gate *Gate
	once sync.Once
}

func (c *counted) Close() error {
	c.once.Do(func() {
		c.gate.mu.Lock()
		c.gate.open--
		c.gate.mu.Unlock()
	})
	return c.Conn.Close()
}

// CloseWrite closes the sending direction only.
func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(*net.UnixConn); ok {
		return half.CloseWrite()
	}
	return c.Close()
}
