package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"

	"golang.org/x/sync/errgroup"

	"lilac/internal/agent/sandbox"
	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/config"
	"lilac/internal/store"
	"lilac/internal/telemetry/logs"
	"lilac/internal/telemetry/notify"
	"lilac/internal/telemetry/tracing"
)

// Options configure the program.
type Options struct {
	Config *config.Config
	// Warnings are the probable mistakes in the configuration. The health report names them.
	Warnings []config.Warning
	// Stdout receives one line with the URL of the web page.
	Stdout  io.Writer
	Logger  *slog.Logger
	Version string

	// Load reads the configuration for a reload; nil disables reloads. A signal on Reload and
	// a change of the watched file trigger one.
	Load   func() (*config.Config, []config.Warning, error)
	Reload <-chan os.Signal
	// LoadProposed reads the configuration as if the files had other contents; nil disables the
	// setup on the page. CanRestart means that the caller starts the program again if Run returns
	// ErrRestart.
	LoadProposed func(*config.Proposal) (*config.Config, []config.Warning, error)
	CanRestart   bool
	// Level is the level of the logger, which a reload of log.level changes. Secrets holds
	// the values that the logger redacts. Both may be nil.
	Level   *slog.LevelVar
	Secrets *logs.Secrets
	// Log counts the log lines that were lost; nil means that none are.
	Log *logs.LossyWriter
	// Tracer exports spans. If it is nil, none are exported.
	Tracer *tracing.Tracer
	// Manager is the service manager that receives the state of the program (sd_notify).
	Manager notify.Manager
	// Seams are empty except in tests of the real program.
	Seams Seams

	// restart stops the program with a cause; nil if nobody would start it again.
	restart context.CancelCauseFunc
	// lease is the ownership of the database on PostgreSQL; nil on SQLite. port is the address
	// that the process listens on, also while it waits; nil on SQLite, where it never waits.
	lease *db.Lease
	port  *port
}

// gcPercent is the growth of the heap between two collections of garbage, in percent. The collector
// counts the stacks of all streams as a part of the heap, so that Go's default of 100 costs about
// 30 KiB more for each of 500 streams.
const gcPercent = 80

// Run runs the whole program until ctx ends or a component fails. It returns nil after a
// graceful stop, even if the stop came during the start.
func Run(ctx context.Context, o Options) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if o.CanRestart {
		o.restart = stop
	}
	if o.Config.Database.URL.Postgres() {
		return unlessRestarted(ctx, runNode(ctx, o))
	}
	return unlessRestarted(ctx, runOnce(ctx, o))
}

func runOnce(ctx context.Context, o Options) (err error) {
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

// program connects the parts, and runs and stops them in order.
type program struct {
	*base
	*monitoring
	web       *webServer
	titles    *titler
	questions *questions
	// fileAtStart is the version of the configuration file that the start read.
	fileAtStart fileState
}

func build(ctx context.Context, o Options) (_ *program, err error) {
	if o.Secrets == nil {
		o.Secrets = &logs.Secrets{}
	}
	o.Secrets.Add(o.Config.Secrets()...)
	b := &base{Options: o}
	p := &program{base: b, monitoring: newMonitoring(b), titles: newTitler(b), questions: newQuestions(b), fileAtStart: stateOf(o.Config.Sought)}
	p.web = newWebServer(b, p.monitoring)
	b.box = sandbox.Start(ctx, o.Config.Sandbox.Mode)
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	if err := b.choose(o.Config); err != nil {
		return nil, err
	}
	b.probable.Store(&o.Warnings)
	// Listen first: a second server on the same port is the most common mistake, and must
	// fail before anything is changed.
	if err := p.web.listen(ctx); err != nil {
		return nil, err
	}
	if err := b.openStore(ctx, p.published); err != nil {
		return nil, err
	}
	if err := b.keepLearned(ctx); err != nil {
		return nil, err
	}
	if err := p.web.readToken(); err != nil {
		return nil, err
	}
	if err := p.web.openAccounts(ctx); err != nil {
		return nil, err
	}
	b.workflows = newWorkflows(b)
	platformBuilder{b}.buildDiscord()
	if err := p.buildCores(ctx); err != nil {
		return nil, err
	}
	p.startMonitor()
	p.web.build()
	choice := b.now.Load().choice
	o.Logger.Info("starting", "model", choice.String(), "why", choice.Why, "data", o.Config.DataDir, "workspace", o.Config.Workspace)
	return p, nil
}

func (p *program) buildCores(ctx context.Context) (err error) {
	tools, err := toolBuilder{p.base}.build(ctx)
	if err != nil {
		return err
	}
	ports := runnerPorts{p.base}
	p.runner = session.New(session.Options{
		DB: p.db, Bus: p.bus, Tables: p.Seams.Runner.around(runnerTables()), Tools: p.observer.Tools(p.Seams.Tools.around(tools)),
		Pinned: pinned{p.base}.tools, Opening: ports.opening, Lasting: ports.lasting,
		Model: models{p.base}.of, ChannelInstructions: models{p.base}.instructions,
		ChannelAgent: models{p.base}.agent, NamedAgent: models{p.base}.terms,
		Settings: runnerSettings(p.Config), Workspace: workspaces{p.base}.dir, MakeWorkspace: workspaces{p.base}.create,
		Surfaces: ports, Policy: ports, Observer: ports, Blobs: p.blobs, Transcriber: transcriber{p.base}, Logger: p.Logger,
	})
	rules, err := ruleBuilder{p.base}.rules(p.Config)
	if err != nil {
		return err
	}
	if p.sources, err = newSources(p.base); err != nil {
		return err
	}
	p.env = environment.New(environment.Options{
		Intake: p.sources.intake,
		DB:     p.db, Bus: p.bus, Inbox: p.store.Inbox, Runs: store.RuleRuns{}, Holds: store.RuleWaits{}, Causes: store.RuleRuns{}, Events: store.RuleEvents{}, Session: names{p.base}.ruleSessions(), Logger: p.Logger, SourceTools: p.sourceTools,
		Agent: p.agentIn,
		Rules: rules, Observe: p.observe, Workspace: workspaces{p.base}.forEvent,
	})
	return nil
}

// observe receives every event of the environment.
func (p *program) observe(ctx context.Context, e event.EnvEvent) error {
	p.titles.observe(e)
	return errors.Join(p.workflows.Observe(ctx, e), p.questions.observe(ctx, e))
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
	reloads := reloader{p.base, p.web.hosts, p.fileAtStart}
	work.Go(func() error { return p.env.Run(failed) })
	work.Go(func() error { return p.tasks.Run(failed) })
	work.Go(func() error { return p.runner.Run(failed) })
	work.Go(func() error { return p.workflows.Run(failed) })
	work.Go(func() error { return p.sources.clock.Run(failed) })
	work.Go(func() error { return p.sources.files.Run(failed) })
	work.Go(func() error { return p.sources.programs.Run(failed) })
	work.Go(func() error { return clean(failed, cleaner{p.base}.removeOld) })
	work.Go(func() error { return p.adoptFiles(failed) })
	work.Go(func() error { return p.titles.run(failed) })
	work.Go(func() error { return p.questions.run(failed) })
	work.Go(func() error { return p.tellOfSandbox(failed) })
	for _, s := range p.platforms {
		s.start(failed, work)
	}
	work.Go(func() error { return p.callables.run(failed) })
	work.Go(func() error { return p.runCompanion(failed) })
	work.Go(func() error { return p.mcp.Run(failed) })
	if p.remote != nil {
		work.Go(func() error { return p.remote.Watch(failed) })
	}
	p.monitoring.start(failed, work)
	work.Go(func() error { return reloads.follow(failed) })

	addr := p.web.start()
	if err := announce(p.Config, addr, p.callables.endpoint); err != nil {
		return errors.Join(err, p.web.stop())
	}
	p.sayReady(addr)
	p.monitor.Working()
	p.tell(notify.Ready, notify.Status("Listening on "+addr))

	var httpErr error
	select {
	case <-ctx.Done():
		p.Logger.Info("stopping")
		if p.leaseLost() {
			stopCores() // another process may begin: commands end before the last responses
		} else {
			p.tell(notify.Stopping)
			if p.port != nil {
				p.port.stop()
			}
		}
		httpErr = p.web.stop()
	case <-failed.Done():
		httpErr = p.web.stop()
	case err := <-p.web.served:
		httpErr = fmt.Errorf("serve HTTP: %w", err)
	}
	stopCores()
	return errors.Join(httpErr, work.Wait())
}

// sayReady prints a login link, unless the output is meant for a program that collects logs: whoever
// reads those must not get in, and each line must be JSON.
func (p *program) sayReady(addr string) {
	if p.Config.Log.Format == logs.FormatJSON {
		p.Logger.Info("Lilac is ready", "address", addr)
		return
	}
	fmt.Fprintf(p.Stdout, "Lilac is ready: %s\n", p.web.logins.NewLink(addr))
}

// tellOfSandbox logs a warning if there is no sandbox, so commands are refused.
func (b *base) tellOfSandbox(ctx context.Context) error {
	if err := b.box.Wait(); err != nil && ctx.Err() == nil {
		b.Logger.Warn("commands are refused", "reason", fault.ToWire(err).Message)
	}
	return nil
}

func (p *program) close() error {
	_ = p.box.Wait() // ends the detection; tellOfSandbox logs its error
	errs := []error{p.web.close()}
	if p.callables != nil {
		errs = append(errs, p.callables.close())
	}
	if p.bus != nil {
		errs = append(errs, p.bus.Close())
	}
	if p.db != nil {
		errs = append(errs, p.db.Close())
	}
	return errors.Join(errs...)
}
