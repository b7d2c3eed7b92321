package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"lilac/internal/agent/remote"
	"lilac/internal/app/observe"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/fault"
	"lilac/internal/serve/connlimit"
	"lilac/internal/serve/forward"
	"lilac/internal/serve/httpapi"
	"lilac/internal/store"
	"lilac/internal/telemetry/logs"
	"lilac/internal/telemetry/metrics"
	"lilac/internal/telemetry/notify"
)

// migrations are the changes of the tables that this version knows.
func (o *Options) migrations() []db.Migration {
	return slices.Concat(sqlitebus.Migrations, store.Migrations, o.Seams.NextVersion)
}

// runNode runs the program whenever this process owns the database on PostgreSQL, and waits
// as a standby while another process does. It returns nil after a graceful stop.
func runNode(ctx context.Context, o Options) (ended error) {
	if o.Secrets == nil {
		o.Secrets = &logs.Secrets{}
	}
	l, err := listenOn(ctx, o.Config.Addr)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	o.port = openPort(l)
	defer func() { ended = errors.Join(ended, o.port.close()) }()
	for {
		o.Secrets.Add(o.Config.Secrets()...)
		again, err := runTurn(ctx, o)
		if !again {
			return err
		}
		o.Logger.Error("this process has stopped its work and gives up the database; it waits until it may continue", "error", err)
		if o.Load == nil {
			continue
		}
		if fresh, _, err := o.Load(); err != nil {
			o.Logger.Error("the configuration cannot be read; the one of the start remains in force", "error", err)
		} else {
			o.Config = fresh
		}
	}
}

// runTurn waits for the ownership and runs the program until ctx ends or the ownership is
// lost. In the latter case, and if the database failed for a while, another turn may follow.
func runTurn(ctx context.Context, o Options) (again bool, err error) {
	lease, waited, err := awaitLease(ctx, o)
	if err != nil {
		return false, unlessStopped(ctx, err)
	}
	defer waited.end()
	owner, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-lease.Lost():
			end()
		case <-owner.Done():
		}
	}()
	o.lease = lease
	err = runOnce(owner, o)
	end()
	<-ended
	lost := lease.Err()
	if lost == nil && fault.ToWire(err).Code == db.CodeTakenOver {
		lost = err
	}
	passes := lost == nil && db.Passes(err)
	err = errors.Join(err, lease.Release())
	if passes { // the database was lost after the lease was taken, before the program was ready
		delay.Wait(ctx, turnPause)
	}
	if (lost != nil || passes) && ctx.Err() == nil {
		return true, errors.Join(lost, err)
	}
	return false, err
}

// turnPause is the time before another turn if the database failed during the start.
const turnPause = time.Second

// leaseLost reports whether another process may own the database now.
func (o *Options) leaseLost() bool { return o.lease != nil && o.lease.Err() != nil }

// standby is the process while it waits. It answers HTTP requests and, if it is one of several
// nodes, passes them on to the active node and runs commands for it.
type standby struct {
	*Options
	server *http.Server
	served chan struct{}
	left   chan struct{} // closed when no request is open anymore
	reason atomic.Pointer[string]
	// forwarder is nil if the other nodes do not reach this one.
	forwarder *forward.Forwarder
	name      atomic.Pointer[string] // that of this node; nil until it is known
	// streams ends the event streams that are passed on.
	streams    context.Context
	endStreams context.CancelFunc
	// worker runs commands; nil until the data directory is locked.
	worker atomic.Pointer[worker]
	// noWorker is the error of the first attempt to open the worker; there is no second one.
	noWorker error
}

const (
	anotherIsActive = "Another process is active; this one takes over when that one ends."
	// leaveLimit limits the time for open requests to finish if this process ends. If it becomes the
	// active one, they may wait until it is ready.
	leaveLimit = time.Second
)

func newStandby(o *Options) *standby {
	s := &standby{Options: o, served: make(chan struct{}), left: make(chan struct{})}
	s.streams, s.endStreams = context.WithCancel(context.Background())
	s.setReason("The database is being opened.")
	opt := httpapi.StandbyOptions{Version: o.Version, Reason: func() string { return *s.reason.Load() }}
	mux := http.NewServeMux()
	if token := o.Config.Token.Reveal(); token != "" {
		opt.Metrics, opt.Token, opt.MetricsToken = &metrics.Registry{}, token, o.Config.MetricsToken.Reveal()
		observe.DescribeProcess(opt.Metrics, observe.Program{Version: o.Version, Started: time.Now(), Waits: true, Commands: s.commands})
	}
	handler := httpapi.Standby(opt)
	if o.Config.Node.URL != "" {
		s.forwarder = forward.New(forward.Options{
			KeyHeader: remote.KeyHeader, Key: remote.Key(o.Config.Token.Reveal()), TrustedProxies: o.Config.Proxies(), Logger: o.Logger,
		})
		opt.Forward, opt.Ready = s.passOn(s.forwarder.Handler("")), s.forwarder.Ready
		mux.HandleFunc("/node/", s.serveNode)
		handler = refuseNodes(httpapi.Standby(opt), handler)
	}
	mux.Handle("/", handler)
	s.server = clientLimits{header: headerLimit, body: bodyLimit, idle: idleLimit}.server(mux)
	s.server.ErrorLog = slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug)
	go func() {
		defer close(s.served)
		_ = s.server.Serve(connlimit.Listener(o.port.share(), maxConnections())) // ends with close
	}()
	return s
}

// refuseNodes refuses the requests of other nodes, which take this one for the active node.
func refuseNodes(next, refuse http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get(remote.KeyHeader) != "" {
			w.Header().Set(forward.WaitsHeader, "1")
			refuse.ServeHTTP(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// passOn passes requests on. Event streams end when this node may become the active one.
func (s *standby) passOn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept"), "text/event-stream") || r.URL.Path == "/events" {
			ctx, cancel := context.WithCancel(r.Context())
			defer cancel()
			defer context.AfterFunc(s.streams, cancel)()
			r = r.WithContext(ctx)
		}
		next.ServeHTTP(w, r)
	})
}

// commands returns the number of commands that run here.
func (s *standby) commands() int {
	if w := s.worker.Load(); w != nil {
		return w.server.Running()
	}
	return 0
}

// serveNode serves the other nodes.
func (s *standby) serveNode(w http.ResponseWriter, r *http.Request) {
	at, name := s.worker.Load(), s.name.Load()
	switch {
	case at != nil && strings.HasPrefix(r.URL.Path, remote.Path):
		at.server.ServeHTTP(w, r)
	case name != nil && r.URL.Path == remote.NamePath && remote.HasKey(r, remote.Key(s.Config.Token.Reveal())):
		remote.WriteName(w, *name)
	default:
		http.Error(w, "This node does not run commands.", http.StatusServiceUnavailable)
	}
}

// around takes note of the active node.
func (s *standby) around(ctx context.Context, a db.Around) {
	if s.forwarder == nil {
		return
	}
	s.name.Store(&a.Name)
	s.forwarder.SetActive(a.ActiveURL)
	if !a.DirLocked || s.noWorker != nil || s.worker.Load() != nil {
		return
	}
	w, err := openWorker(ctx, s.Options, a.Name, s.forwarder.Handler(toolsPath))
	if s.noWorker = err; err != nil {
		s.Logger.Error("this node runs no commands for the active one", "error", err)
		return
	}
	s.worker.Store(w)
}

func (s *standby) setReason(reason string) { s.reason.Store(&reason) }

// leave ends the commands that run here and the event streams, and takes no more requests. If this
// process becomes the active one, it answers the requests that wait here. The caller must call end.
func (s *standby) leave(becomesActive bool) (err error) {
	s.endStreams()
	if w := s.worker.Swap(nil); w != nil {
		if err = w.close(); err != nil {
			err = fmt.Errorf("stop running commands: %w", err)
		}
	}
	limit := leaveLimit
	switch {
	case !becomesActive:
		s.port.stop()
	case s.forwarder != nil:
		s.forwarder.SetActive("http://" + s.port.listener.Addr().String())
		limit = forward.Patience
	}
	go func() {
		defer close(s.left)
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if s.server.Shutdown(ctx) != nil {
			_ = s.server.Close() // the connections of open requests end
		}
		<-s.served
	}()
	return err
}

// end refuses the requests that still wait, and returns when no request is open anymore.
func (s *standby) end() {
	if s.forwarder != nil {
		s.forwarder.Leave()
		defer s.forwarder.Close()
	}
	<-s.left
}

// awaitLease waits until this process owns the database, and answers requests meanwhile. If err is
// nil, the caller must call end of the standby, which may still have requests.
func awaitLease(ctx context.Context, o Options) (lease *db.Lease, s *standby, err error) {
	s = newStandby(&o)
	defer func() {
		err = errors.Join(err, s.leave(lease != nil))
		if err == nil {
			return
		}
		s.end()
		if lease != nil {
			err = errors.Join(err, lease.Release())
		}
	}()
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	alive := make(chan struct{})
	go func() {
		defer close(alive)
		o.keepAlive(waiting)
	}()
	lease, err = db.AwaitLease(ctx, db.LeaseOptions{
		Dir: o.Config.DataDir, URL: o.Config.Database.URL.Reveal(), Logger: o.Logger, Migrations: o.migrations(), Duration: o.Seams.Lease,
		Addr: o.Config.Addr, NodeURL: o.Config.Node.URL, Version: o.Version,
		Around: func(a db.Around) { s.around(waiting, a) },
		Waiting: func(reason error) {
			message := anotherIsActive
			if reason != nil {
				message = fault.ToWire(reason).Message
			}
			s.setReason(message)
			o.tell(notify.Ready, notify.Status("Standby: "+message))
		},
	})
	stop()
	<-alive
	return lease, s, err
}

// keepAlive sends keep-alive messages to the service manager while the process waits.
func (o *Options) keepAlive(ctx context.Context) {
	every := o.Manager.Watchdog()
	if every <= 0 {
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			o.tell(notify.Alive)
		}
	}
}
