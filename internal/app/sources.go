package app

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"lilac/internal/core/clock"
	"lilac/internal/core/environment"
	"lilac/internal/core/files"
	"lilac/internal/core/webhook"
	"lilac/internal/operate/config"
	"lilac/internal/serve/httpapi"
	"lilac/internal/telemetry/health"
)

// droppedFor is how long health reports that events of a source were dropped.
const droppedFor = 15 * time.Minute

// sources holds the sources of environment events.
type sources struct {
	intake *environment.Intake
	hooks  atomic.Pointer[map[string]webhook.Hook]
	clock  *clock.Service
	files  *files.Service
}

// buildSources creates the sources without starting them.
func (p *program) buildSources() error {
	p.sources.intake = environment.NewIntake(p.db, p.Seams.Inbox.around(p.store.Inbox))
	p.sources.clock = clock.New(clock.Options{DB: p.db, Timers: p.store.Timers, Intake: p.sources.intake, Logger: p.Logger})
	agents, err := written(p.Config)
	if err != nil {
		return err
	}
	p.sources.files = files.New(files.Options{
		DB: p.db, Known: p.store.WatchedFiles, Intake: p.sources.intake, Exclude: []string{p.Config.DataDir}, AgentWritable: agents, Logger: p.Logger,
	})
	return p.setSources(p.Config)
}

// setSources applies the sources of a configuration.
func (p *program) setSources(c *config.Config) error {
	hooks, err := c.Hooks()
	if err != nil {
		return fmt.Errorf("make the webhooks ready: %w", err)
	}
	timers, err := c.Clock()
	if err != nil {
		return fmt.Errorf("make the timers ready: %w", err)
	}
	watched, err := c.WatchedFiles()
	if err != nil {
		return fmt.Errorf("make the watched files ready: %w", err)
	}
	p.sources.hooks.Store(&hooks)
	p.sources.clock.Set(timers)
	p.sources.files.Set(watched)
	p.sources.intake.SetSources(environment.SourceWebhook, slices.Sorted(maps.Keys(hooks)))
	p.sources.intake.SetSources(environment.SourceTimer, slices.Sorted(maps.Keys(c.Timers)))
	p.sources.intake.SetSources(environment.SourceFiles, slices.Sorted(maps.Keys(c.Files)))
	return nil
}

// httpSources returns the sources for the HTTP routes.
func (p *program) httpSources() *httpapi.Sources {
	return &httpapi.Sources{
		Intake:  p.sources.intake,
		Webhook: func(name string) (webhook.Hook, bool) { h, ok := (*p.sources.hooks.Load())[name]; return h, ok },
	}
}

// sourcesPart returns the health of the sources. The report is public, so it contains no names
// of sources.
func (p *program) sourcesPart(now time.Time) health.Part {
	part := health.Part{Name: "sources", Status: health.OK}
	var dropped, broken int
	for _, c := range p.sources.intake.Counts() {
		if c.LastDropped > now.Add(-droppedFor).UnixMilli() {
			dropped++
		}
		if c.Trouble != "" {
			broken++
		}
	}
	switch {
	case broken > 0:
		part.Status, part.Message = health.Warning, fmt.Sprintf("%d of the sources of events cannot observe all that they should; \"lilac sources\" says which", broken)
	case dropped > 0:
		part.Status, part.Message = health.Warning, fmt.Sprintf("events of sources (%d) came faster than they were handled and were dropped; \"lilac sources\" says of which", dropped)
	}
	return part
}
