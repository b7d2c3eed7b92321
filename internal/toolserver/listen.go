package toolserver

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"lilac/internal/fault"
)

// readTime bounds how long a caller may take to say what it wants.
const readTime = 30 * time.Second

// Endpoint is where a server listens.
type Endpoint struct {
	// Socket is the Unix socket, which only our user may open.
	Socket   string
	listener net.Listener
	server   *http.Server
}

// Listen opens the socket in a private directory of the caller's, apart from
// the data, which commands must not see.
func Listen(ctx context.Context, dir string) (_ *Endpoint, err error) {
	e := &Endpoint{server: &http.Server{ReadTimeout: readTime}, Socket: filepath.Join(dir, "tools.sock")}
	defer func() {
		if err != nil {
			err = errors.Join(err, e.Close())
		}
	}()
	if e.listener, err = (&net.ListenConfig{}).Listen(ctx, "unix", e.Socket); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "The socket %s for tools cannot be listened on. Set XDG_RUNTIME_DIR to a directory of your own with a shorter path", e.Socket)
	}
	if err := os.Chmod(e.Socket, 0o600); err != nil {
		return nil, fmt.Errorf("restrict socket: %w", err)
	}
	return e, nil
}

// Serve answers until Close, and returns nil then.
func (e *Endpoint) Serve(h http.Handler, logger *slog.Logger) error {
	e.server.Handler = h
	e.server.ErrorLog = slog.NewLogLogger(logger.Handler(), slog.LevelDebug)
	if err := e.server.Serve(e.listener); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve tools: %w", err)
	}
	return nil
}

// Close ends every connection and removes the socket. It may be called twice.
func (e *Endpoint) Close() error {
	errs := []error{e.server.Close()}
	if e.listener != nil {
		if err := e.listener.Close(); !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
