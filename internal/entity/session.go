package entity

import (
	"maps"
	"slices"
	"strings"

	"lilac/internal/fault"
	"lilac/internal/lazyregexp"
)

var (
	channelForm = lazyregexp.New(`^<#(\d{1,20})>$`)
	digits      = lazyregexp.New(`^\d{1,20}$`)
)

// SessionID resolves a session's id in any of its forms: 123, <#123>, ops,
// #ops. An alias that is not configured is a fault.NotFound that names near
// ones, never a guess.
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
	if near := m.near(alias); len(near) > 0 {
		return "", fault.New(fault.NotFound, "There is no session %q. Did you mean %s?", form, strings.Join(near, " or "))
	}
	return "", fault.New(fault.NotFound, "There is no session %q. Give its id, or name it under entity.sessions in the configuration.", form)
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
