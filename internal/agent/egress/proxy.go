package egress

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Options configure a [Proxy].
type Options struct {
	// Rules list the hosts that commands may reach; without rules, none.
	Rules  []Rule
	Limits Limits
	Logger *slog.Logger
	// Dir is a private directory of the caller's for the sockets.
	Dir string
	// Resolve looks up a name; nil means the system's resolver.
	Resolve func(ctx context.Context, host string) ([]netip.Addr, error)
	// Roots are the authorities that HTTPS hosts must be signed by; nil means the system's.
	Roots *x509.CertPool
	// Upstream finds the proxy of the network; nil means that of the environment.
	Upstream Upstream
}

// Limits bound one gate, and so one command. A zero field means its default.
type Limits struct {
	// Connections is how many may be open at a time.
	Connections int
	// Bytes is the total in both directions.
	Bytes int64
}

// The defaults.
const (
	DefaultConnections = 64
	DefaultBytes       = 1 << 30
)

const (
	// dialTimeout limits the name lookup and the connection.
	dialTimeout = 15 * time.Second
	// idleTimeout ends an idle connection.
	idleTimeout = 5 * time.Minute
	// headerTimeout limits the time that a command takes to send a request header.
	headerTimeout = 10 * time.Second
	// maxHeader bounds that header, in bytes.
	maxHeader = 64 << 10
	// maxDenied bounds the refused targets that are kept for the model, and
	// maxDeniedName the bytes of each: a host name has no more.
	maxDenied     = 16
	maxDeniedName = 255
)

// Proxy opens a gate for each command.
type Proxy struct {
	opts Options
	mu   sync.Mutex
	// number counts the gates, for the names of their sockets.
	number int
}

// Open returns a proxy. It fails if a rule is invalid.
func Open(opts Options) (*Proxy, error) {
	for i, rule := range opts.Rules {
		if err := rule.Validate(); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i, err)
		}
	}
	if opts.Limits.Connections <= 0 {
		opts.Limits.Connections = DefaultConnections
	}
	if opts.Limits.Bytes <= 0 {
		opts.Limits.Bytes = DefaultBytes
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Resolve == nil {
		opts.Resolve = resolve
	}
	if opts.Upstream == nil {
		opts.Upstream = http.ProxyFromEnvironment
	}
	return &Proxy{opts: opts}, nil
}

// Rules returns the rules of the proxy.
func (p *Proxy) Rules() []Rule { return p.opts.Rules }

func (p *Proxy) socket() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.number++
	return filepath.Join(p.opts.Dir, "egress-"+strconv.Itoa(p.number)+".sock")
}

// errRefused is an address that must not be connected to.
var errRefused = errors.New("the address is not on the public internet")

// upstream returns the proxy of the network for a host that a rule allows, or nil.
func (p *Proxy) upstream(ctx context.Context, rule Rule, u *url.URL) (*url.URL, error) {
	return p.opts.Upstream.find(ctx, u, listing{exact: !strings.HasPrefix(rule.Host, "*"), internal: rule.Internal}, p.opts.Resolve)
}

// tunnel connects to a host that a rule allows, also through the proxy of the network.
func (p *Proxy) tunnel(ctx context.Context, rule Rule, host string, port int) (net.Conn, error) {
	target := net.JoinHostPort(host, strconv.Itoa(port))
	at, err := p.upstream(ctx, rule, &url.URL{Scheme: "https", Host: target})
	switch {
	case err != nil:
		return nil, err
	case at != nil:
		return tunnel(ctx, at, target, p.opts.Roots)
	}
	return p.dial(ctx, rule, host, port)
}

// dial connects to a host that a rule allows.
func (p *Proxy) dial(ctx context.Context, rule Rule, host string, port int) (net.Conn, error) {
	dialer := net.Dialer{Control: func(_, address string, _ syscall.RawConn) error { return check(rule, address) }}
	return connect(ctx, host, strconv.Itoa(port), p.opts.Resolve, func(ctx context.Context, address netip.AddrPort) (net.Conn, error) {
		return dialer.DialContext(ctx, "tcp", address.String())
	})
}

// check refuses an address that the dialer is about to connect to, unless it is public.
func check(rule Rule, address string) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil || !rule.Internal && !Public(at.Addr()) {
		return errRefused
	}
	return nil
}
