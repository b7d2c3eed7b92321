package toolserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"lilac/internal/foundation/fault"
	"lilac/internal/serve/connlimit"
)

const (
	// readTime bounds how long a caller may take to say what it wants.
	readTime = 30 * time.Second
	// maxConnections is well above the calls that run at once.
	maxConnections = 256
)

// Endpoint is where a server listens.
type Endpoint struct {
	// Socket is the Unix socket, which only our user may open.
	Socket string
	// Addr is the loopback address, or "".
	Addr      string
	listeners []net.Listener
	server    *http.Server
}

// Loopback reports whether an address host:port names this machine alone.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Zone() == "" && ip.Unmap().IsLoopback()
}

// Listen opens the socket in a private directory of the caller's, apart from
// the data, which commands must not see, and a loopback address unless addr is
// empty. Any other address is refused.
func Listen(ctx context.Context, dir, addr string) (_ *Endpoint, err error) {
	e := &Endpoint{server: &http.Server{ReadTimeout: readTime}, Socket: filepath.Join(dir, "tools.sock")}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	if addr != "" && !Loopback(addr) {
		return nil, fault.InvalidField("tools.addr", "The tool server listens on loopback only, such as 127.0.0.1:7421, not on %q.", addr)
	}
	if err := e.listen(ctx, "unix", e.Socket); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "The socket %s for tools cannot be listened on. Set XDG_RUNTIME_DIR to a directory of your own with a shorter path", e.Socket)
	}
	if err := os.Chmod(e.Socket, 0o600); err != nil {
		return nil, fmt.Errorf("restrict socket: %w", err)
	}
	if addr == "" {
		return e, nil
	}
	if err := e.listen(ctx, "tcp", addr); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "The address %s for tools cannot be listened on. Choose another in tools.addr", addr)
	}
	bound := e.listeners[1].Addr()
	if e.Addr = bound.String(); !Loopback(e.Addr) { // whatever a name was resolved to
		return nil, fault.InvalidField("tools.addr", "%q is the address %s, which others can reach.", addr, bound)
	}
	return e, nil
}

func (e *Endpoint) listen(ctx context.Context, network, addr string) error {
	l, err := (&net.ListenConfig{}).Listen(ctx, network, addr)
	if err == nil {
		e.listeners = append(e.listeners, l)
	}
	return err
}

// Serve answers until Close, and returns nil then.
func (e *Endpoint) Serve(h http.Handler, logger *slog.Logger) error {
	e.server.Handler = h
	e.server.ErrorLog = slog.NewLogLogger(logger.Handler(), slog.LevelDebug)
	var serving errgroup.Group
	for _, l := range e.listeners {
		serving.Go(func() error {
			if err := e.server.Serve(connlimit.Listener(l, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
				return errors.Join(fmt.Errorf("serve tools: %w", err), e.server.Close())
			}
			return nil
		})
	}
	return serving.Wait()
}

// Close ends every connection and removes the socket. It may be called twice.
func (e *Endpoint) Close() error {
	errs := []error{e.server.Close()}
	for _, l := range e.listeners {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
