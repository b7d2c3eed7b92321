package session

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"

	"lilac/internal/db"
	"lilac/internal/event"
)

const (
	// minInterval is the least time between two publications of one stream.
	minInterval = 40 * time.Millisecond
	// streamRate is how many publications a second all streams make together.
	// Each writes database pages of its own, however short it is, so this is what
	// a token costs under load: 100 streams keep the least interval, 500 are
	// shown five times a second.
	streamRate = 2500
	// activityInterval is how long an output may be silent.
	activityInterval = 30 * time.Second
	// maxBuffered is how much waits to be published before the model's reader
	// has to wait, too.
	maxBuffered = 256 << 10
	// maxDelta bounds one event's text.
	maxDelta = 64 << 10
	// seqPerRecovery keeps the numbers of deltas growing across restarts.
	seqPerRecovery = 1_000_000_000
)

// output is the one writer of a request's output topic while the request
// runs. Text is coalesced here; what is recorded in a transaction takes the
// waiting text along, so that the topic's order is that of the run.
type output struct {
	svc      *Service
	headers  event.Headers
	id       string // prefix of event ids: the request and the recovery
	wake     chan struct{}
	interval func() time.Duration

	// pub serialises publications; it is taken before mu.
	pub sync.Mutex
	// unsent are events that may or may not be on the bus: a publication
	// failed. They go again, with their ids. Guarded by pub.
	unsent []event.Event
	// shown says that there was a delta, streaming that the request's state
	// says so. Guarded by pub.
	shown, streaming bool

	// mu guards what follows.
	mu       sync.Mutex
	text     []byte // all of the request's text
	pieces   []piece
	buffered int
	progress map[string]event.ToolCallOutput
	events   int64
	seq      int64
	last     time.Time
}

type piece struct {
	reasoning bool
	offset    int64
	text      []byte
}

func newOutput(s *Service, requestID string, h event.Headers, recovery int, text string) *output {
	o := &output{
		svc: s, headers: h, id: fmt.Sprintf("%s/out/%d", requestID, recovery), wake: make(chan struct{}, 1),
		text: []byte(text), seq: int64(recovery) * seqPerRecovery, progress: map[string]event.ToolCallOutput{},
	}
	o.interval = func() time.Duration {
		return max(minInterval, time.Duration(s.streams.Load())*time.Second/streamRate)
	}
	return o
}

// write takes a delta. It waits only when the bus is far behind.
func (o *output) write(reasoning bool, delta string) {
	if delta == "" {
		return
	}
	o.mu.Lock()
	p := piece{reasoning: reasoning, offset: int64(len(o.text))}
	if n := len(o.pieces); n > 0 && o.pieces[n-1].reasoning == reasoning && len(o.pieces[n-1].text) < maxDelta {
		o.pieces[n-1].text = append(o.pieces[n-1].text, delta...)
	} else {
		p.text = []byte(delta)
		o.pieces = append(o.pieces, p)
	}
	if !reasoning {
		o.text = append(o.text, delta...)
	}
	o.buffered += len(delta)
	over := o.buffered > maxBuffered
	o.mu.Unlock()
	o.poke()
	if over {
		o.flush(o.svc.runCtx)
	}
}

// update shows a running tool's newest line.
func (o *output) update(u event.ToolCallOutput) {
	o.mu.Lock()
	o.progress[u.ToolCallID] = u
	o.mu.Unlock()
	o.poke()
}

// settled forgets the line of a tool that has ended.
func (o *output) settled(toolCallID string) {
	o.mu.Lock()
	delete(o.progress, toolCallID)
	o.mu.Unlock()
}

func (o *output) poke() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *output) length() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return int64(len(o.text))
}

func (o *output) whole() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

// cut takes text back to offset. What waits was taken before.
func (o *output) cut(offset int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if offset >= 0 && offset < int64(len(o.text)) {
		o.text = o.text[:offset]
	}
}

// eventID returns an id that no other event of this output has.
func (o *output) eventID() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.eventIDLocked()
}

func (o *output) eventIDLocked() string {
	o.events++
	return fmt.Sprintf("%s/%d", o.id, o.events)
}

func (o *output) event(id string, p event.Payload) (event.Event, error) {
	return event.New(event.Meta{ID: id, Time: o.svc.opt.Now(), Headers: o.headers}, p)
}

// take returns what waits as events, behind what could not be sent before.
// The caller holds pub, publishes them and then calls sent.
func (o *output) take() ([]event.Event, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	add := func(p event.Payload) error {
		e, err := o.event(o.eventIDLocked(), p)
		if err != nil {
			return err
		}
		o.unsent = append(o.unsent, e)
		return nil
	}
	for _, p := range o.pieces {
		o.seq++
		o.shown = true
		text := string(p.text)
		if !utf8.ValidString(text) {
			o.svc.opt.Logger.Warn("text of a model is not whole runes", "request_id", o.headers.RequestID())
		}
		var payload event.Payload = event.TextDelta{Delta: text, Seq: o.seq, Offset: p.offset}
		if p.reasoning {
			payload = event.ReasoningDelta{Delta: text, Seq: o.seq}
		}
		if err := add(payload); err != nil {
			return nil, err
		}
	}
	for _, id := range slices.Sorted(maps.Keys(o.progress)) {
		if err := add(o.progress[id]); err != nil {
			return nil, err
		}
	}
	o.pieces, o.buffered = nil, 0
	clear(o.progress)
	return slices.Clone(o.unsent), nil
}

// sent says that what was taken is on the bus. The caller holds pub.
func (o *output) sent() {
	o.unsent = nil
	o.mu.Lock()
	o.last = o.svc.opt.Now()
	o.mu.Unlock()
}

func (o *output) flush(ctx context.Context) error {
	o.pub.Lock()
	defer o.pub.Unlock()
	events, err := o.take()
	if err != nil || len(events) == 0 {
		return err
	}
	if err := o.svc.opt.Bus.Publish(ctx, events...); err != nil {
		return fmt.Errorf("publish output: %w", err)
	}
	o.sent()
	if !o.shown || o.streaming {
		return nil
	}
	if err := o.svc.showStreaming(ctx, o.headers); err != nil {
		return err
	}
	o.streaming = true
	return nil
}

// showStreaming says that a request has begun to stream. It says so behind the
// first delta and without a wait for the disk: the first words must not wait,
// and what a power cut takes is said again with the next ones.
func (s *Service) showStreaming(ctx context.Context, h event.Headers) error {
	err := s.opt.DB.UpdateRelaxed(ctx, func(tx *db.Tx) error {
		c := change{svc: s, tx: tx, sessionID: h.SessionID()}
		return c.streaming(h.RequestID())
	})
	if err != nil {
		return fmt.Errorf("show state streaming: %w", err)
	}
	return nil
}

// run publishes what waits until ctx ends.
func (o *output) run(ctx context.Context) {
	silence := time.NewTimer(activityInterval)
	defer silence.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-silence.C:
			o.active(ctx)
		case <-o.wake:
			o.mu.Lock()
			wait := o.interval() - o.svc.opt.Now().Sub(o.last)
			o.mu.Unlock()
			if wait > 0 && !pause(ctx, min(wait, o.interval())) {
				return
			}
			if err := o.flush(ctx); err != nil && ctx.Err() == nil {
				o.svc.opt.Logger.Warn("output waits", "request_id", o.headers.RequestID(), "error", err)
				if !pause(ctx, time.Second) {
					return
				}
				o.poke()
			}
		}
		silence.Reset(activityInterval)
	}
}

// active says that work goes on, unless something else just did.
func (o *output) active(ctx context.Context) {
	o.pub.Lock()
	defer o.pub.Unlock()
	o.mu.Lock()
	quiet := o.svc.opt.Now().Sub(o.last)
	o.mu.Unlock()
	if quiet < activityInterval/2 {
		return
	}
	e, err := o.event(o.eventID(), event.OutputActivity{})
	if err == nil {
		err = o.svc.opt.Bus.Publish(ctx, e)
	}
	if err != nil && ctx.Err() == nil {
		o.svc.opt.Logger.Warn("activity is not shown", "request_id", o.headers.RequestID(), "error", err)
	}
}
