package mcpclient

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"lilac/internal/agent/egress"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

// server supervises one server.
type server struct {
	o         *Options
	number    int
	name, key string
	config    ServerConfig
	log       *slog.Logger
	// dir is its private directory; only run uses it.
	dir string
	// settled is closed when the first start has succeeded or failed, or the entry is gone.
	settled    chan struct{}
	settleOnce sync.Once
	// cancel ends run; the mutex of Servers guards it.
	cancel  context.CancelFunc
	notices notices
	calls   chan struct{}

	mu       sync.Mutex
	state    State
	since    time.Time
	trouble  string
	restarts int
	// again ends the pause before the next start; nil before the first one.
	again func()
	// soon reports that the next start is near, so that a call waits for it.
	soon bool
	// live is the connection while the state is Ready, and last the last one that was: what it
	// offered stays listed while the server is restarted.
	live, last *connection
	// changed is closed when the state changes.
	changed chan struct{}
}

// maxCalls bounds the calls of one server at a time, so that a server that hangs leaves
// room for the calls of others.
const maxCalls = 8

func newServer(o *Options, number int, name, key string, config ServerConfig) *server {
	s := &server{
		o: o, number: number, name: name, key: key, config: config, log: o.Logger.With("mcp_server", name),
		settled: make(chan struct{}), changed: make(chan struct{}), state: Starting, since: time.Now(), calls: make(chan struct{}, maxCalls),
	}
	s.notices.wake = make(chan struct{}, 1)
	if config.Disabled {
		s.state = Disabled
	}
	return s
}

// stop ends run, and calls that wait for the first start.
func (s *server) stop() {
	s.settleOnce.Do(func() { close(s.settled) })
	if s.cancel != nil {
		s.cancel()
	}
}

// run keeps the server running until ctx ends.
func (s *server) run(ctx context.Context) {
	if s.config.Broken {
		s.fail(errBroken, maxPause)
		return
	}
	for failures := 0; ; {
		s.set(Starting, nil)
		lived, err := s.serve(ctx)
		if ctx.Err() != nil {
			s.set(Waiting, nil) // for the calls in ready
			return
		}
		if errors.Is(err, mcp.ErrSessionMissing) && lived >= s.o.limits.session {
			s.log.Info("an MCP server has forgotten the session; another one begins")
			continue
		}
		var pause time.Duration
		failures, pause = s.o.limits.backoff(failures, lived)
		s.fail(err, pause)
		if !s.rest(ctx, pause) {
			return
		}
	}
}

// errBroken is the reason of a server whose entry has a mistake.
var errBroken = fault.New(fault.Invalid, "its settings have a mistake, and lilac config check says which")

// rest waits until the next start. It returns false if ctx ended.
func (s *server) rest(ctx context.Context, pause time.Duration) bool {
	resting, stop := context.WithCancel(ctx)
	defer stop()
	s.mu.Lock()
	s.again = stop
	s.mu.Unlock()
	delay.Wait(resting, pause)
	return ctx.Err() == nil
}

func (s *server) set(state State, live *connection) {
	s.mu.Lock()
	s.state, s.since, s.live, s.soon = state, time.Now(), live, s.soon && state == Waiting
	close(s.changed)
	s.changed = make(chan struct{})
	if live != nil {
		s.last, s.trouble = live, live.offer.dropped
	}
	s.mu.Unlock()
	if state != Starting {
		s.settleOnce.Do(func() { close(s.settled) })
	}
}

func (s *server) fail(err error, pause time.Duration) {
	why := text.TruncateRunes(text.SingleLine(reason(err)), 500)
	s.log.Warn("an MCP server does not work", "reason", why, "next_start_ms", pause.Milliseconds())
	s.mu.Lock()
	s.restarts++
	s.trouble, s.soon = why, pause <= restartTime
	s.mu.Unlock()
	s.set(Waiting, nil)
}

// reason returns the text of an error for people.
func reason(err error) string {
	var known *fault.Error
	if errors.As(err, &known) {
		return known.Message
	}
	if err == nil {
		return "it ended the connection"
	}
	var request *url.Error
	if errors.As(err, &request) {
		return request.Err.Error() // its address may contain a key
	}
	return strings.ReplaceAll(err.Error(), markTransport+": ", "")
}

func (s *server) status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Status{
		Name: s.name, Key: s.key, Transport: s.config.transport(), State: s.state, Trouble: s.trouble, Restarts: s.restarts, Since: s.since.UnixMilli(),
	}
	if s.live != nil {
		out.Tools, out.Resources, out.Prompts = len(s.live.offer.Tools), s.live.offer.Resources, s.live.offer.Prompts
		out.Product, out.Protocol = s.live.product, s.live.protocol
		if s.live.older {
			out.Transport = transportSSE
		}
	}
	return out
}

func (s *server) offer() (Offer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last == nil {
		return Offer{}, false
	}
	return s.last.offer, true
}

// connection is a connection that works.
type connection struct {
	session           *mcp.ClientSession
	offer             Offer
	product, protocol string
	// older reports that an HTTP server has only the older transport.
	older    bool
	progress *progress
	askings  *askings
	// stop ends the connection with a cause.
	stop context.CancelCauseFunc
	// over is closed when the connection has ended, and why, which may be read then, is the reason.
	over chan struct{}
	why  string

	mu       sync.Mutex
	timeouts int
}

// errHung ends the connection of a server that hangs.
var errHung = fault.New(fault.Unavailable, "it did not answer %d calls in a row in time", maxTimeouts)

// serve starts the server, and returns when it has ended. lived is the time for which it was ready.
func (s *server) serve(ctx context.Context) (lived time.Duration, err error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	live := &connection{progress: &progress{}, askings: &askings{}, stop: stop, over: make(chan struct{})}
	defer func() { live.why = text.SingleLine(reason(err)); close(live.over) }()
	var transport, older mcp.Transport
	var started *process
	switch s.config.transport() {
	case transportStdio:
		if started, err = s.startProcess(ctx, stop); err != nil {
			return 0, err
		}
		transport = started
		if s.config.Events && s.o.Emit != nil {
			transport = emitting{started, s.emit}
		}
		defer func() { stop(nil); <-started.done }()
	default:
		var client *http.Client
		if client, transport, older, err = s.remote(ctx, stop); err != nil {
			return 0, err
		}
		defer client.CloseIdleConnections()
	}
	err = s.connect(ctx, transport, live)
	if older != nil && live.session == nil && mayBeOlder(err) {
		live.older = true
		if again := s.connect(ctx, older, live); again == nil || live.session != nil {
			err = again
		} else {
			err = fault.Wrap(fault.Unavailable, err, "there seems to be no MCP server at its url (%s; with type: sse, %s)", reason(err), reason(again))
		}
	}
	if err == nil {
		began := time.Now()
		s.set(Ready, live)
		s.log.Info("an MCP server is ready", "tools", len(live.offer.Tools), "product", live.product, "protocol", live.protocol)
		err = s.follow(ctx, live)
		lived = time.Since(began)
		s.set(Starting, nil)
	}
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	stop(nil)
	if live.session != nil {
		_ = live.session.Close() // it reports how the server reacted to the end
	}
	if started != nil {
		<-started.done
		if !errors.Is(err, errFlood) && !errors.Is(err, errHung) && !errors.Is(err, errSlow) && !errors.Is(err, context.Canceled) {
			err = fault.Wrap(fault.Unavailable, err, "%s", started.ended(err))
		}
		if advice := s.config.networkAdvice(started.denied(), errors.Is(err, errSlow)); lived == 0 && advice != "" && !errors.Is(err, context.Canceled) {
			wire := fault.ToWire(err)
			err = fault.Wrap(wire.Kind, err, "%s; %s", advice, wire.Message) // lists show the beginning
		}
	}
	return lived, err
}

// mayBeOlder reports whether an error is the answer of a server that knows only the older HTTP with SSE
// (MCP 2025-11-25, "Backwards Compatibility").
func mayBeOlder(err error) bool {
	if err == nil {
		return false
	}
	return slices.ContainsFunc([]int{http.StatusBadRequest, http.StatusNotFound, http.StatusMethodNotAllowed}, func(status int) bool {
		return strings.HasSuffix(err.Error(), http.StatusText(status))
	})
}

// remote returns the client and the transport for an HTTP server, and the older transport to try if there is a choice. ctx
// is that of the connection.
func (s *server) remote(ctx context.Context, stop context.CancelCauseFunc) (client *http.Client, transport, older mcp.Transport, err error) {
	endpoint, err := s.config.endpoint()
	if err != nil {
		return nil, nil, nil, err
	}
	headers := map[string]string{}
	for name, value := range s.config.Headers {
		headers[name] = value.Reveal()
	}
	flood := s.meter(stop)
	client = egress.NewService(egress.ServiceOptions{
		Origin: endpoint, Internal: s.config.Internal, Headers: headers, BodyBytes: int64(s.o.limits.message), Read: flood.add,
	})
	older = lasting{&mcp.SSEClientTransport{Endpoint: endpoint.String(), HTTPClient: client, MaxEventSize: s.o.limits.message}, ctx}
	if s.config.transport() == transportSSE {
		return client, older, nil, nil
	}
	checked := &http.Client{Transport: forgotten{client.Transport}, CheckRedirect: client.CheckRedirect}
	streamable := &mcp.StreamableClientTransport{Endpoint: endpoint.String(), HTTPClient: checked, MaxEventSize: s.o.limits.message}
	streamable.OAuthHandler = refusals{s.key}
	if s.o.Logins != nil && (s.config.OAuth != nil || !s.config.hasToken()) {
		d := discovery{endpoint, s.config.Internal}
		streamable.OAuthHandler = &loginHandler{name: s.key, config: s.config, logins: s.o.Logins, client: func(*url.URL) *http.Client { return d.client() }}
	}
	return client, streamable, older, nil
}

// lasting connects with the context of the connection: the stream of the old transport would end with the
// context of the start.
type lasting struct {
	mcp.Transport
	ctx context.Context
}

// Connect implements [mcp.Transport].
func (t lasting) Connect(context.Context) (mcp.Connection, error) { return t.Transport.Connect(t.ctx) }

// errSlow is the reason when a server does not start in time.
var errSlow = fault.New(fault.Timeout, "it did not start in time; startTimeout can give it longer")

// connect begins the session and lists what the server offers, in time.
func (s *server) connect(ctx context.Context, transport mcp.Transport, live *connection) error {
	ctx, cancel := context.WithTimeoutCause(ctx, s.config.startTime(), errSlow)
	defer cancel()
	err := s.begin(ctx, transport, live)
	if err != nil && errors.Is(context.Cause(ctx), errSlow) {
		return errSlow
	}
	return err
}

func (s *server) begin(ctx context.Context, transport mcp.Transport, live *connection) error {
	// A server that reads but does not answer must not keep the connection open.
	defer context.AfterFunc(ctx, func() {
		if errors.Is(context.Cause(ctx), errSlow) {
			live.stop(errSlow)
		}
	})()
	client := mcp.NewClient(&mcp.Implementation{Name: "lilac", Title: "Lilac", Version: cmp.Or(s.o.Version, "dev")}, &mcp.ClientOptions{
		// Without roots and sampling: a server must not ask for them.
		Capabilities: &mcp.ClientCapabilities{Elicitation: &mcp.ElicitationCapabilities{
			Form: &mcp.FormElicitationCapabilities{}, URL: &mcp.URLElicitationCapabilities{},
		}},
		ElicitationHandler:          live.askings.handle,
		ProgressNotificationHandler: live.progress.handle,
		ToolListChangedHandler:      func(context.Context, *mcp.ToolListChangedRequest) { s.notices.add(ToolsChanged, "") },
		PromptListChangedHandler:    func(context.Context, *mcp.PromptListChangedRequest) { s.notices.add(PromptsChanged, "") },
		ResourceListChangedHandler:  func(context.Context, *mcp.ResourceListChangedRequest) { s.notices.add(ResourcesChanged, "") },
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
			if r.Params != nil {
				s.notices.add(ResourceUpdated, r.Params.URI)
			}
		},
	})
	confirmed := confirmations(client, len(s.config.Watch))
	session, err := client.Connect(ctx, transport, nil)
	if err != nil {
		return fmt.Errorf("begin the session: %w", err)
	}
	live.session = session
	if got := session.InitializeResult(); got.ServerInfo != nil {
		live.product = text.TruncateRunes(text.SingleLine(got.ServerInfo.Name+" "+got.ServerInfo.Version), 100)
	}
	live.protocol = session.InitializeResult().ProtocolVersion
	if live.offer, err = list(ctx, s.name, session, s.config.DisabledTools); err != nil {
		return err
	}
	for _, uri := range s.config.Watch {
		if err := watch(ctx, session, uri, confirmed); err != nil {
			live.offer.dropped = fmt.Sprintf("the resource %s cannot be watched: %s", uri, reason(err))
		}
	}
	return nil
}

// follow handles the notifications of a connection until it ends.
func (s *server) follow(ctx context.Context, live *connection) error {
	ended := make(chan error, 1)
	go func() { ended <- live.session.Wait() }() // serve closes the session, which ends it
	pause := time.NewTimer(0)
	defer pause.Stop()
	<-pause.C
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-ended:
			return err
		case <-s.notices.wake:
		}
		// A server that announces changes all the time is asked once in a while.
		pause.Reset(s.o.limits.pause)
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case err := <-ended:
			return err
		case <-pause.C:
		}
		if err := s.refresh(ctx, live); err != nil {
			return err
		}
	}
}

// refresh lists the tools again if they have changed, and publishes the notices.
func (s *server) refresh(ctx context.Context, live *connection) error {
	for _, n := range s.notices.take() {
		n.Server = s.name
		if n.Kind == ToolsChanged {
			asking, cancel := context.WithTimeoutCause(ctx, s.config.startTime(), errSlow)
			offer, err := list(asking, s.name, live.session, s.config.DisabledTools)
			cancel()
			if err != nil {
				return err
			}
			s.mu.Lock()
			n.Added, n.Removed = difference(live.offer.Tools, offer.Tools)
			live.offer, s.trouble = offer, offer.dropped
			s.mu.Unlock()
		}
		if s.o.Publish == nil {
			continue
		}
		if err := s.o.Publish(ctx, n); err != nil && ctx.Err() == nil {
			s.log.Warn("cannot publish what an MCP server announced", "kind", n.Kind, "error", err)
		}
	}
	return nil
}

// isWire reports whether an error is the server's answer to a request.
func isWire(err error) (*jsonrpc.Error, bool) {
	var wire *jsonrpc.Error
	return wire, errors.As(err, &wire) && wire.Message != markTransport
}

// markTransport is the text of the error with which the SDK marks a failure of HTTP after which the session goes on: no
// connection, a connection that breaks off before the answer, 429, and 5xx.
const markTransport = "rejected by transport"
