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

// SessionID resolves a session's id in any of its forms: 123, <#123>, ops,
// #ops. Without the # a name has to be configured. One that means nothing is a
// fault.NotFound that names near aliases, one that means several channels a
// fault.Conflict that names them; it is never a guess.
func (m *Mapper) SessionID(form string) (id string, err error) {
	form = strings.TrimSpace(form)
	if found := channelForm().FindStringSubmatch(form); found != nil {
		return found[1], nil
	}
	alias := strings.ToLower(strings.TrimPrefix(form, "#"))
	if id, ok := m.places.ids[alias]; ok {
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

// Channel resolves the name of a channel, with or without #: the configured
// one, else the one channel that is called so. A name that nothing has is a
// fault.NotFound, one that several have a fault.Conflict that names them.
func (m *Mapper) Channel(name string) (id string, err error) {
	name = strings.TrimPrefix(name, "#")
	if id, ok := m.places.ids[strings.ToLower(name)]; ok {
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
	return "", fault.New(fault.Conflict, "#%s can be each of these: %s. Give the id of the one that you mean.", name, strings.Join(m.named(ids), ", "))
}

// maxNamed bounds how many channels an error names.
const maxNamed = 10

// named are channels as an error names them.
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

// Token is the alias of a channel, without the #; false if it has none.
func (m *Mapper) Token(channelID string) (token string, ok bool) {
	token, ok = m.places.spelling[channelID]
	return token, ok
}

// near lists configured aliases that look like one, the nearest first.
func (m *Mapper) near(alias string) []string {
	near := fault.Near(alias, slices.Collect(maps.Keys(m.places.ids)))
	for i, name := range near {
		near[i] = "#" + name
	}
	return near
}
