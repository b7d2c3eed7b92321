package app

import (
	"strings"

	"lilac/internal/core/task"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/grant"
	"lilac/internal/foundation/policy"
	"lilac/internal/operate/config"
	"lilac/internal/store"
	"lilac/internal/surfaces/discord"
)

// placeGrant returns what requests in a session may use, as the configuration in force
// says for its surface and channel. rules are those whose events the request handles.
func (p *base) placeGrant(q db.Queryer, client, sessionID string, rules []string) (grant.Grant, error) {
	cfg := p.now.Load().config
	channels := []string{sessionID}
	if client == discord.Platform {
		s, err := store.SurfaceCache{}.Session(q, client, sessionID)
		if err != nil && fault.KindOf(err) != fault.NotFound {
			return nil, err
		}
		if s.ParentChannelID != "" {
			channels = append(channels, s.ParentChannelID)
		}
	}
	return cfg.SurfaceTools(client, channels...).And(config.MCPGrant(cfg, client, rules, channels...)), nil
}

// policyPlace returns all names of the place where a request works. A sub-agent works where
// it was started.
func (p *base) policyPlace(q db.Queryer, client, sessionID string) (policy.Place, error) {
	if task.IsChild(sessionID) {
		payer, err := p.store.Tasks.PayerOf(q, sessionID)
		if err != nil {
			return policy.Place{}, err
		}
		origin, known, err := names{p}.sessions().ClientOf(q, payer)
		if err != nil {
			return policy.Place{}, err
		}
		if known {
			client, sessionID = origin, payer
		}
	}
	place := policy.Place{Names: []string{client, sessionID}}
	if client != discord.Platform {
		return place, nil
	}
	s, err := store.SurfaceCache{}.Session(q, client, sessionID)
	if err != nil && fault.KindOf(err) != fault.NotFound {
		return policy.Place{}, err
	}
	if s.ParentChannelID != "" {
		place.Names = append(place.Names, s.ParentChannelID)
	}
	return place, nil
}

// namedPlaceGrant is like placeGrant, for a session as a rule names it. Nothing restricts
// a session that does not exist.
func (p *base) namedPlaceGrant(q db.Queryer, name string) (grant.Grant, error) {
	if title, ok := strings.CutPrefix(name, "title:"); ok {
		id, err := names{p}.sessions().Titled(q, title)
		if err != nil && fault.KindOf(err) != fault.Conflict {
			return nil, err
		}
		name = id
	}
	client, known, err := names{p}.sessions().ClientOf(q, name)
	if err != nil || !known {
		return nil, err
	}
	return p.placeGrant(q, client, name, nil)
}

// sourceTools implements [environment.SourceTools] with the configuration in force.
func (p *base) sourceTools(origin event.Type, name string) grant.Tools {
	return p.now.Load().config.SourceTools(origin, name)
}
