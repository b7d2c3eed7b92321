package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"lilac/internal/core/account"
	"lilac/internal/core/session"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

// start is the point where an event stream begins.
type startPoint struct {
	at cursor
	// gap reports that the cursor belongs to another store or bus, so it is unknown
	// what the client missed.
	gap bool
	// unfollowed are the running requests that do not fit into a cursor.
	unfollowed []session.Request
}

// startOf finds the start point that the client asked for.
func (s *streams) startOf(r *http.Request, sessionID string, view *viewer) (b startPoint, err error) {
	given := r.Header.Get("Last-Event-ID")
	if given == "" {
		given = r.URL.Query().Get("cursor")
	}
	from := r.URL.Query().Get("from")
	switch {
	case from != "" && from != "begin" && from != "now":
		return b, fault.InvalidField("from", "from must be begin or now.")
	case given != "":
		if b.at, err = parseCursor(given); err != nil {
			return b, err
		}
		if b.at.Epoch != s.epoch() {
			return startPoint{at: cursor{Epoch: s.epoch()}, gap: true}, nil
		}
		// The cursor may come from a stream of all sessions. This stream would never
		// see the end of requests in other sessions.
		b.at.Runs = slices.DeleteFunc(b.at.Runs, func(r runCursor) bool { return sessionID != "" && r.Session != "" && r.Session != sessionID })
		if err := s.keepVisible(r.Context(), &b.at, view); err != nil {
			return b, err
		}
		err := s.checkPositions(r.Context(), b.at)
		if fault.KindOf(err) == fault.Invalid { // not positions of this bus
			return startPoint{at: cursor{Epoch: s.epoch()}, gap: true}, nil
		}
		return b, err
	case from == "begin":
		b.at.Epoch = s.epoch()
		return b, nil
	}
	b.at, b.unfollowed, err = s.startNow(r.Context(), sessionID)
	if err != nil || view == nil {
		return b, err
	}
	if err := s.keepVisible(r.Context(), &b.at, view); err != nil {
		return b, err
	}
	b.unfollowed, err = visibleRequests(r.Context(), b.unfollowed, view)
	return b, err
}

// keepVisible drops the requests of a cursor that the person may not see. A client can make up a
// cursor, so the sessions are looked up.
func (s *streams) keepVisible(ctx context.Context, at *cursor, view *viewer) error {
	if view == nil || view.caller.Role == account.Operator {
		return nil
	}
	var kept []runCursor
	for _, run := range at.Runs {
		var row session.Request
		err := s.db.Read(ctx, func(q db.Queryer) (err error) {
			row, err = s.requests.Request(q, run.Request)
			return err
		})
		if fault.KindOf(err) == fault.NotFound || db.IsDamaged(err) {
			continue
		}
		if err != nil {
			return err
		}
		visible, err := view.sees(ctx, row.SessionID)
		if err != nil {
			return err
		}
		if visible {
			run.Session = row.SessionID
			kept = append(kept, run)
		}
	}
	at.Runs = kept
	return nil
}

// visibleRequests returns the requests that the person may see.
func visibleRequests(ctx context.Context, all []session.Request, view *viewer) (kept []session.Request, err error) {
	for _, one := range all {
		visible, err := view.sees(ctx, one.SessionID)
		if err != nil {
			return nil, err
		}
		if visible {
			kept = append(kept, one)
		}
	}
	return kept, nil
}

// checkPositions returns an error for a cursor that the bus cannot read, while a
// status can still be sent.
func (s *streams) checkPositions(ctx context.Context, at cursor) error {
	positions := map[event.Topic]bus.Position{event.TopicEnv: at.Env, event.TopicRequest: at.Req}
	for _, r := range at.Runs {
		positions[event.OutputTopic(r.Request)] = r.After
	}
	for topic, pos := range positions {
		if _, err := s.bus.Fetch(ctx, topic, pos, 0); err != nil && !errors.Is(err, bus.ErrTrimmed) {
			return err
		}
	}
	return nil
}

// epoch identifies the store. Positions are comparable only within one epoch.
func (s *streams) epoch() string {
	if s.db == nil {
		return ""
	}
	return s.db.StoreID()
}

// startNow returns the current positions. A running request is at the end of its
// output so far. A request that began after the returned position of the request
// topic is left out, because the stream will see it begin.
func (s *streams) startNow(ctx context.Context, sessionID string) (at cursor, unfollowed []session.Request, err error) {
	at.Epoch = s.epoch()
	if at.Env, err = s.bus.Last(ctx, event.TopicEnv); err != nil {
		return at, nil, fmt.Errorf("find end of %s: %w", event.TopicEnv, err)
	}
	if at.Req, err = s.bus.Last(ctx, event.TopicRequest); err != nil {
		return at, nil, fmt.Errorf("find end of %s: %w", event.TopicRequest, err)
	}
	if s.requests == nil {
		return at, nil, nil
	}
	var running []session.Request
	err = s.db.Read(ctx, func(q db.Queryer) (err error) {
		running, err = s.requests.Running(q, sessionID)
		return err
	})
	if err != nil || len(running) == 0 {
		return at, nil, err
	}
	begun, err := s.begunAfter(ctx, at.Req)
	if err != nil {
		return at, nil, err
	}
	for _, req := range running {
		if begun[req.ID] {
			continue
		}
		if len(at.Runs) == maxFollowed {
			unfollowed = append(unfollowed, req)
			continue
		}
		after, err := s.bus.Last(ctx, event.OutputTopic(req.ID))
		if err != nil {
			return at, nil, fmt.Errorf("find end of output: %w", err)
		}
		at.Runs = append(at.Runs, runCursor{Request: req.ID, Session: req.SessionID, After: after})
	}
	return at, unfollowed, nil
}

// begunAfter returns the requests that began after a recent position.
func (s *streams) begunAfter(ctx context.Context, after bus.Position) (map[string]bool, error) {
	const page = 200
	begun := map[string]bool{}
	for {
		events, err := s.bus.Fetch(ctx, event.TopicRequest, after, page)
		if errors.Is(err, bus.ErrTrimmed) {
			return begun, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", event.TopicRequest, err)
		}
		if len(events) == 0 {
			return begun, nil
		}
		for _, d := range events {
			after = d.Position
			if p, err := event.Decode(d.Event); err == nil {
				if l, ok := p.(event.RequestLifecycle); ok && l.State == event.StateRunning {
					begun[d.Headers.RequestID()] = true
				}
			}
		}
	}
}

// maxReplay limits the replayed output of the running requests of a session, in
// bytes. A client that wants more reads the event stream from the beginning.
const maxReplay = 16 << 20

// replay returns the output so far of the requests at a cursor, as frames of the
// event stream. A client that already follows the stream of all sessions uses it
// to open a session; frames that it has already received have the same ids.
func (s *streams) replay(ctx context.Context, at cursor) (string, error) {
	const page = 500
	p := newProjection(at)
	frames, effects := p.Begin(nil, s.now().UnixMilli())
	for _, e := range effects {
		opened, ok := e.(follow)
		if !ok {
			continue
		}
		after := opened.after
		for len(frames) < maxReplay {
			output, err := s.bus.Fetch(ctx, event.OutputTopic(opened.request), after, page)
			if errors.Is(err, bus.ErrTrimmed) || db.IsDamaged(err) {
				break // the stored messages have whatever is left
			}
			if err != nil {
				return "", fmt.Errorf("read output: %w", err)
			}
			if len(output) == 0 {
				break
			}
			for _, d := range output {
				after = d.Position
				frames, _ = p.Output(frames, opened.request, d)
			}
		}
	}
	return string(frames), nil
}
