package httpapi

import (
	"net/http"

	"lilac/internal/engine/bus"
)

// deadLetters serves events that their group gave up on.
type deadLetters struct{ bus bus.DeadLetterQueue }

type deadLetterList struct {
	DeadLetters []bus.DeadLetter `json:"deadLetters"`
}

func (d *deadLetters) list(r *http.Request) (out deadLetterList, err error) {
	limit, err := limitOf(r)
	if err != nil {
		return out, err
	}
	letters, err := d.bus.DeadLetters(r.Context(), r.URL.Query().Get("before"), limit)
	out.DeadLetters = append([]bus.DeadLetter{}, letters...)
	return out, err
}

func (d *deadLetters) get(r *http.Request) (bus.DeadLetter, error) {
	return d.bus.DeadLetter(r.Context(), r.PathValue("id"))
}

type replayed struct {
	Success bool   `json:"success"`
	ID      string `json:"id"`
	Message string `json:"message"`
}

func (d *deadLetters) replay(r *http.Request) (replayed, error) {
	id := r.PathValue("id")
	return replayed{true, id, "Delivered to its group again."}, d.bus.Replay(r.Context(), id)
}

func (d *deadLetters) drop(r *http.Request) error { return d.bus.Drop(r.Context(), r.PathValue("id")) }
