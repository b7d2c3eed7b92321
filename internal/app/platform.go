package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"github.com/oklog/ulid/v2"
	"golang.org/x/sync/errgroup"

	"lilac/internal/core/compose"
	"lilac/internal/core/entity"
	"lilac/internal/core/interaction"
	"lilac/internal/core/mark"
	"lilac/internal/core/outbox"
	"lilac/internal/core/pairing"
	"lilac/internal/core/relay"
	"lilac/internal/core/router"
	"lilac/internal/core/surface"
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
	marks   *mark.Service
	// pairing decides about strangers; nil on a platform without private messages.
	pairing *pairing.Service
	logger  *slog.Logger
	// configure applies a new configuration.
	configure func(*config.Config)
}

// platformBuilder connects chat platforms to the cores.
type platformBuilder struct{ *base }

// buildPlatform builds the cores of a platform and connects them to its adapter.
func (b platformBuilder) buildPlatform(a surface.Adapter, interactions *interaction.Service) *platform {
	out := &platform{adapter: a, logger: b.Logger}
	cache, called := store.SurfaceCache{}, names(b)
	out.outbox = outbox.New(outbox.Options{
		DB: b.db, Table: b.Seams.Outbox.around(store.Outbox{}), Adapter: b.Seams.Adapter.around(a), Logger: b.Logger,
		Hooks: map[string]outbox.OnSent{
			relay.HookName: func(tx *db.Tx, r outbox.Row, m surface.Message) error {
				return out.relay.OnSent(tx, r, m)
			},
			callables.HookName: callables.Remember(cache),
			workflow.Group:     b.workflows.OnSent,
		},
		Wanted: map[string]outbox.Wanted{workflow.Group: b.workflows.StillWanted},
	})
	out.relay = relay.New(relay.Options{
		DB: b.db, Bus: b.bus, Table: b.Seams.Relay.around(b.store.Relays), Outbox: out.outbox, Cache: cache, Adapter: a, Logger: b.Logger,
		Requests: relayRequests{b.base, interactions}, Format: relayFormat{called, a.Platform()},
		Refused:   func(tx *db.Tx, r relay.Row, askers []relay.Asker) error { return b.answerRefused(tx, out, r, askers) },
		PingAfter: func() time.Duration { return time.Duration(b.now.Load().config.Surface.Discord.PingAfter) },
	})
	out.marks = mark.New(mark.Options{DB: b.db, Table: b.store.Marks, Adapter: a, Logger: b.Logger, Untold: b.untold})
	profile := platformProfile{called, a}
	out.router = router.New(router.Options{
		Platform: a.Platform(), DB: b.db, Bus: b.bus, Table: b.Seams.Router.around(store.RouterTables{}), Inbox: b.store.Inbox, Cache: cache, Logger: b.Logger,
		Profile: profile, Replies: profile, Marks: out.marks,
		Budget:    gateBudget(b),
		NoVerdict: b.gateUnreadable,
		Muted: func(tx *db.Tx, sessionID string) error {
			_, err := b.complainOfPlace(tx, a.Platform(), sessionID, "The bot lacks the permission to send messages (Missing Permissions).")
			return err
		},
		Settings: b.routerSettings(), NewID: func() string { return strings.ToLower(ulid.Make().String()) },
	})
	b.workflows.Connect(a.Platform(), workflow.Platform{
		Outbox: out.outbox, Route: out.router.Route, ResolveMentions: func(q db.Queryer, text string) (string, []string) { return called.mapper(q, a.Platform()).Out(text) },
		Render: func(q db.Queryer, m surface.Message) chat.Message {
			self, _ := a.Self()
			return compose.Compose(compose.Snapshot{
				Platform: a.Platform(), Messages: []surface.Message{m}, SelfID: self.ID, Names: called.mapper(q, a.Platform()).In, Shows: models(b).shows,
			})[0]
		},
		MarkDelivered: func(tx *db.Tx, sessionID, messageID string) error {
			return b.store.Forwarded.MarkForwarded(tx, a.Platform(), sessionID, []string{messageID})
		},
	})
	return out
}

// callableSurface returns the access of callables to the platform.
func (n names) callableSurface(s *platform) callables.Reader {
	name := s.adapter.Platform()
	return callables.Platform{
		DB: n.db, Cache: store.SurfaceCache{}, Adapter: s.adapter, Outbox: s.outbox, Table: store.Outbox{},
		Names:        func(q db.Queryer) *entity.Mapper { return n.mapper(q, name) },
		DeleteOthers: n.Config.Surface.Discord.DeleteOthers,
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
	work.Go(func() error { return s.marks.Run(ctx) })
	if s.pairing != nil {
		work.Go(func() error { return s.pairing.Run(ctx) })
	}
	work.Go(func() error {
		// A platform that rejects us does not stop the program. Health reports it.
		if err := s.adapter.Run(ctx); err != nil {
			s.logger.ErrorContext(ctx, "the connection to a platform has ended for good", "platform", s.adapter.Platform(), "error", fault.ToWire(err).Message)
		}
		return nil
	})
}
