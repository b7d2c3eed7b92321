package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"lilac/internal/agent/remote"
	"lilac/internal/core/account"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/osfile"
	"lilac/internal/serve/connlimit"
	"lilac/internal/serve/forward"
	"lilac/internal/serve/httpapi"
	"lilac/internal/serve/oidclogin"
	"lilac/internal/serve/webui"
	"lilac/internal/store"
	"lilac/internal/surfaces/discord"
)

const (
	// stopLimit limits the time for open requests to finish at shutdown. Event streams end
	// immediately.
	stopLimit = 3 * time.Second
	// portPatience limits the wait at startup for a port that is in use. If Lilac is killed
	// while it forks a command, the child holds the port for a moment.
	portPatience = 2 * time.Second
	portPause    = 20 * time.Millisecond
	// headerLimit limits the time to receive a request's header, bodyLimit the time to
	// receive the whole request (enough for the largest prompt with files at 0.75 Mbit/s),
	// and idleLimit the idle time between two requests. The response, which may be a stream,
	// may take as long as the client keeps reading ([connlimit]).
	headerLimit = 10 * time.Second
	bodyLimit   = 5 * time.Minute
	idleLimit   = 2 * time.Minute
	// headerBytes is the maximum size of a request's header. It is larger than the longest
	// cursor of an event stream.
	headerBytes = 128 << 10
	// mostConnections is the maximum number of connections. It is higher than the limit on
	// event streams.
	mostConnections = 8192
)

// webServer serves the API and the page.
type webServer struct {
	*base
	health   *monitoring
	logins   *httpapi.Logins
	accounts *account.Service
	hosts    *httpapi.Hosts
	token    string
	listener net.Listener
	server   *http.Server
	// served receives the end of the server.
	served chan error
	// stopping ends the event streams, which do not end on their own.
	stopping context.CancelFunc
}

func newWebServer(b *base, health *monitoring) *webServer {
	return &webServer{
		base: b, health: health, logins: httpapi.NewLogins(time.Now), hosts: httpapi.NewHosts(b.Config.AllowedHosts),
		served: make(chan error, 1),
	}
}

// listen listens on the configured address.
func (w *webServer) listen(ctx context.Context) (err error) {
	if w.port != nil {
		w.listener = w.port.share()
		return nil
	}
	w.listener, err = listenOn(ctx, w.Config.Addr)
	return err
}

func listenOn(ctx context.Context, addr string) (net.Listener, error) {
	l, err := listen(ctx, addr)
	if err != nil {
		return nil, listenFault(addr, err)
	}
	return l, nil
}

func listenFault(addr string, err error) error {
	advice := "Choose another address with --addr."
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		advice = "If Lilac is already running there, use it (lilac login prints a link to its page); otherwise, choose another address with --addr."
	case errors.Is(err, syscall.EACCES):
		advice = "Ports below 1024 require a privilege. Choose a higher port with --addr."
	}
	return fault.Wrap(fault.Unavailable, err, "Lilac cannot listen on %s. %s", addr, advice)
}

// readToken gets the operator's token, and makes sure that it is not logged.
func (w *webServer) readToken() (err error) {
	w.token, err = operatorToken(w.Config)
	w.Secrets.Add(w.token)
	return err
}

// openAccounts finds out whether there are people with accounts.
func (w *webServer) openAccounts(ctx context.Context) error {
	w.accounts = account.New(account.Options{DB: w.db, Tables: store.AccountTables(), Payer: store.Tasks{}.PayerOf})
	return w.accounts.Load(ctx)
}

// oidc returns the provider with which people can sign in, or nil.
func (w *webServer) oidc() httpapi.OIDC {
	c := w.Config.Accounts.OIDC
	if !c.On() {
		return nil
	}
	w.accounts.Start()
	return oidclogin.New(oidclogin.Options{
		Name: c.Name, Issuer: c.Issuer, ClientID: c.ClientID, ClientSecret: c.ClientSecret.Reveal(),
		Emails: c.Allow.Emails, Domains: c.Allow.Domains, Groups: c.Allow.Groups, Role: account.Role(c.Role),
		Operators: c.Operators, GroupsClaim: c.GroupsClaim, Stay: time.Duration(c.Stay),
	})
}

// build creates the HTTP server, without starting it.
func (w *webServer) build() {
	stopping, stop := context.WithCancel(context.Background())
	w.stopping = stop
	w.server = clientLimits{header: headerLimit, body: bodyLimit, idle: idleLimit}.server(w.besideNodes(w.Seams.HTTP.around(httpapi.New(httpapi.Options{
		DB: w.db, Bus: w.bus, Blobs: w.blobs,
		Tables:    &httpapi.Tables{Inbox: w.store.Inbox, Sessions: w.store.Sessions, Questions: store.Tasks{}, Branches: store.Branches{}, Accepted: store.AcceptedMessages{}, History: w.store.History, Requests: w.store.Requests, Files: w.store.Files, Seen: store.Seen{}},
		FileBytes: int64(w.Config.Attachments.MaxBytes), TotalBytes: int64(w.Config.Attachments.MaxTotal),
		Token: w.token, Hosts: w.hosts, TrustedProxies: w.Config.Proxies(), Addr: w.listener.Addr().String(),
		Logins: w.logins, Page: webui.Handler(), Version: w.Version,
		Health: w.health.report, Metrics: w.health.registry, MetricsToken: w.Config.MetricsToken.Reveal(), Trace: w.observer.HTTP,
		Models: models{w.base}, Setup: w.setup(), Settings: w.settings,
		Rules: &httpapi.Rules{InForce: w.env.Rules, Records: w.store.RuleRuns, SourceTools: w.sourceTools, Place: w.namedPlaceGrant},
		Tasks: w.tasks, Workflows: w.workflows,
		Operators: w.callables.operators,
		Approvals: w.runner.Approvals(),
		Accounts:  w.accounts, OIDC: w.oidc(), PublicURL: strings.TrimSuffix(w.Config.Accounts.URL, "/"),
		Pairings:  w.pairings(),
		MCP:       w.mcp.Status,
		RetryMCP:  w.mcp.Retry,
		MCPServer: w.callables.overMCP(),
		OpenAI:    w.openAI(stopping),
		Origins: func(path string) []string {
			if path == "/mcp" {
				return w.now.Load().config.MCP.Origins
			}
			return w.now.Load().config.V1.Origins
		},
		Sources: w.sources.http(), Stopping: stopping, Platforms: []string{discord.Platform},
		Logger: w.Logger, Now: time.Now, Nodes: w.nodes(), FromNode: w.fromNode(),
	}))))
	w.server.ErrorLog = slog.NewLogLogger(w.Logger.Handler(), slog.LevelDebug)
}

// nodes returns what lists the processes that use the database; nil for an SQLite file, which has
// only this one.
func (w *webServer) nodes() func(ctx context.Context) ([]db.Node, error) {
	if !w.Config.Database.URL.Postgres() {
		return nil
	}
	return func(ctx context.Context) (out []db.Node, err error) {
		err = w.db.Read(ctx, func(q db.Queryer) (err error) {
			out, err = db.Nodes(q)
			return err
		})
		if w.remote != nil {
			for i := range out {
				out[i].Trouble = w.remote.Trouble(out[i].Name)
			}
		}
		return out, err
	}
}

// fromNode returns what recognizes requests that a waiting node passes on; nil without nodes.
func (w *webServer) fromNode() func(r *http.Request) bool {
	if w.remote == nil {
		return nil
	}
	key := remote.Key(w.token)
	return func(r *http.Request) bool { return remote.HasKey(r, key) }
}

// besideNodes also serves the other nodes, and the calls of commands that run there.
func (w *webServer) besideNodes(next http.Handler) http.Handler {
	fromNode := w.fromNode()
	if fromNode == nil {
		return next
	}
	calls := http.StripPrefix(toolsPath, w.callables.server.Handler())
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !fromNode(r) {
			next.ServeHTTP(rw, r)
			return
		}
		forward.AskForBody(r)
		switch {
		case r.URL.Path == remote.NamePath:
			remote.WriteName(rw, w.lease.Node())
		case strings.HasPrefix(r.URL.Path, toolsPath+"/"):
			calls.ServeHTTP(rw, r)
		default:
			next.ServeHTTP(rw, r)
		}
	})
}

// pairings returns the pairings of the platform that has them; nil without one.
func (w *webServer) pairings() httpapi.Pairings {
	for _, p := range w.platforms {
		if p.pairing != nil {
			return p.pairing
		}
	}
	return nil
}

// start serves in the background, and returns the server's address.
func (w *webServer) start() (addr string) {
	go func() { w.served <- w.server.Serve(connlimit.Listener(w.listener, maxConnections())) }()
	return w.listener.Addr().String()
}

// stop rejects new requests, ends the event streams, and lets open requests finish.
func (w *webServer) stop() error {
	w.health.monitor.Stopping()
	w.stopping()
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	err := w.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = w.server.Close()
	}
	<-w.served
	if err != nil {
		return fmt.Errorf("stop HTTP: %w", err)
	}
	return nil
}

// close closes the port, which a server that has stopped has already done.
func (w *webServer) close() error {
	if w.listener == nil {
		return nil
	}
	if err := w.listener.Close(); err != nil && !strings.Contains(err.Error(), "closed") {
		return err
	}
	return nil
}

// listen listens on an address, and waits up to portPatience for an address in use.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	for until := time.Now().Add(portPatience); ; {
		l, err := net.Listen("tcp", addr)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(until) {
			return l, err
		}
		if !delay.Wait(ctx, portPause) {
			return nil, context.Cause(ctx)
		}
	}
}

// clientLimits limit how long a client, even without a token, can occupy a connection: until
// the header, the whole request, and the next request arrive.
type clientLimits struct{ header, body, idle time.Duration }

func (l clientLimits) server(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: l.header, ReadTimeout: l.body, IdleTimeout: l.idle, MaxHeaderBytes: headerBytes}
}

// maxConnections returns the maximum number of connections. It leaves half of the process's
// file descriptors to the database, commands and platforms.
func maxConnections() int {
	files, limited := osfile.MaxOpen()
	if !limited {
		return mostConnections
	}
	return int(min(files/2, mostConnections))
}
