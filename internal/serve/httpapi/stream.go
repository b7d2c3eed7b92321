package httpapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/event"
)

const (
	// batchBytes is the size of one write: large enough to be cheap, small enough
	// to be sent soon.
	batchBytes = 32 << 10
	// maxPooled frees the buffers that a large event needed instead of pooling them.
	maxPooled  = 4 * batchBytes
	maxStreams = 4096
)

// streams serves the event stream and counts the open streams.
type streams struct {
	people   people
	db       *db.DB
	bus      bus.Log
	sessions *sessions
	requests RequestTable // nil on a server without sessions
	now      func() time.Time

	heartbeat    time.Duration
	writeTimeout time.Duration
	stopping     context.Context // nil: streams need not end

	open, deltas, writes atomic.Int64
}

// stream serves one client in one goroutine, because thousands may be open.
type stream struct {
	service *streams
	session string
	viewer  *viewer // nil: it may show everything
	proj    *projection
	out     *streamWriter

	wake           chan struct{} // one slot, shared by all tails
	envs, requests tail
	outputs        []tail // of followed requests
}

// tail is a topic that a stream reads.
type tail struct {
	bus.Reader
	topic   event.Topic
	request string // of an output topic
}

// events serves a stream. The preparation is in functions of its own: their local variables would
// double the stack of each of thousands of open streams.
func (s *streams) events(w http.ResponseWriter, r *http.Request) error {
	one, from, err := s.accept(w, r)
	if err != nil {
		return err
	}
	defer s.open.Add(-1)
	defer one.close()
	if err := one.begin(r.Context(), from); err != nil {
		return err
	}
	return one.run(r.Context(), one.readAll)
}

// accept checks what the client asks for. If there is no error, the stream is counted as open.
func (s *streams) accept(w http.ResponseWriter, r *http.Request) (*stream, *startPoint, error) {
	sessionID := r.URL.Query().Get("session_id")
	if sessionID != "" {
		if _, err := s.sessions.find(r.Context(), sessionID); err != nil {
			return nil, nil, err
		}
	}
	view := s.newViewer(r.Context())
	if sessionID != "" && view != nil {
		if err := s.people.named(r, sessionID); err != nil {
			return nil, nil, err
		}
	}
	from, err := s.startOf(r, sessionID, view)
	if err != nil {
		return nil, nil, err
	}
	out, err := s.start(w, r)
	if err != nil {
		return nil, nil, err
	}
	return &stream{
		service: s, session: sessionID, viewer: view, proj: newProjection(from.at), out: out,
		wake: make(chan struct{}, 1),
	}, &from, nil
}

// begin writes what the stream begins with, and opens its tails.
func (s *stream) begin(ctx context.Context, from *startPoint) error {
	now := s.service.now().UnixMilli()
	var effects []effect
	s.out.buf, effects = s.proj.Begin(s.out.buf, now)
	if from.gap {
		s.out.buf = s.proj.Gap(s.out.buf, event.TopicRequest, now)
	}
	for _, r := range from.unfollowed {
		s.out.buf = s.proj.Unfollowed(s.out.buf, r.ID, r.SessionID, now)
	}
	if err := s.carry(ctx, effects); err != nil {
		return err
	}
	if err := s.open(&s.envs, event.TopicEnv, s.proj.at.Env); err != nil {
		return err
	}
	return s.open(&s.requests, event.TopicRequest, s.proj.at.Req)
}

// errEndOfStream ends a stream after its buffer was written.
var errEndOfStream = errors.New("the stream has ended")

// run writes what round appends until the client disconnects, ctx ends, the
// server stops or round fails. A round reports whether it read an event; then
// more may follow.
func (s *stream) run(ctx context.Context, round func(context.Context) (read bool, err error)) error {
	if stopping := s.service.stopping; stopping != nil {
		var end context.CancelFunc
		ctx, end = context.WithCancel(ctx)
		defer end()
		defer context.AfterFunc(stopping, end)()
	}
	beat := time.NewTicker(s.service.heartbeat)
	defer beat.Stop()
	var again <-chan time.Time
	if s.viewer != nil {
		t := time.NewTicker(viewerInterval)
		defer t.Stop()
		again = t.C
	}
	for {
		more, err := s.write(ctx, round)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			return ignoreEnd(err)
		case more && !ready(again):
			continue
		}
		select {
		case <-ctx.Done():
			return nil
		case <-again:
			if err := s.viewer.check(ctx, s.session); err != nil {
				return ignoreEnd(err)
			}
		case <-s.wake:
		case <-beat.C:
			s.out.comment()
		}
	}
}

// write writes what round appends, up to batchBytes. It reports whether there may be more.
func (s *stream) write(ctx context.Context, round func(context.Context) (read bool, err error)) (more bool, err error) {
	pooled := s.borrow()
	more = true
	for more && err == nil && len(s.out.buf) < batchBytes {
		more, err = round(ctx)
	}
	if ctx.Err() != nil || ignoreEnd(err) != nil {
		return false, err
	}
	if flushed := s.out.flush(); flushed != nil {
		return false, flushed
	}
	s.giveBack(pooled)
	return more, err
}

// buffers are what a stream writes with. Thousands of idle streams share the few
// buffers of those that write.
type buffers struct{ buf, data, scratch []byte }

var bufferPool = sync.Pool{New: func() any { return new(buffers) }}

func (s *stream) borrow() *buffers {
	b := bufferPool.Get().(*buffers)
	s.out.buf = append(b.buf[:0], s.out.buf...)
	if s.proj != nil {
		s.proj.data, s.proj.scratch = b.data, b.scratch
	}
	return b
}

func (s *stream) giveBack(b *buffers) {
	b.buf, s.out.buf = s.out.buf, nil
	if s.proj != nil {
		b.data, b.scratch = s.proj.data, s.proj.scratch
		s.proj.data, s.proj.scratch = nil, nil
	}
	if cap(b.buf)+cap(b.data)+cap(b.scratch) <= maxPooled {
		bufferPool.Put(b)
	}
}

// readAll reads one event of each topic that has one.
func (s *stream) readAll(ctx context.Context) (read bool, err error) {
	for i := 0; i < len(s.outputs) && err == nil; i++ { // the list may get shorter
		var one bool
		one, err = s.read(ctx, &s.outputs[i])
		read = read || one
	}
	// The request topic waits while the output of an ended request is incomplete.
	if err == nil && !s.proj.Waiting() {
		var one bool
		one, err = s.read(ctx, &s.requests)
		read = read || one
	}
	if err != nil {
		return read, err
	}
	one, err := s.read(ctx, &s.envs)
	return read || one, err
}

// read reads the next event of a topic. If events have expired, it reports a gap;
// the environment and request topics then continue with the retained events.
func (s *stream) read(ctx context.Context, t *tail) (read bool, err error) {
	if t.Reader == nil {
		return false, nil
	}
	d, read, err := t.Next(ctx)
	trimmed := errors.Is(err, bus.ErrTrimmed)
	if err != nil && !trimmed {
		return false, fmt.Errorf("tail %s: %w", t.topic, err)
	}
	if !read && !trimmed {
		return false, nil
	}
	if !trimmed && s.viewer != nil {
		hidden, err := s.hides(ctx, t, d)
		if err != nil || hidden {
			return true, err
		}
	}
	var effects []effect
	now := s.service.now().UnixMilli()
	switch {
	case t.request != "" && trimmed:
		s.out.buf, effects = s.proj.OutputGone(s.out.buf, t.request, now)
	case t.request != "":
		s.service.deltas.Add(1)
		s.out.buf, effects = s.proj.Output(s.out.buf, t.request, d)
	case trimmed:
		t.close()
		s.out.buf = s.proj.Gap(s.out.buf, t.topic, now)
		if err := s.open(t, t.topic, ""); err != nil {
			return false, err
		}
	case t.topic == event.TopicEnv:
		s.out.buf = s.proj.Env(s.out.buf, d)
	default:
		s.out.buf, effects = s.proj.Request(s.out.buf, d)
	}
	return true, s.carry(ctx, effects)
}

// hides reports whether an event is hidden from the person; then the stream goes on after it. It
// ends if the person may not see any more what the stream follows.
func (s *stream) hides(ctx context.Context, t *tail, d bus.Delivery) (bool, error) {
	of, followed := d.Headers.SessionID(), false
	switch {
	case t.request != "":
		of, followed = "", true
		if r := s.proj.find(t.request); r != nil {
			of = r.session
		}
	case t.topic == event.TopicEnv:
		of = d.Key
	default:
		followed = s.proj.find(d.Headers.RequestID()) != nil
	}
	visible, err := s.viewer.sees(ctx, of)
	switch {
	case err != nil || visible:
		return false, err
	case followed:
		return true, errEndOfStream
	}
	s.proj.Skip(t.topic, d.Position)
	return true, nil
}

// ready reports whether a channel has something to receive. Nil never has.
func ready(c <-chan time.Time) bool { return len(c) > 0 }

func ignoreEnd(err error) error {
	if errors.Is(err, errEndOfStream) {
		return nil
	}
	return err
}

// carry carries out the effects of the projection.
func (s *stream) carry(ctx context.Context, effects []effect) error {
	for len(effects) > 0 {
		first := effects[0]
		effects = effects[1:]
		switch e := first.(type) {
		case follow:
			t := tail{request: e.request}
			if err := s.open(&t, event.OutputTopic(e.request), e.after); err != nil {
				return err
			}
			s.outputs = append(s.outputs, t)
		case unfollow:
			for i := range s.outputs {
				if s.outputs[i].request == e.request {
					s.outputs[i].close()
					s.outputs = slices.Delete(s.outputs, i, i+1)
					break
				}
			}
		case findLast:
			last, err := s.service.bus.Last(ctx, event.OutputTopic(e.request))
			if err != nil {
				return fmt.Errorf("find end of output: %w", err)
			}
			var more []effect
			s.out.buf, more = s.proj.Last(s.out.buf, e.request, last)
			effects = append(effects, more...)
		default:
			return fmt.Errorf("carry out %T: unknown effect", first)
		}
	}
	return nil
}

// open starts reading a topic. An output topic has one lane only.
func (s *stream) open(t *tail, topic event.Topic, after bus.Position) (err error) {
	spec := bus.Tail{Topic: topic, After: after}
	if t.request == "" {
		spec.Lane = s.session
	}
	t.topic = topic
	if t.Reader, err = s.service.bus.Open(spec, s.wake); err != nil {
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
