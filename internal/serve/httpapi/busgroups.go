package httpapi

import (
	"net/http"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
)

// groups serves the consumer groups of the bus.
type groups struct{ bus bus.GroupTable }

// group is a consumer group with the server's verdict.
type group struct {
	bus.GroupStatus
	Silent bool `json:"silent"`
}

type groupList struct {
	Groups []group `json:"groups"`
}

func (s *groups) list(r *http.Request) (groupList, error) {
	found, err := s.bus.Groups(r.Context())
	out := groupList{make([]group, 0, len(found))}
	for _, g := range found {
		out.Groups = append(out.Groups, group{g, g.Silent()})
	}
	return out, err
}

func (s *groups) drop(r *http.Request) error {
	return s.bus.DropGroup(r.Context(), event.Topic(r.PathValue("topic")), r.PathValue("group"))
}
