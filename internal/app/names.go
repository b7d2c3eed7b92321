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

// names looks up the names of people and conversations.
type names struct{ *base }

// directory returns the directory of a platform. While the platform is switched
// off, none of its channels is open.
func (n names) directory(name string) entity.Directory {
	open := func(surface.Session) bool { return false }
	if i := slices.IndexFunc(n.platforms, func(s *platform) bool { return s.adapter.Platform() == name }); i >= 0 {
		open = n.platforms[i].adapter.Opens
	}
	return entity.Directory{Cache: store.SurfaceCache{}, Platform: name, Open: open, Logger: n.Logger}
}

// mapper returns the mapper between mentions and names of a platform, with the
// names of the configuration that is in force.
func (n names) mapper(q db.Queryer, platform string) *entity.Mapper {
	names := n.now.Load().config.Entity
	return n.directory(platform).Mapper(q, names.Users.Discord, names.Sessions.Discord)
}

// titleOf returns the title of a session on its platform, "" if it is not known.
func (n names) titleOf(q db.Queryer, client, sessionID string) string {
	if client == task.Client {
		t, _ := n.store.Tasks.TaskByChild(q, sessionID) // without it, the first words are the title
		return t.Description
	}
	return n.directory(client).Title(q, sessionID)
}

// rewrite replaces the names in a text of the agent with mentions.
func (n names) rewrite(ctx context.Context, platform, text string) (out string, users []string) {
	if !strings.ContainsAny(text, "@#") {
		return text, nil
	}
	out = text
	err := n.db.Read(ctx, func(q db.Queryer) error {
		out, users = n.mapper(q, platform).Out(text)
		return nil
	})
	if err != nil && ctx.Err() == nil {
		n.Logger.Warn("cannot replace names with mentions", "platform", platform, "error", err)
	}
	return out, users
}
