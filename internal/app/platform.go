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
	"lilac/internal/builtin"
	"lilac/internal/config"
	"lilac/internal/db"
	"lilac/internal/event"
	"lilac/internal/fault"
	"lilac/internal/llm"
	"lilac/internal/outbox"
	"lilac/internal/relay"
	"lilac/internal/router"
	"lilac/internal/store"
	"lilac/internal/surface"
	"lilac/internal/tool"
)

// platform is what serves one place where people talk.
type platform struct {
	adapter surface.Adapter
	outbox  *outbox.Service
	router  *router.Service
	relay   *relay.Service
	logger  *slog.Logger
}

// buildPlatform joins the cores that serve a platform to its adapter.
func (p *program) buildPlatform(a surface.Adapter, blobs *store.Blobs) *platform {
	out := &platform{adapter: a, logger: p.Logger}
	cache := store.SurfaceCache{}
	out.outbox = outbox.New(outbox.Options{
		DB: p.db, Table: store.Outbox{}, Adapter: a, Logger: p.Logger,
		Hooks: map[string]outbox.OnSent{relay.HookName: func(tx *db.Tx, r outbox.Row, m surface.Message) error {
			return out.relay.OnSent(tx, r, m)
		}},
	})
	out.relay = relay.New(relay.Options{
		DB: p.db, Bus: p.bus, Table: p.store, Outbox: out.outbox, Cache: cache, Adapter: a, Logger: p.Logger,
		Rewrite: p.rewrite(a.Platform()), BlobSize: blobs.Size, Paused: p.waits,
	})
	debounce := p.Config.Router.Debounce
	out.router = router.New(router.Options{
		Platform: a.Platform(), DB: p.db, Bus: p.bus, Table: p.store, Inbox: p.store, Cache: cache, Logger: p.Logger,
		SelfID:   func() string { self, _ := a.Self(); return self.ID },
		Names:    func(q db.Queryer) func(string) string { return p.mapper(q, a.Platform()).In },
		Mode:     func(s surface.Session) router.Mode { return modeOf(p.Config.Surface.Discord, s) },
		Images:   func() bool { return p.now.Load().choice.Images },
		Debounce: router.Debounce{Wait: time.Duration(debounce.Wait), Max: time.Duration(debounce.Max)},
		Gate:     p.gate(), NewID: func() string { return strings.ToLower(ulid.Make().String()) },
	})
	return out
}

// declare makes what the platform subscribes to exist.
func (s *platform) declare(ctx context.Context) error {
	return errors.Join(s.router.Declare(ctx), s.relay.Declare(ctx))
}

// groups are those that the promise needs.
func (s *platform) groups() []string {
	return []string{router.Group + "-" + s.adapter.Platform(), relay.HookName + "-" + s.adapter.Platform()}
}

// start runs the platform until ctx ends.
func (s *platform) start(ctx context.Context, work *errgroup.Group) {
	work.Go(func() error { return s.router.Run(ctx) })
	work.Go(func() error { return s.relay.Run(ctx) })
	work.Go(func() error { return s.outbox.Run(ctx) })
	work.Go(func() error {
		// A platform that refuses us takes nothing else with it: health says so.
		if err := s.adapter.Run(ctx); err != nil {
			s.logger.ErrorContext(ctx, "the connection to a platform has ended for good", "platform", s.adapter.Platform(), "error", fault.ToWire(err).Message)
		}
		return nil
	})
}

// modeOf is how a channel listens: as it is set for it, for the channel that a
// thread belongs to, or for all.
func modeOf(c config.Discord, s surface.Session) router.Mode {
	for _, id := range []string{s.ChannelID, s.ParentChannelID} {
		if set := c.Channels[id].Mode; set != "" {
			return router.Mode(set)
		}
	}
	return router.Mode(c.Mode)
}

// gate asks the small model of the configuration, if there is one.
func (p *program) gate() router.Gate {
	choice, ok, err := p.Config.ResolveGate()
	if err != nil || !ok { // a validated configuration has no wrong one
		return nil
	}
	model := p.observer.Model(newModel(choice))
	return router.ModelGate(func() llm.Model { return model })
}

// waits reports whether a request waits at a limit for somebody's answer.
func (p *program) waits(q db.Queryer, requestID string) (bool, error) {
	r, err := event.ParseRequestID(requestID)
	if err != nil {
		return false, err
	}
	state, err := p.store.State(q, r.Session)
	return err == nil && state.Active != nil && state.Active.RequestID == requestID && state.Waits() != nil, err
}

// isPlatform reports whether requests of a client are shown by a relay.
func (p *program) isPlatform(client string) bool {
	return slices.ContainsFunc(p.platforms, func(s *platform) bool { return s.adapter.Platform() == client })
}

// titleOf is what a platform calls a conversation, "" if that is not known.
func (p *program) titleOf(q db.Queryer, client, sessionID string) string {
	s, err := store.SurfaceCache{}.Session(q, client, sessionID)
	switch {
	case err != nil && fault.KindOf(err) != fault.NotFound:
		p.Logger.Warn("the name of a conversation is not known", "session_id", sessionID, "error", err)
		return ""
	case s.Title == "" || s.Kind == surface.Direct:
		return s.Title
	}
	return "#" + strings.TrimPrefix(s.Title, "#")
}

// instructions are what the model is told of the place where people talk.
func (p *program) instructions(operators, client string) string {
	if !p.isPlatform(client) {
		return operators
	}
	return strings.TrimSpace(operators + "\n\n" + agent.ChatInstructions(client))
}

// handOver gives files of the agent to people who read its answer on a
// platform; without one there is nowhere to give them to.
func (p *program) handOver(blobs *store.Blobs) builtin.HandOver {
	if len(p.platforms) == 0 {
		return nil
	}
	return func(ctx context.Context, call tool.Call, f builtin.File) error {
		if !p.isPlatform(call.Client) {
			return fault.New(fault.Denied, "The people in this conversation see no files. Tell them where the file is in the workspace.")
		}
		ref, err := blobs.Put(ctx, f.Data)
		if err != nil {
			return err
		}
		return p.runner.HandOver(ctx, call.RequestID, event.BinaryOutput{BinaryID: f.ID, MimeType: f.MimeType, Filename: f.Name, Blob: ref})
	}
}
