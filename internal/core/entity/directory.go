package entity

import (
	"log/slog"
	"slices"
	"strings"

	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// Cache has the cached users and sessions of platforms. Package store implements
// it.
type Cache interface {
	User(q db.Queryer, platform, id string) (surface.User, error)
	UsersNamed(q db.Queryer, platform, name string) ([]surface.User, error)
	Session(q db.Queryer, platform, channelID string) (surface.Session, error)
	SessionsTitled(q db.Queryer, platform, title string) ([]surface.Session, error)
}

// Directory looks up the names of one platform's users and channels in the cache.
// It is safe for concurrent use.
type Directory struct {
	Cache    Cache
	Platform string
	// Open reports whether the configuration opens a channel.
	Open   func(s surface.Session) bool
	Logger *slog.Logger
}

// Mapper returns a mapper for the configured names that otherwise looks names up
// in the cache, as it is at the time of q. A name that cannot be looked up is
// written with its id.
func (d Directory) Mapper(q db.Queryer, users, channels map[string]string) *Mapper {
	name := func(id string) (string, bool) {
		u, err := d.Cache.User(q, d.Platform, id)
		return u.Name, err == nil && u.Name != ""
	}
	return New(users, channels, Known{
		User: name,
		Role: name,
		Users: func(name string) (ids []string) {
			users, err := d.Cache.UsersNamed(q, d.Platform, name)
			if err != nil {
				return nil
			}
			for _, u := range users {
				ids = append(ids, u.ID)
			}
			return ids
		},
		Channel: func(id string) (string, bool) {
			s, err := d.Cache.Session(q, d.Platform, id)
			return strings.TrimPrefix(s.Title, "#"), err == nil && s.Title != "" && s.Kind != surface.Direct
		},
		Channels: func(name string) (ids []string) { return d.openChannels(q, name) },
		Where:    func(id string) string { return d.where(q, id) },
	})
}

// Title returns the title of a session for people: with # for a channel, and ""
// if it is not known.
func (d Directory) Title(q db.Queryer, sessionID string) string {
	s, err := d.Cache.Session(q, d.Platform, sessionID)
	switch {
	case err != nil && fault.KindOf(err) != fault.NotFound:
		d.Logger.Warn("cannot look up the title of a session", "platform", d.Platform, "session_id", sessionID, "error", err)
		return ""
	case s.Title == "" || s.Kind == surface.Direct:
		return s.Title
	}
	return "#" + strings.TrimPrefix(s.Title, "#")
}

// openChannels returns the channels and threads with a title that the platform
// shows to us and that the configuration opens.
func (d Directory) openChannels(q db.Queryer, title string) (ids []string) {
	titled, err := d.Cache.SessionsTitled(q, d.Platform, title)
	if err != nil {
		d.Logger.Warn("cannot look up channels by their title", "platform", d.Platform, "error", err)
	}
	titled = slices.DeleteFunc(titled, func(s surface.Session) bool {
		if s.Kind == surface.Direct || s.Hidden || !d.Open(s) {
			return true
		}
		// A channel and its threads are visible to the same people.
		parent, err := d.Cache.Session(q, d.Platform, s.ParentChannelID)
		return err == nil && s.Kind == surface.Thread && parent.Hidden
	})
	for _, s := range titled {
		ids = append(ids, s.ChannelID)
	}
	return ids
}

// where describes the location of a thread; "" for other channels.
func (d Directory) where(q db.Queryer, id string) string {
	s, err := d.Cache.Session(q, d.Platform, id)
	if err != nil || s.Kind != surface.Thread {
		return ""
	}
	parent, err := d.Cache.Session(q, d.Platform, s.ParentChannelID)
	if err != nil || parent.Title == "" {
		return "a thread"
	}
	return "a thread of #" + strings.TrimPrefix(parent.Title, "#")
}
