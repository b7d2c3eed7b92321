package app

import (
	"context"
	"slices"
	"strings"

	"lilac/internal/core/entity"
	"lilac/internal/core/surface"
	"lilac/internal/core/task"
	"lilac/internal/engine/db"
	"lilac/internal/store"
)

// directory returns the directory of a platform. While the platform is switched
// off, none of its channels is open.
func (p *program) directory(name string) entity.Directory {
	open := func(surface.Session) bool { return false }
	if i := slices.IndexFunc(p.platforms, func(s *platform) bool { return s.adapter.Platform() == name }); i >= 0 {
		open = p.platforms[i].adapter.Opens
	}
	return entity.Directory{Cache: store.SurfaceCache{}, Platform: name, Open: open, Logger: p.Logger}
}

// mapper returns the mapper between mentions and names of a platform, with the
// names of the configuration that is in force.
func (p *program) mapper(q db.Queryer, platform string) *entity.Mapper {
	names := p.now.Load().config.Entity
	return p.directory(platform).Mapper(q, names.Users.Discord, names.Sessions.Discord)
}

// titleOf returns the title of a session on its platform, "" if it is not known.
func (p *program) titleOf(q db.Queryer, client, sessionID string) string {
	if client == task.Client {
		t, _ := p.store.Tasks.TaskByChild(q, sessionID) // without it, the first words are the title
		return t.Description
	}
	return p.directory(client).Title(q, sessionID)
}

// rewrite replaces the names in a text of the agent with mentions.
func (p *program) rewrite(ctx context.Context, platform, text string) (out string, users []string) {
	if !strings.ContainsAny(text, "@#") {
		return text, nil
	}
	out = text
	err := p.db.Read(ctx, func(q db.Queryer) error {
		out, users = p.mapper(q, platform).Out(text)
		return nil
	})
	if err != nil && ctx.Err() == nil {
		p.Logger.Warn("cannot replace names with mentions", "platform", platform, "error", err)
	}
	return out, users
}
