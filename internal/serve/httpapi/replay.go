package httpapi

import (
	"context"
	"errors"
	"fmt"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

// maxReplay bounds what the running requests of one session may have said so
// far, in bytes; whoever wants more reads the event stream from the beginning.
const maxReplay = 16 << 20

// replay returns, as frames of the event stream, what the requests at a cursor
// have said so far. A reader that already follows the stream of all sessions
// joins a session with it: what is in both has the same ids.
func (a *api) replay(ctx context.Context, at cursor) (string, error) {
	const page = 500
	p := newProjection(at)
	frames, wishes := p.Begin(nil, a.Now().UnixMilli())
	for _, w := range wishes {
		after := w.after
		for len(frames) < maxReplay {
			said, err := a.Bus.Fetch(ctx, event.OutputTopic(w.request), after, page)
			if errors.Is(err, bus.ErrTrimmed) || db.IsDamaged(err) {
				break // what is left of it is in the stored messages
			}
			if err != nil {
				return "", fmt.Errorf("read output: %w", err)
			}
			if len(said) == 0 {
				break
			}
			for _, d := range said {
				after = d.Position
				frames, _ = p.Output(frames, w.request, d)
			}
		}
	}
	return string(frames), nil
}
