package entity

import (
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// SessionTable has the sessions of all surfaces. Package store implements it.
type SessionTable interface {
	// ClientOf returns the surface of a session, and false if there is none.
	ClientOf(q db.Queryer, sessionID string) (client string, known bool, err error)
	// SessionTitled returns the newest session with a title, or "". It ignores the
	// titles that are names of channels of the platforms.
	SessionTitled(q db.Queryer, title string, platforms []string) (string, error)
}

// Sessions finds sessions on all surfaces. A channel of a platform counts as a session
// even before the first conversation in it, so that a rule can start one there.
type Sessions struct {
	Table     SessionTable
	Platforms []Platform
}

// Platform has the channels of one platform.
type Platform struct {
	Directory
	// Names maps the names of the platform, as they are at the time of q.
	Names func(q db.Queryer) *Mapper
	// Configured reports whether the configuration names a channel.
	Configured func(channelID string) bool
}

// ClientOf returns the surface of a session, and false if the session does not exist.
func (s Sessions) ClientOf(q db.Queryer, sessionID string) (client string, known bool, err error) {
	client, known, err = s.Table.ClientOf(q, sessionID)
	if known || err != nil || sessionID == "" {
		return client, known, err
	}
	for _, p := range s.Platforms {
		switch _, err := p.Cache.Session(q, p.Platform, sessionID); {
		case err == nil:
			return p.Platform, true, nil
		case fault.KindOf(err) != fault.NotFound:
			return "", false, err
		}
		if p.Configured(sessionID) {
			return p.Platform, true, nil
		}
	}
	return "", false, nil
}

// Titled returns the newest session with a title, or else the channel with that name,
// or "". If several channels have the name, it returns a fault.Conflict instead of
// guessing, even if the agent has a session in one of them.
func (s Sessions) Titled(q db.Queryer, title string) (string, error) {
	var names []string
	for _, p := range s.Platforms {
		names = append(names, p.Platform)
	}
	id, err := s.Table.SessionTitled(q, title, names)
	if err != nil || id != "" {
		return id, err
	}
	for _, p := range s.Platforms {
		id, err := p.Names(q).Channel(title)
		if fault.KindOf(err) != fault.NotFound {
			return id, err
		}
	}
	return "", nil
}
