package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"

	"lilac/internal/agent/builtin"
	"lilac/internal/agent/rundir"
	"lilac/internal/agent/sandbox"
	"lilac/internal/agent/tool"
	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/delivery"
	"lilac/internal/engine/redisbus"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
	"lilac/internal/operate/config"
	"lilac/internal/serve/connlimit"
	"lilac/internal/serve/httpapi"
	"lilac/internal/serve/toolserver"
	"lilac/internal/store"
	"lilac/internal/telemetry/logs"
	"lilac/internal/telemetry/notify"
	"lilac/internal/telemetry/tracing"
)

const (
	// stopLimit limits the time for open requests to finish at shutdown. Event streams end
	// immediately.
	stopLimit = 3 * time.Second
	// portPatience is how long the start waits for a port that is in use. If Lilac is killed
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

// Options configure the program.
type Options struct {
	Config *config.Config
	// Stdout receives one line with the URL of the web page.
	Stdout  io.Writer
	Logger  *slog.Logger
	Version string

	// Load reads the configuration for a reload; nil disables reloads. A signal on Reload and
	// a change of the watched file trigger one.
	Load   func() (*config.Config, []config.Warning, error)
	Reload <-chan os.Signal
	// Level is the level of the logger, which a reload of log.level changes. Secrets holds
	// the values that the logger redacts. Both may be nil.
	Level   *slog.LevelVar
	Secrets *logs.Secrets
	// LostLogLines returns the number of log lines that could not be written; nil means that
	// none were lost.
	LostLogLines func() int64
	// Tracer exports spans. If it is nil, none are exported.
	Tracer *tracing.Tracer
	// Manager is the service manager that receives the state of the program (sd_notify).
	Manager notify.Manager
	// Seams are empty except in tests of the real program.
	Seams Seams
}

// Run runs the whole program until ctx ends or a component fails. It returns nil after a
// graceful stop, even if the stop came during the start.
func Run(ctx context.Context, o Options) (err error) {
	p, err := build(ctx, o)
	if err != nil {
		return unlessStopped(ctx, err)
	}
	defer func() { err = errors.Join(err, p.close()) }()
	return p.run(ctx)
}

// unlessStopped returns the error of a failed start, or nil if the only reason is that ctx
// ended.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// program holds all components.
type program struct {
	Options
	db  *db.DB
	bus bus.Bus
	// busChanges counts how often the program switched to another bus.
	busChanges int64
	store      *store.Store
	blobs      *store.Blobs
	env        *environment.Service
	// box is the sandbox for commands.
	box *sandbox.Opening
	// sockets is the directory with the sockets of the tool server and the proxy.
	sockets *rundir.Dir
	// callables is the tool server for commands. Its close method must be called.
	callables *toolService
	// operators holds the tokens with which people call the callables.
	operators *toolserver.Operators
	runner    *session.Service
	workflows *workflow.Service
	tasks     *task.Service
	// platforms holds the chat platforms.
	platforms []*platform
	logins    *httpapi.Logins
	token     string
	listener  net.Listener
	server    *http.Server
	// stopping ends the event streams, which do not end on their own.
	stopping context.CancelFunc

	sources sources

	operations
}

func build(ctx context.Context, o Options) (_ *program, err error) {
	if o.Secrets == nil {
		o.Secrets = &logs.Secrets{}
	}
	o.Secrets.Add(o.Config.Secrets()...)
	p := &program{Options: o, logins: httpapi.NewLogins(time.Now)}
	p.buildOperations()
	p.box = sandbox.Start(ctx, sandbox.Mode(o.Config.Sandbox.Mode))
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if err := p.choose(o.Config); err != nil {
		return nil, err
	}
	// Listen first: a second server on the same port is the most common mistake, and must
	// fail before anything is changed.
	if p.listener, err = listen(ctx, o.Config.Addr); err != nil {
		return nil, fault.Wrap(fault.Unavailable, err, "The address %s cannot be listened on. If Lilac runs there already, use it; else choose another with --addr.", o.Config.Addr)
	}
	if err := p.openStore(ctx); err != nil {
		return nil, err
	}
	if p.token, err = operatorToken(o.Config); err != nil {
		return nil, err
	}
	o.Secrets.Add(p.token)
	if p.blobs, err = openBlobs(o.Config); err != nil {
		return nil, err
	}
	p.buildWorkflows()
	p.buildDiscord()
	if err := p.buildCores(ctx); err != nil {
		return nil, err
	}
	p.monitor = p.newMonitor()
	p.describe()
	p.serveHTTP()
	choice := p.now.Load().choice
	o.Logger.Info("built", "model", choice.String(), "why", choice.Why, "data", o.Config.DataDir, "workspace", o.Config.Workspace)
	return p, nil
}

// listen listens on an address, and waits up to portPatience for an address in use.
func listen(ctx context.Context, addr string) (net.Listener, error) {
	for until := time.Now().Add(portPatience); ; {
		l, err := net.Listen("tcp", addr)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(until) {
			return l, err
		}
		select {
		case <-time.After(portPause):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (p *program) openStore(ctx context.Context) (err error) {
	p.warnOfLostDatabase()
	p.db, err = db.Open(ctx, db.Options{
		Dir: p.Config.DataDir, Logger: p.Logger, OnCommit: p.Seams.onCommit(p.Config.DataDir), OnPublish: p.published,
		Migrations: slices.Concat(redisbus.Migrations, store.Migrations),
	})
	if err != nil {
		return err
	}
	if p.bus, err = openBus(ctx, p.Config, p.db, p.Logger); err != nil {
		return err
	}
	if p.busChanges, err = delivery.Changes(ctx, p.db); err != nil {
		return err
	}
	p.store = store.New(p.db)
	p.operators = &toolserver.Operators{DB: p.db, Table: store.OperatorTokens{}}
	return nil
}

func (p *program) buildCores(ctx context.Context) (err error) {
	if p.sockets, err = rundir.Open(p.Config.DataDir); err != nil {
		return err
	}
	files, err := p.newAttachments()
	if err != nil {
		return err
	}
	if p.callables, err = p.openCallables(ctx, files); err != nil {
		return err
	}
	tools, err := p.buildTools(files)
	if err != nil {
		return err
	}
	ports := runnerPorts{p}
	p.runner = session.New(session.Options{
		DB: p.db, Bus: p.bus, Tables: p.Seams.Runner.around(runnerTables()), Tools: p.observer.Tools(p.Seams.Tools.around(tools)),
		Model:    func(context.Context, string) (llm.Model, error) { return p.now.Load().model, nil },
		Settings: runnerSettings(p.Config), Workspace: p.Config.Workspace,
		Surfaces: ports, Policy: ports, Observer: ports, Blobs: p.blobs, Logger: p.Logger,
	})
	rules, err := p.rules(p.Config)
	if err != nil {
		return err
	}
	if err := p.buildSources(); err != nil {
		return err
	}
	p.env = environment.New(environment.Options{
		Intake: p.sources.intake,
		DB:     p.db, Bus: p.bus, Inbox: p.store.Inbox, Runs: store.RuleRuns{}, Holds: store.RuleWaits{}, Causes: store.RuleRuns{}, Events: store.RuleEvents{}, Session: p.sessions(), Logger: p.Logger, Webhook: p.webhookTools,
		Rules: rules, Observe: p.workflows.Observe, Workspace: p.Config.Workspace,
	})
	return nil
}

// buildTools creates the tools of the agent.
func (p *program) buildTools(files *builtin.Attachments) ([]tool.Tool, error) {
	opts, err := toolOptions(p.Config, p.box, p.sockets.Path, files, p.callables, p.Logger)
	if err != nil {
		return nil, err
	}
	tools, err := builtin.New(opts)
	if err != nil {
		return nil, fmt.Errorf("build the tools: %w", err)
	}
	if p.tasks, err = p.openTasks(opts); err != nil {
		return nil, fmt.Errorf("build background tasks: %w", err)
	}
	return append(tools, task.Tool(p.tasks), environment.Tool(p.db, store.RuleEvents{})), nil
}

// declare creates the consumer groups of the components, and resumes unfinished work.
func (p *program) declare(ctx context.Context) error {
	if err := errors.Join(p.env.Declare(ctx), p.runner.Declare(ctx), p.workflows.Declare(ctx)); err != nil {
		return err
	}
	for _, s := range p.platforms {
		if err := s.declare(ctx); err != nil {
			return err
		}
	}
	return p.Seams.Recovery.around(p.tasks.Recover)(ctx)
}

// run starts the components in the order of their dependencies, and stops them in reverse
// order.
func (p *program) run(ctx context.Context) error {
	if err := p.declare(ctx); err != nil {
		return unlessStopped(ctx, err)
	}
	// The cores outlive the listener, so that they still accept its last requests.
	cores, stopCores := context.WithCancel(context.WithoutCancel(ctx))
	defer stopCores()
	work, failed := errgroup.WithContext(cores)
	work.Go(func() error { return p.env.Run(failed) })
	work.Go(func() error { return p.tasks.Run(failed) })
	work.Go(func() error { return p.runner.Run(failed) })
	work.Go(func() error { return p.workflows.Run(failed) })
	work.Go(func() error { return p.sources.clock.Run(failed) })
	work.Go(func() error { return p.sources.files.Run(failed) })
	work.Go(func() error { return clean(failed, p.removeOld) })
	work.Go(func() error { return p.tellOfSandbox(failed) })
	for _, s := range p.platforms {
		s.start(failed, work)
	}
	work.Go(func() error { return p.callables.run(failed) })
	p.startOperations(failed, work)

	served := make(chan error, 1)
	go func() { served <- p.server.Serve(connlimit.Listener(p.listener, maxConnections())) }()
	if err := announce(p.Config, p.listener.Addr().String(), p.callables.endpoint); err != nil {
		return errors.Join(err, p.stopHTTP(served))
	}
	fmt.Fprintf(p.Stdout, "Lilac is ready: %s\n", p.logins.NewLink(p.listener.Addr().String()))
	p.monitor.Working()
	p.tell(notify.Ready, notify.Status("Listening on "+p.listener.Addr().String()))

	var httpErr error
	select {
	case <-ctx.Done():
		p.Logger.Info("stopping")
		p.tell(notify.Stopping)
		httpErr = p.stopHTTP(served)
	case <-failed.Done():
		httpErr = p.stopHTTP(served)
	case err := <-served:
		httpErr = fmt.Errorf("serve HTTP: %w", err)
	}
	stopCores()
	return errors.Join(httpErr, work.Wait())
}

// tellOfSandbox logs a warning if there is no sandbox, so commands are refused.
func (p *program) tellOfSandbox(ctx context.Context) error {
	if err := p.box.Wait(); err != nil && ctx.Err() == nil {
		p.Logger.Warn("commands are refused", "reason", fault.ToWire(err).Message)
	}
	return nil
}

// stopHTTP rejects new requests, ends the event streams, and lets open requests finish.
func (p *program) stopHTTP(served <-chan error) error {
	p.monitor.Stopping()
	p.stopping()
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	err := p.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = p.server.Close()
	}
	<-served
	if err != nil {
		return fmt.Errorf("stop HTTP: %w", err)
	}
	return nil
}

func (p *program) close() error {
	_ = p.box.Wait() // ends the detection; tellOfSandbox logs its error
	var errs []error
	if p.listener != nil {
		if err := p.listener.Close(); err != nil && !strings.Contains(err.Error(), "closed") {
			errs = append(errs, err)
		}
	}
	if p.callables != nil {
		errs = append(errs, p.callables.endpoint.Close())
	}
	if p.sockets != nil {
		errs = append(errs, p.sockets.Close())
	}
	if p.bus != nil {
		errs = append(errs, p.bus.Close())
	}
	if p.db != nil {
		errs = append(errs, p.db.Close())
	}
	return errors.Join(errs...)
}
