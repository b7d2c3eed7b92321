package forward

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"path"
	"sync"
	"sync/atomic"
	"time"

	"lilac/internal/foundation/fault"
	"lilac/internal/serve/origin"
)

const (
	// Patience is the time that a request waits for an active node: longer than a takeover takes.
	Patience = 15 * time.Second
	// pause is the pause between two attempts to connect.
	pause = 100 * time.Millisecond
	// dialTime limits the time to connect, and probeTime the time for an answer about readiness.
	dialTime  = 2 * time.Second
	probeTime = 2 * time.Second
	// maxIdle bounds the unused connections to the active node.
	maxIdle = 64
	// maxRepeated bounds the body of a request that can be repeated, in bytes: it is kept in memory.
	maxRepeated = 256 << 10
)

// Options configure a [Forwarder]. Key and KeyHeader are required.
type Options struct {
	// KeyHeader and Key authenticate this node.
	KeyHeader, Key string
	// TrustedProxies are the proxies whose X-Forwarded-* headers count.
	TrustedProxies []netip.Prefix
	// Patience replaces 15 seconds.
	Patience time.Duration
	Logger   *slog.Logger
}

// Forwarder passes requests on to the active node. The caller must call Close.
type Forwarder struct {
	opt       Options
	transport *http.Transport
	// fresh is for requests that are not repeatable. It makes a connection for each: if the active
	// node closes an unused one just when a request is written to it, nobody knows whether the
	// request was handled. And it sends a body only when the active node asks for it.
	fresh *http.Transport

	mu     sync.Mutex
	active *url.URL // nil if it is not known

	leave func()        // closes left, once
	left  chan struct{} // closed when no active node is to come
}

// New returns a forwarder that does not know an active node yet.
func New(opt Options) *Forwarder {
	opt.Patience = cmp.Or(opt.Patience, Patience)
	opt.Logger = cmp.Or(opt.Logger, slog.New(slog.DiscardHandler))
	left := make(chan struct{})
	f := &Forwarder{opt: opt, left: left, leave: sync.OnceFunc(func() { close(left) }), transport: &http.Transport{
		DialContext:         (&net.Dialer{Timeout: dialTime}).DialContext,
		MaxIdleConnsPerHost: maxIdle, IdleConnTimeout: time.Minute, DisableCompression: true,
	}}
	f.fresh = f.transport.Clone()
	f.fresh.DisableKeepAlives, f.fresh.ExpectContinueTimeout = true, opt.Patience
	return f
}

// SetActive sets the address of the active node; "" means that it is not known.
func (f *Forwarder) SetActive(address string) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" {
		u = nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.active = u
}

// Active returns the address of the active node, or "".
func (f *Forwarder) Active() string {
	if u := f.target(); u != nil {
		return u.String()
	}
	return ""
}

func (f *Forwarder) target() *url.URL {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.active
}

// Leave refuses the requests that wait for an active node, now and later: this node ends.
func (f *Forwarder) Leave() { f.leave() }

// Close closes the unused connections.
func (f *Forwarder) Close() { f.transport.CloseIdleConnections() }

// Ready returns an error unless the active node answers that it is ready.
func (f *Forwarder) Ready(ctx context.Context) error {
	u := f.target()
	if u == nil {
		return fault.New(fault.Unavailable, "No active node is known.")
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.JoinPath("/readyz").String(), nil)
	if err != nil {
		return err
	}
	req.Header.Set(f.opt.KeyHeader, f.opt.Key)
	res, err := f.transport.RoundTrip(req)
	if err != nil {
		return fault.Wrap(fault.Unavailable, err, "The active node does not answer at %s.", u)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10))
	switch {
	case res.Header.Get(WaitsHeader) != "":
		return fault.New(fault.Unavailable, "At the address of the active node, %s, a node answers that waits, too. If this lasts, the LILAC_NODE_URL of the active node is not its own address.", u)
	case res.StatusCode != http.StatusOK:
		return fault.New(fault.Unavailable, "The active node at %s is not ready.", u)
	}
	return nil
}

// Handler passes requests on, with their paths below prefix.
func (f *Forwarder) Handler(prefix string) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(p *httputil.ProxyRequest) {
			in := origin.Resolve(p.In, f.opt.TrustedProxies)
			for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"} {
				p.Out.Header.Del(name)
			}
			if origin.Secure(in) {
				p.Out.Header.Set("X-Forwarded-Proto", "https")
			}
			p.Out.Host = in.Host
			p.Out.Header.Set(f.opt.KeyHeader, f.opt.Key)
			if prefix != "" {
				p.Out.URL.Path, p.Out.URL.RawPath = path.Join(prefix, p.Out.URL.Path), ""
			}
		},
		Transport:     f,
		FlushInterval: -1,
		ErrorHandler:  f.fail,
		ErrorLog:      slog.NewLogLogger(f.opt.Logger.Handler(), slog.LevelDebug),
	}
}

// RoundTrip implements [http.RoundTripper] for the handler, which closes the body of the request.
// It waits until there is an active node.
func (f *Forwarder) RoundTrip(req *http.Request) (*http.Response, error) {
	body, repeatable := req.Body, isRepeatable(req)
	transport := f.fresh
	if repeatable {
		transport = f.transport
	}
	var kept []byte
	if repeatable && body != nil {
		var err error
		if kept, err = io.ReadAll(io.LimitReader(body, maxRepeated)); err != nil {
			return nil, fmt.Errorf("read the request: %w", err)
		}
	}
	for until := time.Now().Add(f.opt.Patience); ; {
		u := f.target()
		err := error(errNoActive)
		if u != nil {
			out := req.Clone(req.Context())
			out.URL.Scheme, out.URL.Host = u.Scheme, u.Host
			wanted := &bodyOnRequest{Reader: body}
			switch {
			case repeatable && len(kept) > 0:
				out.Body = io.NopCloser(bytes.NewReader(kept))
			case repeatable:
				out.Body = http.NoBody
			case body != nil && body != http.NoBody:
				out.Body = wanted
				out.Header.Set("Expect", "100-continue")
			}
			var res *http.Response
			res, err = transport.RoundTrip(out)
			switch taken := wanted.read.Load(); {
			case err == nil && (res.Header.Get(WaitsHeader) == "" || taken):
				return res, nil
			case err == nil:
				err = errors.Join(errWaits, res.Body.Close())
			case out.Body == wanted && !taken:
				err = fmt.Errorf("%w: %w", errNotAsked, err)
			}
		}
		if !notHandled(err) && !repeatable || time.Now().After(until) {
			return nil, err
		}
		select {
		case <-req.Context().Done():
			return nil, context.Cause(req.Context())
		case <-f.left:
			return nil, err
		case <-time.After(pause):
		}
	}
}

// isRepeatable reports whether a request has no further effect if the active node gets it twice: it
// only reads, or has a key by which the active node recognizes it. Its body must be small.
func isRepeatable(req *http.Request) bool {
	if req.ContentLength < 0 || req.ContentLength > maxRepeated {
		return false
	}
	return req.Method == http.MethodGet || req.Method == http.MethodHead || req.Header.Get("Idempotency-Key") != ""
}

// WaitsHeader is a header of the responses with which a waiting node refuses the requests of other
// nodes, for example while it becomes the active one. Such a request was not handled.
const WaitsHeader = "Lilac-Waits"

var (
	errNoActive = errors.New("no active node is known")
	errWaits    = errors.New("at the address of the active node, a node answers that waits, too")
	errNotAsked = errors.New("the active node has not asked for the body")
)

// bodyOnRequest is a body that is sent only when the active node asks for it. A failed attempt does
// not close it.
type bodyOnRequest struct {
	io.Reader
	read atomic.Bool
}

// Read implements [io.Reader].
func (b *bodyOnRequest) Read(p []byte) (int, error) {
	b.read.Store(true)
	return b.Reader.Read(p)
}

// Close implements [io.Closer].
func (*bodyOnRequest) Close() error { return nil }

// AskForBody asks for the body of a request that another node has passed on. The active node calls it
// before it does anything: until then, the other node may send the request again.
func AskForBody(r *http.Request) {
	if r.Header.Get("Expect") == "" {
		return
	}
	body := bufio.NewReader(r.Body)
	_, _ = body.Peek(1) // the handler gets the error
	r.Body = struct {
		io.Reader
		io.Closer
	}{body, r.Body}
}

// notHandled reports whether a request has certainly not been handled.
func notHandled(err error) bool {
	var op *net.OpError
	return errors.Is(err, errNoActive) || errors.Is(err, errWaits) || errors.Is(err, errNotAsked) || errors.As(err, &op) && op.Op == "dial"
}

// fail answers a request that could not be passed on.
func (f *Forwarder) fail(w http.ResponseWriter, r *http.Request, err error) {
	wire := fault.Wire{
		Kind: fault.Unavailable, Code: "active_node_lost", Retryable: true,
		Message: "The active node was lost while it handled this request, so that the outcome is not known. Send it again with the same Idempotency-Key; without one, look first what happened.",
	}
	if notHandled(err) {
		wire.Code, wire.Message = "standby", "No active node could be reached. The request was not handled; send it again."
	}
	f.opt.Logger.Warn("a request could not be passed on", "method", r.Method, "path", r.URL.Path, "code", wire.Code, "error", err)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Retry-After", "1")
	w.WriteHeader(fault.Unavailable.HTTPStatus())
	if err := json.NewEncoder(w).Encode(map[string]fault.Wire{"error": wire}); err != nil {
		f.opt.Logger.Debug("the client is gone", "error", fmt.Errorf("write an answer: %w", err))
	}
}
