package openaiapi

import (
	"context"
	"crypto/sha256"
	"net/http"

	"lilac/internal/foundation/fault"
)

// question has what a call of either API asks. field and formatField name its parameters.
type question struct {
	offer
	model, field, formatField string
	messages                  []message
	instructions, previous    string
	format                    *format
}

// call is a call that was accepted.
type call struct {
	run
	attempt
	conversation
	// surface is the client of its conversation.
	surface string
	model   Model
	// json reports that the client wants JSON.
	json bool
	// unselected reports that the call selects no conversation, repeats names the transcript that it
	// repeats, or is "", and text is its answer.
	unselected    bool
	repeats, text string
}

// submit reads a call and accepts it.
func (h *Handler) submit(w http.ResponseWriter, r *http.Request, client Client, hash [sha256.Size]byte, q *question) (c *call, err error) {
	c = &call{surface: ClientOf(client.Name)}
	if c.model, err = h.find(q.model); err != nil {
		return c, err
	}
	if err := c.divide(client, q); err != nil {
		return c, err
	}
	if c.json, err = c.demand(q.format, q.formatField); err != nil {
		return c, err
	}
	if c.model.Plain {
		c.MessageID = newID()
		return c, nil
	}
	sel, err := selects(r, q.previous, c.reference)
	if err != nil {
		return c, err
	}
	if c.attempt, err = attemptOf(client, r, hash); err != nil {
		return c, err
	}
	if c.unselected = sel == (selector{}); c.unselected && len(c.earlier) > 0 {
		c.repeats = c.transcript(c.earlier)
	}
	if err := h.accept(r.Context(), c, sel); err != nil {
		return c, err
	}
	w.Header().Set(sessionHeader, c.SessionID)
	return c, nil
}

// answer passes the answer to a call on until it ends.
func (h *Handler) answer(ctx context.Context, c *call, s sink) (out outcome, err error) {
	text := s.text
	if c.json {
		s.text = silent.text
	}
	if c.model.Plain {
		out = h.plain(ctx, c)
	} else {
		out, err = h.follow(ctx, c.run, s)
	}
	if c.json {
		out.text = lastJSON(out.text)
	}
	if (c.json || c.model.Plain) && err == nil && out.text != "" {
		err = text(out.text)
	}
	if err == nil && out.err == nil && !out.cancelled {
		c.text = out.text
	}
	return out, err
}

// maxPlain bounds the calls of the model without the agent that run at once: the limits of the day do not
// know yet what these will use.
const maxPlain = 8

// plain asks the model without the agent, when fewer than maxPlain calls run. A stop of Lilac ends the call.
func (h *Handler) plain(ctx context.Context, c *call) (out outcome) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(h.o.Stopping, cancel)()
	select {
	case h.plainCalls <- struct{}{}:
		defer func() { <-h.plainCalls }()
		out.text, out.usage, out.err = h.o.Plain(ctx, c.surface, c.instructions, c.opening())
	case <-ctx.Done():
		out.err = context.Cause(ctx)
	}
	if out.err != nil && h.o.Stopping.Err() != nil {
		out.err = fault.New(fault.Unavailable, "Lilac is restarting. Send the request again.")
	}
	return out
}
