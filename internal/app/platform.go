package app

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sync/errgroup"

	"lilac/internal/agent"
	"lilac/internal/core/compose"
	"lilac/internal/core/entity"
	"lilac/internal/core/interaction"
	"lilac/internal/core/outbox"
	"lilac/internal/core/relay"
	"lilac/internal/core/router"
	"lilac/internal/core/surface"
	"lilac/internal/core/task"
	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/operate/config"
	"lilac/internal/serve/callables"
	"lilac/internal/store"
)

// platform has the cores that serve one chat platform.
type platform struct {
	adapter surface.Adapter
	outbox  *outbox.Service
	router  *router.Service
	relay   *relay.Service
	logger  *slog.Logger
	// configure applies a new configuration.
	configure func(*config.Config)
}

// buildPlatform builds the cores of a platform and connects them to its adapter.
func (p *program) buildPlatform(a surface.Adapter, interactions *interaction.Service) *platform {
	out := &platform{adapter: a, logger: p.Logger}
	cache := store.SurfaceCache{}
	out.outbox = outbox.New(outbox.Options{
		DB: p.db, Table: p.Seams.Outbox.around(store.Outbox{}), Adapter: p.Seams.Adapter.around(a), Logger: p.Logger,
		Hooks: map[string]outbox.OnSent{
			relay.HookName: func(tx *db.Tx, r outbox.Row, m surface.Message) error {
				return out.relay.OnSent(tx, r, m)
			},
			callables.HookName: callables.Remember(cache),
			workflow.Group:     p.workflows.OnSent,
		},
		Wanted: map[string]outbox.Wanted{workflow.Group: p.workflows.StillWanted},
	})
	out.relay = relay.New(relay.Options{
		DB: p.db, Bus: p.bus, Table: p.Seams.Relay.around(p.store.Relays), Outbox: out.outbox, Cache: cache, Adapter: a, Logger: p.Logger,
		Requests: relayRequests{p, interactions}, Format: relayFormat{p, a.Platform()},
	})
	profile := platformProfile{p, a}
	out.router = router.New(router.Options{
		Platform: a.Platform(), DB: p.db, Bus: p.bus, Table: p.Seams.Router.around(store.RouterTables{}), Inbox: p.store.Inbox, Cache: cache, Logger: p.Logger,
		Profile: profile, Replies: profile,
		Budget:   gateBudget{p},
		Settings: p.routerSettings(), NewID: func() string { return strings.ToLower(ulid.Make().String()) },
	})
	p.workflows.Connect(a.Platform(), workflow.Platform{
		Outbox: out.outbox, Route: out.router.Route, ResolveMentions: func(q db.Queryer, text string) (string, []string) { return p.mapper(q, a.Platform()).Out(text) },
		Render: func(q db.Queryer, m surface.Message) chat.Message {
			self, _ := a.Self()
			return compose.Compose(compose.Snapshot{
				Platform: a.Platform(), Messages: []surface.Message{m}, SelfID: self.ID, Names: p.mapper(q, a.Platform()).In, Images: p.now.Load().choice.Images,
			})[0]
		},
		MarkDelivered: func(tx *db.Tx, sessionID, messageID string) error {
			return p.store.Forwarded.MarkForwarded(tx, a.Platform(), sessionID, []string{messageID})
		},
	})
	return out
}

// callableSurface returns the access of callables to the platform.
func (p *program) callableSurface(s *platform) callables.Reader {
	name := s.adapter.Platform()
	return callables.Platform{
		DB: p.db, Cache: store.SurfaceCache{}, Adapter: s.adapter, Outbox: s.outbox, Table: store.Outbox{},
		Names:        func(q db.Queryer) *entity.Mapper { return p.mapper(q, name) },
		DeleteOthers: p.Config.Surface.Discord.DeleteOthers,
	}
}

// declare creates the consumer groups of the platform.
func (s *platform) declare(ctx context.Context) error {
	return errors.Join(s.router.Declare(ctx), s.relay.Declare(ctx))
}

// groups returns the consumer groups whose progress health checks.
func (s *platform) groups() []string {
	return []string{router.Group + "-" + s.adapter.Platform(), relay.HookName + "-" + s.adapter.Platform()}
}

// start runs the platform until ctx ends.
func (s *platform) start(ctx context.Context, work *errgroup.Group) {
	work.Go(func() error { return s.router.Run(ctx) })
	work.Go(func() error { return s.relay.Run(ctx) })
	work.Go(func() error { return s.outbox.Run(ctx) })
	work.Go(func() error {
		// A platform that rejects us does not stop the program. Health reports it.
		if err := s.adapter.Run(ctx); err != nil {
			s.logger.ErrorContext(ctx, "the connection to a platform has ended for good", "platform", s.adapter.Platform(), "error", fault.ToWire(err).Message)
		}
		return nil
	})
}

// routerSettings returns the settings of the configuration in force.
func (p *program) routerSettings() router.Settings {
	debounce := p.now.Load().config.Router.Debounce
	return router.Settings{Debounce: router.Debounce{Wait: time.Duration(debounce.Wait), Max: time.Duration(debounce.Max)}, Gate: p.gate()}
}

// isPlatform reports whether a relay shows the requests of a client.
func (p *program) isPlatform(client string) bool {
	return slices.ContainsFunc(p.platforms, func(s *platform) bool { return s.adapter.Platform() == client })
}

// instructions returns the system prompt: the operator's instructions, then those
// for the agent and for the platform.
func (p *program) instructions(operators, client string) string {
	in := agent.SystemInput{Instructions: operators, Workspace: p.Config.Workspace, Client: client}
	if client == task.Client {
		in.Client = "" // a task has no conversation
		return agent.SystemPrompt(in) + "\n" + taskInstructions
	}
	out := agent.SystemPrompt(in)
	if p.isPlatform(client) {
		out += "\n" + agent.ChatInstructions(client)
	}
	return out
}
