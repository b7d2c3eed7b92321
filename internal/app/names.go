package app

import (
	"context"
	"slices"
	"strings"

	"lilac/internal/core/entity"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/store"
)

// mapper turns mentions of a platform into names and back, by what is
// configured and what the cache holds at the moment of q.
func (p *program) mapper(q db.Queryer, platform string) *entity.Mapper {
	cache := store.SurfaceCache{}
	// Whatever is not known, for whatever reason, is written with its id.
	names := p.now.Load().config.Entity
	return entity.New(names.Users.Discord, names.Sessions.Discord, entity.Known{
		User: func(id string) (string, bool) {
			u, err := cache.User(q, platform, id)
			return u.Name, err == nil && u.Name != ""
		},
		Users: func(name string) (ids []string) {
			users, err := cache.UsersNamed(q, platform, name)
			if err != nil {
				return nil
			}
			for _, u := range users {
				ids = append(ids, u.ID)
			}
			return ids
		},
		Channel: func(id string) (string, bool) {
			s, err := cache.Session(q, platform, id)
			return strings.TrimPrefix(s.Title, "#"), err == nil && s.Title != "" && s.Kind != surface.Direct
		},
		Channels: func(name string) (ids []string) {
			titled, err := p.channelsTitled(q, platform, name)
			if err != nil {
				p.Logger.Warn("the names of conversations are not known", "platform", platform, "error", err)
			}
			for _, s := range titled {
				ids = append(ids, s.ChannelID)
			}
			return ids
		},
		Where: func(id string) string {
			s, err := cache.Session(q, platform, id)
			if err != nil || s.Kind != surface.Thread {
				return ""
			}
			of, err := cache.Session(q, platform, s.ParentChannelID)
			if err != nil || of.Title == "" {
				return "a thread"
			}
			return "a thread of #" + strings.TrimPrefix(of.Title, "#")
		},
	})
}

// channelsTitled lists the channels and threads of a title that the platform
// shows us and that the configuration opens.
func (p *program) channelsTitled(q db.Queryer, name, title string) ([]surface.Session, error) {
	i := slices.IndexFunc(p.platforms, func(s *platform) bool { return s.adapter.Platform() == name })
	if i < 0 {
		return nil, nil
	}
	titled, err := store.SurfaceCache{}.SessionsTitled(q, name, title)
	return slices.DeleteFunc(titled, func(s surface.Session) bool {
		if s.Kind == surface.Direct || s.Hidden || !p.platforms[i].adapter.Opens(s) {
			return true
		}
		of, err := store.SurfaceCache{}.Session(q, name, s.ParentChannelID) // whoever sees that sees its threads
		return err == nil && s.Kind == surface.Thread && of.Hidden
	}), err
}

// rewrite returns what turns the names in a text of ours into mentions.
func (p *program) rewrite(platform string) func(context.Context, string) (string, []string) {
	return func(ctx context.Context, text string) (out string, users []string) {
		if !strings.ContainsAny(text, "@#") {
			return text, nil
		}
		out = text
		err := p.db.Read(ctx, func(q db.Queryer) error {
			out, users = p.mapper(q, platform).Out(text)
			return nil
		})
		if err != nil && ctx.Err() == nil {
			p.Logger.Warn("the names in a text stay names", "platform", platform, "error", err)
		}
		return out, users
	}
}
