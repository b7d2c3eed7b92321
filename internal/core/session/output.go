package session

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"lilac/internal/foundation/event"
)

const (
	// maxBuffered is how much waits to be published before the model's reader
	// has to wait, too.
	maxBuffered = 256 << 10
	// maxDelta bounds one event's text.
	maxDelta = 64 << 10
	// throttleStreams is from how many live streams on a model's reader rests
	// between two publications of its stream, until restLead before the next:
	// then it reads in one what has come, instead of waking for each token.
	throttleStreams = 32
	throttleLead    = 5 * time.Millisecond
	// seqPerRecovery keeps the numbers of deltas growing across restarts.
	seqPerRecovery = 1_000_000_000
)

// output is the one writer of a request's output topic while the request
// runs. Text is coalesced here; what is recorded in a transaction takes the
// waiting text along, so that the topic's order is that of the run.
type output struct {
	svc     *Service
	headers event.Headers
	id      string // prefix of event ids: the request and the recovery

	startedAt time.Time

	// due and index are the outflow's.
	due   time.Time
	index int
	// waiting says that the outflow knows that there is something.
	scheduled atomic.Bool

	// pub serialises publications; it is taken before mu.
	pubMu sync.Mutex
	// unsent are events that may or may not be on the bus: a publication
	// failed. They go again, with their ids. Guarded by pub.
	unsent []event.Event
	// shown says that there was a delta, streaming that the request's state
	// says so. Guarded by pub.
	hasDelta, streaming bool

	// mu guards what follows.
	mu       sync.Mutex
	text     []byte // all of the request's text
	deltas   []delta
	buffered int
	progress map[string]event.ToolCallOutput
	events   int64
	seq      int64
	last     time.Time
}

type delta struct {
	reasoning bool
	offset    int64
	text      []byte
}

func newOutput(s *Service, requestID string, h event.Headers, recovery int, text string) *output {
	return &output{
		svc: s, headers: h, id: fmt.Sprintf("%s/out/%d", requestID, recovery), startedAt: s.opt.Now(), index: notScheduled,
		text: []byte(text), seq: int64(recovery) * seqPerRecovery, progress: map[string]event.ToolCallOutput{},
	}
}

// append buffers a delta. It blocks only when the bus is far behind.
func (o *output) append(reasoning bool, text string) {
	if text == "" {
		return
	}
	o.mu.Lock()
	if n := len(o.deltas); n > 0 && o.deltas[n-1].reasoning == reasoning && len(o.deltas[n-1].text) < maxDelta {
		o.deltas[n-1].text = append(o.deltas[n-1].text, text...)
	} else {
		o.deltas = append(o.deltas, delta{reasoning: reasoning, offset: int64(len(o.text)), text: []byte(text)})
	}
	if !reasoning {
		o.text = append(o.text, text...)
	}
	o.buffered += len(text)
	over := o.buffered > maxBuffered
	last := o.last
	o.mu.Unlock()
	o.schedule(last)
	if over {
		o.flush(o.svc.runCtx)
	}
}

// rest lets the model's reader wait while what it reads could not be published
// yet. What comes meanwhile waits in the connection and is shown no later.
func (o *output) throttle(ctx context.Context) {
	if o.svc.streams.Load() < throttleStreams {
		return
	}
	o.mu.Lock()
	due := o.last.Add(o.svc.publisher.interval())
	o.mu.Unlock()
	if wait := due.Add(-throttleLead).Sub(o.svc.opt.Now()); wait > 0 {
		sleep(ctx, wait)
	}
}

// update shows a running tool's newest line.
func (o *output) setProgress(u event.ToolCallOutput) {
	o.mu.Lock()
	o.progress[u.ToolCallID] = u
	last := o.last
	o.mu.Unlock()
	o.schedule(last)
}

// settled forgets the line of a tool that has ended.
func (o *output) clearProgress(toolCallID string) {
	o.mu.Lock()
	delete(o.progress, toolCallID)
	o.mu.Unlock()
}

// ready tells the outflow that something waits, for a stream that published
// last at that time.
func (o *output) schedule(last time.Time) {
	if !o.scheduled.Swap(true) {
		o.svc.publisher.schedule(o, last.Add(o.svc.publisher.interval()))
	}
}

func (o *output) length() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return int64(len(o.text))
}

func (o *output) fullText() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return string(o.text)
}

// cut takes text back to offset. What waits was taken before.
func (o *output) truncate(offset int64) {
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
func (o *output) collect() ([]event.Event, error) {
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
	for _, p := range o.deltas {
		o.seq++
		o.hasDelta = true
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
	o.deltas, o.buffered = nil, 0
	clear(o.progress)
	return slices.Clone(o.unsent), nil
}

// sent says that what was taken is on the bus. The caller holds pub.
func (o *output) markSent() {
	o.unsent = nil
	o.mu.Lock()
	o.last = o.svc.opt.Now()
	o.mu.Unlock()
}

func (o *output) flush(ctx context.Context) error {
	o.pubMu.Lock()
	defer o.pubMu.Unlock()
	events, err := o.collect()
	if err != nil || len(events) == 0 {
		return err
	}
	if err := o.svc.opt.Bus.Publish(ctx, events...); err != nil {
		return fmt.Errorf("publish output: %w", err)
	}
	o.markSent()
	return nil
}

// takeOrStir is take for a round of the outflow: an output that has been
// silent for too long says that its work goes on. The caller holds pub.
func (o *output) collectOrHeartbeat(now time.Time) ([]event.Event, error) {
	events, err := o.collect()
	if err != nil || len(events) > 0 {
		return events, err
	}
	o.mu.Lock()
	rest := activityInterval - now.Sub(latest(o.startedAt, o.last))
	o.mu.Unlock()
	if rest > 0 {
		o.svc.publisher.schedule(o, now.Add(rest))
		return nil, nil
	}
	e, err := o.event(o.eventID(), event.OutputActivity{})
	if err != nil {
		return nil, err
	}
	o.unsent = append(o.unsent, e)
	return o.unsent, nil
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
