package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"lilac/internal/bus"
	"lilac/internal/db"
	"lilac/internal/event"
	"lilac/internal/fault"
	"lilac/internal/session"
)

// Sizes of a stream. A tail waits when its channel is full, and the engine
// then reads it from the log again, so these only smooth bursts, and a slot is
// memory that every open stream holds. A batch is one write: large enough to be
// cheap, small enough to be soon.
const (
	tailQueue  = 16
	quietQueue = 4
	batchBytes = 32 << 10
	maxStreams = 4096
)

// input is one thing that a tail says.
type input struct {
	topic   event.Topic
	request string // of the output topics
	d       bus.Delivery
	trimmed bool
	err     error
}

// stream serves one reader.
type stream struct {
	a       *api
	session string
	proj    *projection
	out     *streamWriter

	envs, requests, outputs chan input

	tails  sync.WaitGroup
	cancel map[string]context.CancelFunc // of followed requests
}

func (a *api) events(w http.ResponseWriter, r *http.Request) error {
	if err := onlyQuery(r, "session_id", "cursor", "from"); err != nil {
		return err
	}
	sessionID := r.URL.Query().Get("session_id")
	if sessionID != "" {
		if err := a.needSession(r.Context(), sessionID); err != nil {
			return err
		}
	}
	at, gap, err := a.startOf(r, sessionID)
	if err != nil {
		return err
	}
	out, err := a.openStream(w, r)
	if err != nil {
		return err
	}
	defer a.stats.streams.Add(-1)
	s := &stream{
		a: a, session: sessionID, proj: newProjection(at), out: out,
		envs: make(chan input, quietQueue), requests: make(chan input, quietQueue), outputs: make(chan input, tailQueue),
		cancel: map[string]context.CancelFunc{},
	}
	return s.serve(r.Context(), gap)
}

func (a *api) needSession(ctx context.Context, id string) error {
	if err := a.needSessions(); err != nil {
		return err
	}
	return a.DB.Read(ctx, func(q db.Queryer) error {
		_, err := a.Store.Session(q, id)
		return err
	})
}

// startOf says where a stream begins. gap is set when its cursor belongs to
// another store, so that nothing can be said about what was missed.
func (a *api) startOf(r *http.Request, sessionID string) (at cursor, gap bool, err error) {
	given := r.Header.Get("Last-Event-ID")
	if given == "" {
		given = r.URL.Query().Get("cursor")
	}
	from := r.URL.Query().Get("from")
	switch {
	case from != "" && from != "begin" && from != "now":
		return at, false, fault.InvalidField("from", "from has to be begin or now.")
	case given != "":
		if at, err = parseCursor(given); err != nil {
			return at, false, err
		}
		if at.Epoch != a.epoch() {
			return cursor{Epoch: a.epoch()}, true, nil
		}
		return at, false, a.checkPositions(r.Context(), at)
	case from == "begin":
		return cursor{Epoch: a.epoch()}, false, nil
	}
	at, err = a.startNow(r.Context(), sessionID)
	return at, false, err
}

// checkPositions refuses a cursor that the engine cannot read, while there is
// still an answer to say it in.
func (a *api) checkPositions(ctx context.Context, at cursor) error {
	positions := map[event.Topic]bus.Position{event.TopicEnv: at.Env, event.TopicRequest: at.Req}
	for _, r := range at.Runs {
		positions[event.OutputTopic(r.Request)] = r.After
	}
	for topic, pos := range positions {
		if _, err := a.Bus.Fetch(ctx, topic, pos, 0); err != nil && !errors.Is(err, bus.ErrTrimmed) {
			return err
		}
	}
	return nil
}

func (a *api) epoch() string {
	if a.DB == nil {
		return ""
	}
	return a.DB.StoreID()
}

// startNow returns the positions of this moment. A request that runs is at the
// end of what it said so far. One that began after the position of the topic
// of requests is left out: the stream will see it begin.
func (a *api) startNow(ctx context.Context, sessionID string) (at cursor, err error) {
	at.Epoch = a.epoch()
	if at.Env, err = a.Bus.Last(ctx, event.TopicEnv); err != nil {
		return at, fmt.Errorf("find end of %s: %w", event.TopicEnv, err)
	}
	if at.Req, err = a.Bus.Last(ctx, event.TopicRequest); err != nil {
		return at, fmt.Errorf("find end of %s: %w", event.TopicRequest, err)
	}
	if a.Store == nil {
		return at, nil
	}
	var running []session.Request
	err = a.DB.Read(ctx, func(q db.Queryer) (err error) {
		running, err = a.Store.Running(q, sessionID)
		return err
	})
	if err != nil || len(running) == 0 {
		return at, err
	}
	begun, err := a.begunAfter(ctx, at.Req)
	if err != nil {
		return at, err
	}
	for _, req := range running {
		if begun[req.ID] || len(at.Runs) == maxFollowed {
			continue
		}
		after, err := a.Bus.Last(ctx, event.OutputTopic(req.ID))
		if err != nil {
			return at, fmt.Errorf("find end of output: %w", err)
		}
		at.Runs = append(at.Runs, runCursor{Request: req.ID, Session: req.SessionID, After: after})
	}
	return at, nil
}

// begunAfter returns the requests that began after a position a moment ago.
func (a *api) begunAfter(ctx context.Context, after bus.Position) (map[string]bool, error) {
	const page = 200
	begun := map[string]bool{}
	for {
		events, err := a.Bus.Fetch(ctx, event.TopicRequest, after, page)
		if errors.Is(err, bus.ErrTrimmed) {
			return begun, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", event.TopicRequest, err)
		}
		for _, d := range events {
			after = d.Position
			if p, err := event.Decode(d.Event); err == nil {
				if l, ok := p.(event.RequestLifecycle); ok && l.State == event.StateRunning {
					begun[d.Headers.RequestID()] = true
				}
			}
		}
		if len(events) < page {
			return begun, nil
		}
	}
}

// serve runs the stream until its reader is gone, ctx ends or a tail fails.
func (s *stream) serve(ctx context.Context, gap bool) error {
	ctx, stop := context.WithCancel(ctx)
	defer func() {
		stop()
		s.tails.Wait()
	}()
	now := s.a.Now().UnixMilli()
	var wishes []wish
	s.out.buf, wishes = s.proj.Begin(s.out.buf, now)
	if gap {
		s.out.buf = s.proj.Gap(s.out.buf, event.TopicRequest, now)
	}
	if err := s.grant(ctx, wishes); err != nil {
		return err
	}
	s.tail(ctx, s.envs, bus.Tail{Topic: event.TopicEnv, Lane: s.session, After: s.proj.at.Env}, "")
	s.tail(ctx, s.requests, bus.Tail{Topic: event.TopicRequest, Lane: s.session, After: s.proj.at.Req}, "")
	if err := s.out.flush(); err != nil {
		return err
	}
	beat := time.NewTicker(s.a.Heartbeat)
	defer beat.Stop()
	for {
		// The topic of requests waits while the output of one that ended is
		// still on its way.
		requests := s.requests
		if s.proj.Waiting() {
			requests = nil
		}
		var err error
		select {
		case <-ctx.Done():
			return nil
		case in := <-s.outputs:
			err = s.take(ctx, in)
		case in := <-requests:
			err = s.take(ctx, in)
		case in := <-s.envs:
			err = s.take(ctx, in)
		case <-beat.C:
			s.out.comment()
		}
		if err == nil {
			err = s.takeMore(ctx)
		}
		if err == nil {
			err = s.out.flush()
		}
		if err != nil {
			return err
		}
	}
}

// takeMore takes what else is there already, so that it shares one write.
func (s *stream) takeMore(ctx context.Context) error {
	for len(s.out.buf) < batchBytes {
		requests := s.requests
		if s.proj.Waiting() {
			requests = nil
		}
		var in input
		select {
		case in = <-s.outputs:
		case in = <-requests:
		case in = <-s.envs:
		default:
			return nil
		}
		if err := s.take(ctx, in); err != nil {
			return err
		}
	}
	return nil
}

func (s *stream) take(ctx context.Context, in input) error {
	if in.err != nil {
		return in.err
	}
	var wishes []wish
	now := s.a.Now().UnixMilli()
	switch {
	case in.request != "" && in.trimmed:
		s.out.buf, wishes = s.proj.OutputGone(s.out.buf, in.request, now)
	case in.request != "":
		s.a.stats.deltas.Add(1)
		s.out.buf, wishes = s.proj.Output(s.out.buf, in.request, in.d)
	case in.trimmed:
		s.out.buf = s.proj.Gap(s.out.buf, in.topic, now)
	case in.topic == event.TopicEnv:
		s.out.buf = s.proj.Env(s.out.buf, in.d)
	default:
		s.out.buf, wishes = s.proj.Request(s.out.buf, in.d)
	}
	return s.grant(ctx, wishes)
}

// grant does what the projection wishes.
func (s *stream) grant(ctx context.Context, wishes []wish) error {
	for len(wishes) > 0 {
		w := wishes[0]
		wishes = wishes[1:]
		switch w.kind {
		case follow:
			tctx, cancel := context.WithCancel(ctx)
			s.cancel[w.request] = cancel
			s.tail(tctx, s.outputs, bus.Tail{Topic: event.OutputTopic(w.request), After: w.after}, w.request)
		case unfollow:
			if cancel, ok := s.cancel[w.request]; ok {
				cancel()
				delete(s.cancel, w.request)
			}
		case askLast:
			last, err := s.a.Bus.Last(ctx, event.OutputTopic(w.request))
			if err != nil {
				return fmt.Errorf("find end of output: %w", err)
			}
			var more []wish
			s.out.buf, more = s.proj.Last(s.out.buf, w.request, last)
			wishes = append(wishes, more...)
		}
	}
	return nil
}

// tail hands the events of a topic to the stream, in order, until ctx ends.
// When events were removed by age it says so; a fixed topic then goes on with
// what is retained.
func (s *stream) tail(ctx context.Context, to chan<- input, t bus.Tail, request string) {
	s.tails.Add(1)
	go func() {
		defer s.tails.Done()
		hand := func(in input) error {
			in.topic, in.request = t.Topic, request
			select {
			case to <- in:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		for ctx.Err() == nil {
			err := s.a.Bus.Tail(ctx, t, func(d bus.Delivery) error {
				t.After = d.Position
				return hand(input{d: d})
			})
			if ctx.Err() != nil || err == nil {
				return
			}
			if !errors.Is(err, bus.ErrTrimmed) {
				_ = hand(input{err: fmt.Errorf("tail %s: %w", t.Topic, err)})
				return
			}
			if hand(input{trimmed: true}) != nil || request != "" {
				return
			}
			t.After = ""
		}
	}()
}
