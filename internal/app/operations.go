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
	// idleWriter is how long the writer may have nothing to do before it is
	// made to write for a look at its health.
	idleWriter = 30 * time.Second
	// stuckAfter is how long one event may be the first that waits. Handlers
	// are given a minute and are retried for longer than that only by a defect.
	stuckAfter = 2 * time.Minute
	// lostAfter is how long a request may run in the store and nowhere else:
	// between the two there is one commit.
	lostAfter = time.Minute
)

// operations is what watches the program and can be changed while it runs.
type operations struct {
	registry *metrics.Registry
	observer *observe.Observer
	monitor  *health.Monitor
	hosts    *httpapi.Hosts
	// fileAtStart is the state of the configuration file that was read.
	fileAtStart fileState
	now         atomic.Pointer[inForce]
	learned     llm.Registry // of the endpoints of all models
	// reloadTrouble says why the last reload was not taken over as a whole. It is set
	// after the log says so: who sees the trouble in /readyz finds its reason there.
	reloadTrouble atomic.Pointer[string]
	// shown is what commands need to be there.
	shown *health.Paths
	// waiting says that events waited for a group at the last look at them.
	waiting atomic.Bool
}

// inForce is what a reload replaces.
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

// choose makes a configuration the one in force, with the model it names.
func (p *program) choose(cfg *config.Config) error {
	choice, err := cfg.ResolveModel()
	if err != nil {
		return err
	}
	p.now.Store(&inForce{config: cfg, choice: choice, model: p.observer.Model(newModel(choice, &p.learned))})
	return nil
}

// describe declares what is measured of the program as a whole.
func (p *program) describe() {
	var unsent func() int64
	if b, ok := p.bus.(interface{ Unsent() int64 }); ok {
		unsent = b.Unsent
	}
	observe.Describe(p.registry, observe.Program{
		Version: p.Version, Started: time.Now(), Bus: p.bus, Health: p.report, Running: p.runner.Active, Unsent: unsent, LostLogLines: p.LostLogLines,
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

// startOperations runs what watches the program until ctx ends.
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

// watchdog tells the service manager that the program is alive, as long as no
// part of it hangs.
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
		p.monitor.Ask() // what hangs while everything rests is seen, too
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

// newMonitor has a probe for each part that the promise needs.
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

// published is told of what every transaction publishes.
func (p *program) published(events []event.Event) {
	p.observer.Published(events)
	p.monitor.Work()
}

// rests reports whether there is nothing to judge: no request runs and no event
// waits.
func (p *program) rests() bool { return p.runner.Active() == 0 && !p.waiting.Load() }

// report is how the parts are, the configuration among them.
func (p *program) report() health.Report {
	out := p.monitor.Report()
	part := health.Part{Name: "configuration", Status: health.OK}
	if trouble := p.reloadTrouble.Load(); trouble != nil {
		part.Status, part.Message = health.Warning, *trouble
	}
	out.Parts = append(out.Parts, part, p.sourcesPart(time.Now()), p.sandboxPart())
	return out
}

// sandboxPart says whether commands run: a look from outside the service, by
// doctor as another user, does not see what surrounds it.
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

// describeTrouble keeps to ourselves what is not written for people: the report
// is public.
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

// checkGroups looks whether those who consume get on.
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

// checkDisk returns a probe of the room for the data directory, which at tells.
// It has words for everybody: a path is none of them.
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

// lostRequests returns a probe that finds requests which run in the store and
// for longer than a while in no run. One that waits at a limit needs none.
func (p *program) lostRequests(after time.Duration) func(context.Context) error {
	since := map[string]time.Time{} // the probe alone uses it
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
