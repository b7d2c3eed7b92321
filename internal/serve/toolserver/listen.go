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
	// readTime limits the time that a caller takes to send a request.
	readTime = 30 * time.Second
	// maxConnections is well above maxTogether.
	maxConnections = 256
)

// Endpoint holds the listeners of a server.
type Endpoint struct {
	// Socket is the path of the Unix socket, which only the same user may open.
	Socket string
	// Addr is the loopback address, or "".
	Addr      string
	listeners []net.Listener
	server    *http.Server
}

// Loopback reports whether an address host:port can be reached only from this machine.
func Loopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.Zone() == "" && ip.Unmap().IsLoopback()
}

// Listen opens a Unix socket in dir and, unless addr is empty, a loopback address. It
// refuses other addresses. dir must be private, and must not be the data directory,
// which commands must not see.
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
		return nil, fault.Wrap(fault.Unavailable, err, "Cannot listen on the socket %s for tools. Set XDG_RUNTIME_DIR to a directory of your own with a shorter path", e.Socket)
	}
	if err := os.Chmod(e.Socket, 0o600); err != nil {
		return nil, fmt.Errorf("restrict socket: %w", err)
	}
	if addr == "" {
		return e, nil
	}
	if err := e.listen(ctx, "tcp", addr); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "Cannot listen on the address %s for tools. Choose another address in tools.addr", addr)
	}
	bound := e.listeners[1].Addr()
	if e.Addr = bound.String(); !Loopback(e.Addr) { // a name may resolve to any address
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

// Serve serves requests until Close is called, and then returns nil.
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
