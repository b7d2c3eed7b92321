package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
)

const (
	// batchBytes is one write: large enough to be cheap, small enough to be soon.
	batchBytes = 32 << 10
	// maxLent bounds the buffers that are used again: what a large event needed
	// is freed.
	maxLent    = 4 * batchBytes
	maxStreams = 4096
)

// stream serves one reader in one goroutine: thousands may be open.
type stream struct {
	a       *api
	session string
	proj    *projection
	out     *streamWriter

	wake           chan struct{} // one slot, of all tails
	envs, requests tail
	outputs        []tail // of followed requests
}

// tail is a topic that a stream reads.
type tail struct {
	bus.Reader
	topic   event.Topic
	request string // of the output topics
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
	from, err := a.startOf(r, sessionID)
	if err != nil {
		return err
	}
	out, err := a.openStream(w, r)
	if err != nil {
		return err
	}
	defer a.stats.streams.Add(-1)
	s := &stream{
		a: a, session: sessionID, proj: newProjection(from.at), out: out,
		wake: make(chan struct{}, 1),
	}
	defer s.close()
	return s.serve(r.Context(), from)
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

// beginning is where a stream begins.
type beginning struct {
	at cursor
	// gap says that the cursor belongs to another store or engine of the bus, so
	// that nothing can be said about what was missed.
	gap bool
	// unfollowed are running requests that are too many for a cursor.
	unfollowed []session.Request
}

func (a *api) startOf(r *http.Request, sessionID string) (b beginning, err error) {
	given := r.Header.Get("Last-Event-ID")
	if given == "" {
		given = r.URL.Query().Get("cursor")
	}
	from := r.URL.Query().Get("from")
	switch {
	case from != "" && from != "begin" && from != "now":
		return b, fault.InvalidField("from", "from has to be begin or now.")
	case given != "":
		if b.at, err = parseCursor(given); err != nil {
			return b, err
		}
		if b.at.Epoch != a.epoch() {
			return beginning{at: cursor{Epoch: a.epoch()}, gap: true}, nil
		}
		// The cursor may be of a stream of all sessions; the end of what runs in
		// another one would never come.
		b.at.Runs = slices.DeleteFunc(b.at.Runs, func(r runCursor) bool { return sessionID != "" && r.Session != "" && r.Session != sessionID })
		err := a.checkPositions(r.Context(), b.at)
		if fault.KindOf(err) == fault.Invalid { // they are of the engine that was used before
			return beginning{at: cursor{Epoch: a.epoch()}, gap: true}, nil
		}
		return b, err
	case from == "begin":
		b.at.Epoch = a.epoch()
		return b, nil
	}
	b.at, b.unfollowed, err = a.startNow(r.Context(), sessionID)
	return b, err
}

// checkPositions finds a cursor that the engine cannot read, while there is
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

// epoch names what positions belong to: the store, and the time of its bus.
func (a *api) epoch() string {
	if a.DB == nil {
		return ""
	}
	if a.BusChanges == 0 {
		return a.DB.StoreID()
	}
	return fmt.Sprintf("%s/%d", a.DB.StoreID(), a.BusChanges)
}

// startNow returns the positions of this moment. A request that runs is at the
// end of what it said so far. One that began after the position of the topic
// of requests is left out: the stream will see it begin.
func (a *api) startNow(ctx context.Context, sessionID string) (at cursor, unfollowed []session.Request, err error) {
	at.Epoch = a.epoch()
	if at.Env, err = a.Bus.Last(ctx, event.TopicEnv); err != nil {
		return at, nil, fmt.Errorf("find end of %s: %w", event.TopicEnv, err)
	}
	if at.Req, err = a.Bus.Last(ctx, event.TopicRequest); err != nil {
		return at, nil, fmt.Errorf("find end of %s: %w", event.TopicRequest, err)
	}
	if a.Store == nil {
		return at, nil, nil
	}
	var running []session.Request
	err = a.DB.Read(ctx, func(q db.Queryer) (err error) {
		running, err = a.Store.Running(q, sessionID)
		return err
	})
	if err != nil || len(running) == 0 {
		return at, nil, err
	}
	begun, err := a.begunAfter(ctx, at.Req)
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
		after, err := a.Bus.Last(ctx, event.OutputTopic(req.ID))
		if err != nil {
			return at, nil, fmt.Errorf("find end of output: %w", err)
		}
		at.Runs = append(at.Runs, runCursor{Request: req.ID, Session: req.SessionID, After: after})
	}
	return at, unfollowed, nil
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

// serve runs the stream until its reader is gone, ctx ends or a tail fails.
func (s *stream) serve(ctx context.Context, from beginning) error {
	now := s.a.Now().UnixMilli()
	var wishes []wish
	s.out.buf, wishes = s.proj.Begin(s.out.buf, now)
	if from.gap {
		s.out.buf = s.proj.Gap(s.out.buf, event.TopicRequest, now)
	}
	for _, r := range from.unfollowed {
		s.out.buf = s.proj.Unfollowed(s.out.buf, r.ID, r.SessionID, now)
	}
	if err := s.grant(ctx, wishes); err != nil {
		return err
	}
	if err := s.open(&s.envs, event.TopicEnv, s.proj.at.Env); err != nil {
		return err
	}
	if err := s.open(&s.requests, event.TopicRequest, s.proj.at.Req); err != nil {
		return err
	}
	return s.run(ctx, s.takeRound)
}

// errEnd ends a stream after what was written.
var errEnd = errors.New("the stream has ended")

// run writes what round takes until the reader is gone, ctx ends, the server stops
// or round fails. A round says whether it took something: then there may be more.
func (s *stream) run(ctx context.Context, round func(context.Context) (took bool, err error)) error {
	if s.a.Stopping != nil {
		var end context.CancelFunc
		ctx, end = context.WithCancel(ctx)
		defer end()
		defer context.AfterFunc(s.a.Stopping, end)()
	}
	beat := time.NewTicker(s.a.Heartbeat)
	defer beat.Stop()
	for {
		lent := s.borrow()
		took := true
		var err error
		for took && err == nil && len(s.out.buf) < batchBytes {
			took, err = round(ctx)
		}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, errEnd):
			return s.out.flush()
		case err != nil:
			return err
		}
		if err := s.out.flush(); err != nil {
			return err
		}
		s.giveBack(lent)
		if took {
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.wake:
		case <-beat.C:
			s.out.comment()
		}
	}
}

// lent is what a stream writes with. Thousands of streams that wait share the
// few of those that write.
type lent struct{ buf, data, scratch []byte }

var toLend = sync.Pool{New: func() any { return new(lent) }}

func (s *stream) borrow() *lent {
	l := toLend.Get().(*lent)
	s.out.buf = append(l.buf[:0], s.out.buf...)
	if s.proj != nil {
		s.proj.data, s.proj.scratch = l.data, l.scratch
	}
	return l
}

func (s *stream) giveBack(l *lent) {
	l.buf, s.out.buf = s.out.buf, nil
	if s.proj != nil {
		l.data, l.scratch = s.proj.data, s.proj.scratch
		s.proj.data, s.proj.scratch = nil, nil
	}
	if cap(l.buf)+cap(l.data)+cap(l.scratch) <= maxLent {
		toLend.Put(l)
	}
}

// takeRound takes an event of each topic that has one.
func (s *stream) takeRound(ctx context.Context) (took bool, err error) {
	for i := 0; i < len(s.outputs) && err == nil; i++ { // it may get shorter
		var one bool
		one, err = s.take(ctx, &s.outputs[i])
		took = took || one
	}
	// The topic of requests waits while the output of one that ended is still
	// on its way.
	if err == nil && !s.proj.Waiting() {
		var one bool
		one, err = s.take(ctx, &s.requests)
		took = took || one
	}
	if err != nil {
		return took, err
	}
	one, err := s.take(ctx, &s.envs)
	return took || one, err
}

// take takes the next event of a topic. When events were removed by age it says
// so; a fixed topic then goes on with what is retained.
func (s *stream) take(ctx context.Context, t *tail) (took bool, err error) {
	if t.Reader == nil {
		return false, nil
	}
	d, took, err := t.Next(ctx)
	trimmed := errors.Is(err, bus.ErrTrimmed)
	if err != nil && !trimmed {
		return false, fmt.Errorf("tail %s: %w", t.topic, err)
	}
	if !took && !trimmed {
		return false, nil
	}
	var wishes []wish
	now := s.a.Now().UnixMilli()
	switch {
	case t.request != "" && trimmed:
		s.out.buf, wishes = s.proj.OutputGone(s.out.buf, t.request, now)
	case t.request != "":
		s.a.stats.deltas.Add(1)
		s.out.buf, wishes = s.proj.Output(s.out.buf, t.request, d)
	case trimmed:
		t.close()
		s.out.buf = s.proj.Gap(s.out.buf, t.topic, now)
		if err := s.open(t, t.topic, ""); err != nil {
			return false, err
		}
	case t.topic == event.TopicEnv:
		s.out.buf = s.proj.Env(s.out.buf, d)
	default:
		s.out.buf, wishes = s.proj.Request(s.out.buf, d)
	}
	return true, s.grant(ctx, wishes)
}

// grant does what the projection wishes.
func (s *stream) grant(ctx context.Context, wishes []wish) error {
	for len(wishes) > 0 {
		w := wishes[0]
		wishes = wishes[1:]
		switch w.kind {
		case follow:
			t := tail{request: w.request}
			if err := s.open(&t, event.OutputTopic(w.request), w.after); err != nil {
				return err
			}
			s.outputs = append(s.outputs, t)
		case unfollow:
			for i := range s.outputs {
				if s.outputs[i].request == w.request {
					s.outputs[i].close()
					s.outputs = slices.Delete(s.outputs, i, i+1)
					break
				}
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

// open begins to read a topic; an output has events of one lane only.
func (s *stream) open(t *tail, topic event.Topic, after bus.Position) (err error) {
	spec := bus.Tail{Topic: topic, After: after}
	if t.request == "" {
		spec.Lane = s.session
	}
	t.topic = topic
	if t.Reader, err = s.a.Bus.Open(spec, s.wake); err != nil {
		return fmt.Errorf("tail %s: %w", topic, err)
	}
	return nil
}

func (t *tail) close() {
	if t.Reader != nil {
		t.Close()
		t.Reader = nil
	}
}

func (s *stream) close() {
	s.envs.close()
	s.requests.close()
	for i := range s.outputs {
		s.outputs[i].close()
	}
}
