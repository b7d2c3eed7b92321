package app

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"lilac/internal/agent/sandbox"
	"lilac/internal/app/observe"
	"lilac/internal/core/environment"
	"lilac/internal/core/session"
	"lilac/internal/engine/companion"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
	"lilac/internal/operate/config"
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
	// settledAfter is the time from the start to the first release of memory: the start's own work
	// has ended by then. releaseEvery is the interval after that.
	settledAfter = 2 * time.Second
	releaseEvery = time.Minute
)

// monitoring observes the program: its metrics, its health, and its service manager.
type monitoring struct {
	*base
	registry *metrics.Registry
	monitor  *health.Monitor
	// shown checks the paths that commands must be able to see.
	shown *health.Paths
	// waiting reports that a group had a backlog at the last check.
	waiting atomic.Bool
}

func newMonitoring(b *base) *monitoring {
	m := &monitoring{base: b, registry: &metrics.Registry{}}
	b.observer = observe.New(m.registry, b.Tracer)
	needed := []string{b.Config.Workspace}
	if s := b.Config.Sandbox; s.Mode != sandbox.ModeOff {
		needed = slices.Concat(needed, s.ReadOnly, s.Writable)
	}
	m.shown = &health.Paths{Names: needed}
	return m
}

// startMonitor creates the monitor of the built program, and declares its metrics.
func (m *monitoring) startMonitor() {
	m.monitor = m.newMonitor()
	m.describe()
}

// describe declares the metrics of the program as a whole.
func (m *monitoring) describe() {
	var redis func() companion.Stats
	if m.companion != nil {
		redis = m.companion.Stats
	}
	observe.Describe(m.registry, observe.Program{
		Version: m.Version, Started: time.Now(), Bus: m.bus, Health: m.report, Running: m.runner.Active, Redis: redis, LostLogLines: m.lostLogLines,
		Sessions: func(ctx context.Context) (n int, err error) {
			err = m.db.Read(ctx, func(q db.Queryer) error {
				busy, err := m.store.States.Unfinished(q)
				n = len(busy)
				return err
			})
			return n, err
		},
	})
}

// start runs the monitoring until ctx ends.
func (m *monitoring) start(ctx context.Context, work *errgroup.Group) {
	work.Go(func() error { return m.monitor.Run(ctx) })
	work.Go(func() error { return m.watchdog(ctx) })
	work.Go(func() error { return m.release(ctx) })
}

// release gives memory back while the program is idle, until ctx ends.
func (m *monitoring) release(ctx context.Context) error {
	for wait := settledAfter; delay.Wait(ctx, wait); wait = releaseEvery {
		if !m.rests() {
			continue
		}
		if err := releaseConstants(); err != nil {
			m.Logger.Debug("cannot release memory", "error", err)
			return nil // some sandboxes forbid it; it would fail again
		}
	}
	return nil
}

// watchdog sends keep-alive messages to the service manager as long as no component hangs.
func (m *monitoring) watchdog(ctx context.Context) error {
	every := m.Manager.Watchdog()
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
		m.monitor.Ask() // also detects a component that hangs while the program is idle
		if !m.monitor.Hangs() {
			m.tell(notify.Alive)
		}
	}
}

func (o *Options) tell(states ...string) {
	if err := o.Manager.Tell(states...); err != nil {
		o.Logger.Warn("cannot notify the service manager", "error", err)
	}
}

// newMonitor returns a monitor with a probe for each component that readiness depends on.
func (m *monitoring) newMonitor() *health.Monitor {
	progress := &health.Progress{Stuck: stuckAfter, Must: []string{environment.Group, session.Group}, Now: time.Now}
	probes := []health.Probe{
		{Name: "writer", Needed: true, Rests: m.rests, Run: func(ctx context.Context) error { return m.db.Probe(ctx, idleWriter) }},
		{Name: "bus", Needed: true, Rests: m.rests, Run: m.bus.Healthy},
		{Name: "groups", Rests: m.rests, Run: func(ctx context.Context) error { return m.checkGroups(ctx, progress) }},
		{Name: "runner", Needed: true, Rests: m.rests, Run: m.lostRequests(lostAfter)},
		{Name: "disk", Rests: m.rests, Run: m.checkDisk(health.DiskAt)},
	}
	if m.blobs.InBucket() {
		probes = append(probes, health.Probe{Name: "files", Rests: m.rests, Run: m.checkFiles})
	}
	if m.companion != nil {
		probes = append(probes, health.Probe{Name: "redis", Run: m.checkRedis})
	}
	for _, s := range m.platforms {
		progress.Must = append(progress.Must, s.groups()...)
		probes = append(probes, health.Probe{Name: s.adapter.Platform(), Run: func(context.Context) error { return s.adapter.Healthy() }})
	}
	return health.New(health.Options{
		Probes:   probes,
		Describe: m.describeTrouble,
		Changed: func(part health.Part, err error) {
			switch part.Status {
			case health.OK:
				m.Logger.Info("a component has recovered", "part", part.Name)
			case health.Warning:
				m.Logger.Warn("a component needs attention", "part", part.Name, "message", part.Message)
			default:
				m.Logger.Error("a component has failed", "part", part.Name, "message", part.Message, "error", err)
			}
		},
	})
}

// published is called with the events that each transaction publishes.
func (m *monitoring) published(events []event.Event) {
	m.observer.Published(events)
	m.monitor.Work()
}

// rests reports whether the program is idle: no request runs, and no group has a backlog.
func (m *monitoring) rests() bool { return m.runner.Active() == 0 && !m.waiting.Load() }

// report returns the health of the components, including the configuration.
func (m *monitoring) report() health.Report {
	out := m.monitor.Report()
	part := health.Part{Name: "configuration", Status: health.OK}
	if trouble := m.reloadTrouble.Load(); trouble != nil {
		part.Status, part.Message = health.Warning, *trouble
	} else if found := m.probable.Load(); found != nil && len(*found) > 0 {
		part.Status, part.Message = health.Warning, probable(*found)
	}
	out.Parts = append(out.Parts, part, m.sources.part(time.Now()), m.sandboxPart(), m.observer.Calls.Part("model", time.Now()), m.logPart())
	if n := session.WaitingTurns(m.runner); n > 0 {
		out.Parts = append(out.Parts, health.Part{Name: "recovery", Status: health.Warning, Message: fmt.Sprintf(
			"Lilac has stopped several times while the same requests ran; %d of them wait for up to three minutes, and are then resumed one by one", n)})
	}
	if m.remote != nil {
		part := health.Part{Name: "nodes", Status: health.OK}
		if len(m.remote.Troubles()) > 0 {
			part.Status, part.Message = health.Warning, "not every node works with the others: \"lilac nodes\" says which, and why"
		}
		out.Parts = append(out.Parts, part)
	}
	out.Parts = append(out.Parts, m.complaints.parts(time.Now())...)
	out.Parts = append(out.Parts, mcpParts(m.mcp.Status())...)
	return out
}

// probable describes the first warning about the configuration, without the path of the file.
func probable(warnings []config.Warning) string {
	first := warnings[0]
	out := "a probable mistake: " + first.Message
	if first.Line > 0 {
		out = fmt.Sprintf("a probable mistake in line %d of the configuration file: %s", first.Line, first.Message)
	}
	if more := len(warnings) - 1; more > 0 {
		out += fmt.Sprintf("; and %d more, which \"lilac config check\" lists", more)
	}
	return out
}

// logPart returns the health of the log. A log that nobody reads is no reason not to work.
func (m *monitoring) logPart() health.Part {
	part := health.Part{Name: "log", Status: health.OK}
	if m.Log != nil {
		if part.Message = m.Log.Trouble(); part.Message != "" {
			part.Status = health.Warning
		}
	}
	return part
}

func (m *monitoring) lostLogLines() int64 {
	if m.Log == nil {
		return 0
	}
	return m.Log.Lost()
}

// sandboxPart reports whether commands can run. The doctor command, which may run as another
// user and outside the service, is not subject to the restrictions of the service.
func (m *monitoring) sandboxPart() health.Part {
	part := health.Part{Name: "sandbox", Status: health.OK}
	switch {
	case m.box.Refuses():
		part.Status, part.Message = health.Warning, "commands are refused; the log says why"
	case m.shown.Missing() > 0:
		part.Status, part.Message = health.Warning, "commands are refused: the workspace, or a path that they are to be shown, is not there; \"lilac doctor\" says which"
	}
	return part
}

// describeTrouble returns a message for the public health report. It replaces errors that were
// not written for people, because they may contain internal details.
func (m *monitoring) describeTrouble(err error) string {
	if w := fault.ToWire(err); w.Kind != fault.Internal {
		if url := m.Config.Bus.URL; url != "" {
			server := companion.Server(url.Reveal())
			return strings.NewReplacer(" at "+server, "", server, "Redis").Replace(w.Message)
		}
		return w.Message
	}
	return "it failed; the log says why"
}

// checkRedis returns a warning if Redis, which nothing depends on, does not do its work.
func (m *monitoring) checkRedis(ctx context.Context) error {
	if err := m.companion.Healthy(ctx); err != nil {
		return health.Warn("%s", m.describeTrouble(err))
	}
	return nil
}

// checkFiles checks that the bucket of the stored files can be reached.
func (m *monitoring) checkFiles(ctx context.Context) error {
	if err := m.blobs.Healthy(ctx); err != nil {
		return health.Warn("%s", m.describeTrouble(err))
	}
	return nil
}

// checkGroups checks that the consumer groups make progress.
func (m *monitoring) checkGroups(ctx context.Context, progress *health.Progress) error {
	groups, err := m.bus.Groups(ctx)
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
	m.waiting.Store(waiting)
	if err := progress.Check(backlogs); err != nil {
		return fault.Wrap(fault.Unavailable, err, "%s", err.Error())
	}
	return nil
}

// checkDisk returns a probe of the free disk space of the data directory, which at measures.
// Its messages are public, so they contain no path.
func (m *monitoring) checkDisk(at func(path string) (health.Disk, error)) func(context.Context) error {
	return func(context.Context) error {
		disk, err := at(m.Config.DataDir)
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
// count, nor do those that wait for the database: the runner tries again until it can write.
func (m *monitoring) lostRequests(after time.Duration) func(context.Context) error {
	absence := &health.Absence{Lost: after}
	return func(ctx context.Context) error {
		var running []session.Request
		err := m.db.Healthy()
		if err == nil {
			err = m.db.Read(ctx, func(q db.Queryer) (err error) {
				running, err = m.store.Requests.Running(q, "")
				return err
			})
		}
		if err != nil {
			absence.Check(nil, time.Now())
			return fmt.Errorf("list running requests: %w", err)
		}
		var absent []string
		for _, r := range running {
			if !r.AwaitsAnswer() && !m.runner.IsRunning(r.ID) {
				absent = append(absent, r.ID)
			}
		}
		if lost := absence.Check(absent, time.Now()); lost > 0 {
			return fault.New(fault.Unavailable, "%s recorded as running, but not running; restart Lilac to resume", text.Count(lost, "request"))
		}
		return nil
	}
}
