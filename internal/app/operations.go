package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"lilac/internal/app/observe"
	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/engine/redisbus"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
	"lilac/internal/operate/config"
	"lilac/internal/serve/httpapi"
	"lilac/internal/telemetry/health"
	"lilac/internal/telemetry/metrics"
	"lilac/internal/telemetry/notify"
)

const (
	// idleWriter is the idle time after which a health check makes the database writer commit,
	// to prove that it works.
	idleWriter = 30 * time.Second
	// stuckAfter is how long the same event may be first in a group's backlog. Handlers have a
	// time limit of one minute, so a longer wait means a defect.
	stuckAfter = 2 * time.Minute
	// lostAfter is how long the store may list a request as running while the runner does not
	// run it. Normally, only one commit lies between the two.
	lostAfter = time.Minute
)

// operations holds the monitoring of the program and the state that a reload can change.
type operations struct {
	registry *metrics.Registry
	observer *observe.Observer
	monitor  *health.Monitor
	hosts    *httpapi.Hosts
	// fileAtStart is the version of the configuration file that the start read.
	fileAtStart fileState
	now         atomic.Pointer[inForce]
	learned     llm.Registry // capabilities learned from the endpoints of all models
	// reloadTrouble is the reason why the last reload was not fully applied. It is set after
	// the log entry is written, so that the reason is in the log when /readyz reports it.
	reloadTrouble atomic.Pointer[string]
	// shown checks the paths that commands must be able to see.
	shown *health.Paths
	// waiting reports that a group had a backlog at the last check.
	waiting atomic.Bool
}

// inForce holds the state that a reload replaces.
type inForce struct {
	config *config.Config
	choice config.ModelChoice
	model  llm.Model
}

func (p *program) buildOperations() {
	p.registry = &metrics.Registry{}
	p.observer = observe.New(p.registry, p.Tracer)
	p.hosts = httpapi.NewHosts(p.Config.AllowedHosts)
	p.fileAtStart = stateOf(p.Config.Sought)
	needed := []string{p.Config.Workspace}
	if s := p.Config.Sandbox; s.Mode != config.SandboxOff {
		needed = slices.Concat(needed, s.ReadOnly, s.Writable)
	}
	p.shown = &health.Paths{Names: needed}
}

// choose puts a configuration into effect, with the model that it names.
func (p *program) choose(cfg *config.Config) error {
	choice, err := cfg.ResolveModel()
	if err != nil {
		return err
	}
	p.now.Store(&inForce{config: cfg, choice: choice, model: p.observer.Model(newModel(choice, &p.learned))})
	return nil
}

// describe declares the metrics of the program as a whole.
func (p *program) describe() {
	var unsent func() int64
	if b, ok := p.bus.(interface{ Unsent() int64 }); ok {
		unsent = b.Unsent
	}
	observe.Describe(p.registry, observe.Program{
		Version: p.Version, Started: time.Now(), Bus: p.bus, Health: p.report, Running: p.runner.Active, Unsent: unsent, LostLogLines: p.lostLogLines,
		Sessions: func(ctx context.Context) (n int, err error) {
			err = p.db.Read(ctx, func(q db.Queryer) error {
				busy, err := p.store.States.Unfinished(q)
				n = len(busy)
				return err
			})
			return n, err
		},
	})
}

// startOperations runs the monitoring until ctx ends.
func (p *program) startOperations(ctx context.Context, work *errgroup.Group) {
	work.Go(func() error { return p.monitor.Run(ctx) })
	work.Go(func() error { return p.observer.Requests(ctx, p.bus, p.createdAt) })
	work.Go(func() error { return p.followConfiguration(ctx) })
	work.Go(func() error { return p.watchdog(ctx) })
}

func (p *program) createdAt(ctx context.Context, requestID string) (at int64, err error) {
	err = p.db.Read(ctx, func(q db.Queryer) error {
		r, err := p.store.Requests.Request(q, requestID)
		at = r.CreatedAt
		return err
	})
	return at, err
}

// watchdog sends keep-alive messages to the service manager as long as no component hangs.
func (p *program) watchdog(ctx context.Context) error {
	every := p.Manager.Watchdog()
	if every <= 0 {
		return nil
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		p.monitor.Ask() // also detects a component that hangs while the program is idle
		if !p.monitor.Hangs() {
			p.tell(notify.Alive)
		}
	}
}

func (p *program) tell(states ...string) {
	if err := p.Manager.Tell(states...); err != nil {
		p.Logger.Warn("the service manager was not told", "error", err)
	}
}

// newMonitor returns a monitor with a probe for each component that readiness depends on.
func (p *program) newMonitor() *health.Monitor {
	progress := &health.Progress{Stuck: stuckAfter, Must: []string{environment.Group, session.Group}, Now: time.Now}
	probes := []health.Probe{
		{Name: "writer", Needed: true, Rests: p.rests, Run: func(ctx context.Context) error { return p.db.Probe(ctx, idleWriter) }},
		{Name: "bus", Needed: true, Rests: p.rests, Run: p.bus.Healthy},
		{Name: "groups", Rests: p.rests, Run: func(ctx context.Context) error { return p.checkGroups(ctx, progress) }},
		{Name: "runner", Needed: true, Rests: p.rests, Run: p.lostRequests(lostAfter)},
		{Name: "disk", Rests: p.rests, Run: p.checkDisk(health.DiskAt)},
	}
	for _, s := range p.platforms {
		progress.Must = append(progress.Must, s.groups()...)
		probes = append(probes, health.Probe{Name: s.adapter.Platform(), Run: func(context.Context) error { return s.adapter.Healthy() }})
	}
	return health.New(health.Options{
		Probes:   probes,
		Describe: p.describeTrouble,
		Changed: func(part health.Part, err error) {
			switch part.Status {
			case health.OK:
				p.Logger.Info("a part works again", "part", part.Name)
			case health.Warning:
				p.Logger.Warn("a part needs attention", "part", part.Name, "message", part.Message)
			default:
				p.Logger.Error("a part does not work", "part", part.Name, "message", part.Message, "error", err)
			}
		},
	})
}

// published is called with the events that each transaction publishes.
func (p *program) published(events []event.Event) {
	p.observer.Published(events)
	p.monitor.Work()
}

// rests reports whether the program is idle: no request runs, and no group has a backlog.
func (p *program) rests() bool { return p.runner.Active() == 0 && !p.waiting.Load() }

// report returns the health of the components, including the configuration.
func (p *program) report() health.Report {
	out := p.monitor.Report()
	part := health.Part{Name: "configuration", Status: health.OK}
	if trouble := p.reloadTrouble.Load(); trouble != nil {
		part.Status, part.Message = health.Warning, *trouble
	}
	out.Parts = append(out.Parts, part, p.sourcesPart(time.Now()), p.sandboxPart(), p.logPart())
	return out
}

// logPart returns the health of the log. A log that nobody reads is no reason not to work.
func (p *program) logPart() health.Part {
	part := health.Part{Name: "log", Status: health.OK}
	if p.Log != nil {
		if part.Message = p.Log.Trouble(); part.Message != "" {
			part.Status = health.Warning
		}
	}
	return part
}

func (p *program) lostLogLines() int64 {
	if p.Log == nil {
		return 0
	}
	return p.Log.Lost()
}

// sandboxPart reports whether commands can run. The doctor command, which may run as another
// user and outside the service, is not subject to the restrictions of the service.
func (p *program) sandboxPart() health.Part {
	part := health.Part{Name: "sandbox", Status: health.OK}
	switch {
	case p.box.Refuses():
		part.Status, part.Message = health.Warning, "commands are refused; the log says why"
	case p.shown.Missing() > 0:
		part.Status, part.Message = health.Warning, "commands are refused: the workspace, or a path that they are to be shown, is not there; \"lilac doctor\" says which"
	}
	return part
}

// describeTrouble returns a message for the public health report. It replaces errors that were
// not written for people, because they may contain internal details.
func (p *program) describeTrouble(err error) string {
	if w := fault.ToWire(err); w.Kind != fault.Internal {
		if url := p.Config.Bus.URL; url.Redis() {
			server := redisbus.Server(url.Reveal())
			return strings.NewReplacer(" at "+server, "", server, "Redis").Replace(w.Message)
		}
		return w.Message
	}
	return "it failed; the log says why"
}

// checkGroups checks that the consumer groups make progress.
func (p *program) checkGroups(ctx context.Context, progress *health.Progress) error {
	groups, err := p.bus.Groups(ctx)
	if err != nil {
		return err
	}
	backlogs, waiting := make([]health.Backlog, 0, len(groups)), false
	for _, g := range groups {
		waiting = waiting || g.Active && g.Pending+g.Backlog > 0
		backlogs = append(backlogs, health.Backlog{
			Name: g.Group, Waiting: g.Pending + g.Backlog, Oldest: time.Duration(g.OldestMS) * time.Millisecond, Served: g.Active,
		})
	}
	p.waiting.Store(waiting)
	if err := progress.Check(backlogs); err != nil {
		return fault.Wrap(fault.Unavailable, err, "%s", err.Error())
	}
	return nil
}

// checkDisk returns a probe of the free disk space of the data directory, which at measures.
// Its messages are public, so they contain no path.
func (p *program) checkDisk(at func(path string) (health.Disk, error)) func(context.Context) error {
	return func(context.Context) error {
		disk, err := at(p.Config.DataDir)
		if err != nil {
			return err
		}
		if err := disk.Check(); err != nil {
			return fault.Wrap(fault.Unavailable, err, "%s", err.Error())
		}
		return nil
	}
}

// lostRequests returns a probe that finds requests which the store lists as running, but which
// the runner has not run for longer than after. Requests that are paused at a limit do not
// count.
func (p *program) lostRequests(after time.Duration) func(context.Context) error {
	since := map[string]time.Time{} // only the probe uses it
	return func(ctx context.Context) error {
		var running []session.Request
		err := p.db.Read(ctx, func(q db.Queryer) (err error) {
			running, err = p.store.Requests.Running(q, "")
			return err
		})
		if err != nil {
			return fmt.Errorf("list running requests: %w", err)
		}
		missing := map[string]time.Time{}
		for _, r := range running {
			if r.AwaitsAnswer() || p.runner.IsRunning(r.ID) {
				continue
			}
			missing[r.ID] = time.Now()
			if first, known := since[r.ID]; known {
				missing[r.ID] = first
			}
		}
		since = missing
		for _, first := range since {
			if time.Since(first) > after {
				return fault.New(fault.Unavailable, "a request is said to run and nobody works on it (%d in all)", len(since))
			}
		}
		return nil
	}
}
