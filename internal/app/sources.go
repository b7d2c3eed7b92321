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
	external "lilac/internal/core/program"
	"lilac/internal/core/webhook"
	"lilac/internal/operate/config"
	"lilac/internal/serve/httpapi"
	"lilac/internal/telemetry/health"
)

// droppedFor is how long health reports that events of a source were dropped.
const droppedFor = 15 * time.Minute

// sources holds the sources of environment events.
type sources struct {
	intake   *environment.Intake
	hooks    atomic.Pointer[map[string]webhook.Hook]
	clock    *clock.Service
	files    *files.Service
	programs *external.Service
}

// newSources creates the sources without starting them.
func newSources(b *base) (*sources, error) {
	s := &sources{intake: environment.NewIntake(b.db, b.Seams.Inbox.around(b.store.Inbox))}
	s.clock = clock.New(clock.Options{DB: b.db, Timers: b.store.Timers, Intake: s.intake, Logger: b.Logger})
	agents, err := written(b.Config)
	if err != nil {
		return nil, err
	}
	s.files = files.New(files.Options{
		DB: b.db, Known: b.store.WatchedFiles, Intake: s.intake, Exclude: []string{b.Config.DataDir}, AgentWritable: agents, Logger: b.Logger,
	})
	s.programs = external.New(external.Options{Intake: s.intake, Logger: b.Logger})
	return s, s.set(b.Config)
}

// set applies the sources of a configuration.
func (s *sources) set(c *config.Config) error {
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
	programs, err := c.Programs()
	if err != nil {
		return fmt.Errorf("make the programs ready: %w", err)
	}
	s.hooks.Store(&hooks)
	s.clock.Set(timers)
	s.files.Set(watched)
	s.intake.SetSources(environment.SourceWebhook, slices.Sorted(maps.Keys(hooks)))
	s.intake.SetSources(environment.SourceTimer, slices.Sorted(maps.Keys(c.Timers)))
	s.intake.SetSources(environment.SourceFiles, slices.Sorted(maps.Keys(c.Files)))
	s.intake.SetSources(environment.SourceProgram, slices.Sorted(maps.Keys(c.Sources)))
	s.intake.SetSources(environment.SourceMCP, config.MCPNames(c.MCPServers))
	s.programs.Set(programs)
	return nil
}

// http returns the sources for the HTTP routes.
func (s *sources) http() *httpapi.Sources {
	return &httpapi.Sources{
		Intake:  s.intake,
		Webhook: func(name string) (webhook.Hook, bool) { h, ok := (*s.hooks.Load())[name]; return h, ok },
	}
}

// part returns the health of the sources. The report is public, so it contains no names
// of sources.
func (s *sources) part(now time.Time) health.Part {
	part := health.Part{Name: "sources", Status: health.OK}
	var dropped, broken int
	for _, c := range s.intake.Counts() {
		if c.LastDropped > now.Add(-droppedFor).UnixMilli() {
			dropped++
		}
		if c.Trouble != "" {
			broken++
		}
	}
	switch {
	case broken > 0:
		part.Status, part.Message = health.Warning, fmt.Sprintf("%d of the sources of events do not work, or not completely; \"lilac sources\" says which", broken)
	case dropped > 0:
		part.Status, part.Message = health.Warning, fmt.Sprintf("events of sources (%d) came faster than they were handled and were dropped; \"lilac sources\" says of which", dropped)
	}
	return part
}
