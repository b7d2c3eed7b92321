package entity

import (
	"maps"
	"slices"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
)

var (
	channelForm = lazyregexp.New(`^<#(\d{1,20})>$`)
	digits      = lazyregexp.New(`^\d{1,20}$`)
)

// SessionID resolves a session in any of the forms 123, <#123>, ops, and #ops.
// Without the #, the name must be configured. An unknown name is a fault.NotFound
// that suggests similar ones; an ambiguous name is a fault.Conflict that lists the
// channels.
func (m *Mapper) SessionID(form string) (id string, err error) {
	form = strings.TrimSpace(form)
	if found := channelForm().FindStringSubmatch(form); found != nil {
		return found[1], nil
	}
	alias := strings.ToLower(strings.TrimPrefix(form, "#"))
	if id, ok := m.channelNames.ids[alias]; ok {
		return id, nil
	}
	if digits().MatchString(form) {
		return form, nil
	}
	if strings.HasPrefix(form, "#") {
		if id, err := m.Channel(alias); fault.KindOf(err) != fault.NotFound {
			return id, err
		}
	}
	if near := m.near(alias); len(near) > 0 {
		return "", fault.New(fault.NotFound, "There is no session %q. Did you mean %s?", form, strings.Join(near, " or "))
	}
	return "", fault.New(fault.NotFound, "There is no session %q. Give its id, or name it under entity.sessions in the configuration.", form)
}

// Channel resolves the name of a channel, with or without #: a configured name, or
// the title of exactly one channel. An unknown name is a fault.NotFound; an
// ambiguous one is a fault.Conflict that lists the channels.
func (m *Mapper) Channel(name string) (id string, err error) {
	name = strings.TrimPrefix(name, "#")
	if id, ok := m.channelNames.ids[strings.ToLower(name)]; ok {
		return id, nil
	}
	var ids []string
	if m.known.Channels != nil {
		ids = m.known.Channels(name)
	}
	switch len(ids) {
	case 0:
		return "", fault.New(fault.NotFound, "There is no channel #%s.", name)
	case 1:
		return ids[0], nil
	}
	return "", fault.New(fault.Conflict, "#%s is ambiguous: %s. Give the id of the channel that you mean.", name, strings.Join(m.named(ids), ", "))
}

// maxNamed bounds the channels that an error lists.
const maxNamed = 10

// named returns the channels in the form that an error lists.
func (m *Mapper) named(ids []string) (out []string) {
	for _, id := range ids {
		if len(out) == maxNamed {
			return append(out, "and others")
		}
		if m.known.Where != nil {
			if where := m.known.Where(id); where != "" {
				id += " (" + where + ")"
			}
		}
		out = append(out, id)
	}
	return out
}

// Token returns the configured name of a channel, without the #.
func (m *Mapper) Token(channelID string) (token string, ok bool) {
	token, ok = m.channelNames.spelling[channelID]
	return token, ok
}

// near returns configured names that are similar to one, most similar first.
func (m *Mapper) near(alias string) []string {
	near := fault.Near(alias, slices.Collect(maps.Keys(m.channelNames.ids)))
	for i, name := range near {
		near[i] = "#" + name
	}
	return near
}
