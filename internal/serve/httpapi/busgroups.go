package httpapi

import (
	"net/http"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
)

// group is the status of a group with what the server makes of it.
type group struct {
	bus.GroupStatus
	Silent bool `json:"silent"`
}

func (a *api) listGroups(w http.ResponseWriter, r *http.Request) error {
	if err := onlyQuery(r); err != nil {
		return err
	}
	found, err := a.Bus.Groups(r.Context())
	if err != nil {
		return err
	}
	out := struct {
		Groups []group `json:"groups"`
	}{make([]group, 0, len(found))}
	for _, g := range found {
		out.Groups = append(out.Groups, group{g, g.Silent()})
	}
	return writeJSON(w, http.StatusOK, out)
}

func (a *api) dropGroup(w http.ResponseWriter, r *http.Request) error {
	if err := a.Bus.DropGroup(r.Context(), event.Topic(r.PathValue("topic")), r.PathValue("group")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
