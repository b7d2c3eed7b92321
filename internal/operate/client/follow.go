package client

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"time"

	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/sse"
)

// Frame is one frame of the event stream.
type Frame struct {
	// Cursor resumes after this frame.
	Cursor string
	Event  event.EnvEvent
}

// Events follows the event stream of a session, or of all sessions if it is empty, after
// a cursor, or from now on without one. It returns nil when ctx ends, and the error of
// fn when fn fails.
func (c *Client) Events(ctx context.Context, sessionID, cursor string, fn func(Frame) error) error {
	v := url.Values{}
	if sessionID != "" {
		v.Set("session_id", sessionID)
	}
	return c.follow(ctx, withQuery("/events", v), cursor, func(e sse.Event) error {
		f := Frame{Cursor: e.ID}
		if err := json.Unmarshal(e.Data, &f.Event); err != nil {
			return fault.Wrap(fault.Internal, err, "The server sent an invalid frame")
		}
		if f.Event.Type == "" {
			f.Event.Type = event.Type(e.Type)
		}
		return fn(f)
	})
}

// Tail follows the raw events of one bus topic, from now on or from the oldest retained
// event.
func (c *Client) Tail(ctx context.Context, topic event.Topic, fromBegin bool, fn func(event.Event) error) error {
	v := url.Values{}
	if fromBegin {
		v.Set("from", "begin")
	}
	path := withQuery("/bus/"+url.PathEscape(string(topic))+"/tail", v)
	return c.follow(ctx, path, "", func(e sse.Event) error {
		var ev event.Event
		if err := json.Unmarshal(e.Data, &ev); err != nil {
			return fault.Wrap(fault.Internal, err, "The server sent an invalid frame")
		}
		return fn(ev)
	})
}

// errHandler marks an error of the caller's function, which ends the stream.
type errHandler struct{ error }

func (c *Client) follow(ctx context.Context, path, cursor string, fn func(sse.Event) error) error {
	var away time.Time // when the server became unreachable; zero while it is connected
	for attempt := 0; ; attempt++ {
		opened, err := c.readStream(ctx, path, &cursor, func(e sse.Event) error {
			attempt, away = 0, time.Time{}
			return fn(e)
		})
		if !opened.IsZero() && time.Since(opened) >= c.steady { // it was connected, without events
			attempt, away = 0, time.Time{}
		}
		var stop errHandler
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &stop):
			return stop.error
		case !isAway(err):
			return err
		case away.IsZero():
			away = time.Now()
		case time.Since(away) > c.patience:
			return err
		}
		if !delay.Wait(ctx, c.pause(attempt)) {
			return nil
		}
	}
}

// readStream reads one connection to its end, and returns when it was opened. A
// connection that breaks is an Unavailable fault, so that the caller reconnects.
func (c *Client) readStream(ctx context.Context, path string, cursor *string, fn func(sse.Event) error) (opened time.Time, err error) {
	res, err := c.send(ctx, "GET", path, nil, "Accept", "text/event-stream", "Last-Event-ID", *cursor)
	if err != nil {
		return opened, err
	}
	opened = time.Now()
	defer res.Body.Close()
	dec := sse.NewDecoder(res.Body, maxAnswer)
	// Without any event yet, the server sends the cursor where the stream begins.
	defer func() {
		if id := dec.LastID(); id != "" {
			*cursor = id
		}
	}()
	for {
		e, err := dec.Next()
		switch {
		case errors.Is(err, sse.ErrTooLarge):
			return opened, fault.Wrap(fault.TooLarge, err, "The server sent an event that is too large")
		case err != nil && !errors.Is(err, io.EOF):
			return opened, c.unreachable(err)
		case err != nil:
			return opened, fault.Wrap(fault.Unavailable, err, "The server ended the stream")
		}
		if err := fn(e); err != nil {
			return opened, errHandler{err}
		}
	}
}
