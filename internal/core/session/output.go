package session

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"lilac/internal/foundation/delay"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/text"
)

const (
	// maxBuffered is how many bytes may wait for publication before the reader of the
	// model's stream has to wait.
	maxBuffered = 256 << 10
	// maxDelta is the maximum length of one event's text, in bytes.
	maxDelta = 64 << 10
	// throttleStreams is the number of live streams from which the reader of a model's
	// stream sleeps between two publications, until throttleLead before the next one.
	// It then reads in one call what has arrived, instead of waking for each token.
	throttleStreams = 32
	throttleLead    = 5 * time.Millisecond
	// fastText is the number of waiting bytes at which the reader of the model's stream waits for
	// the next publication. People read a few hundred bytes a second; a model that writes
	// more than fastText in each interval costs the other requests time and memory.
	fastText = 64 << 10
	// seqPerRecovery is the distance between the sequence numbers of two runs of a
	// request, so that numbers keep growing after a restart.
	seqPerRecovery = 1_000_000_000
)

// output is the only writer of a request's output topic while the request runs. It
// coalesces text. A transaction of the run publishes the buffered text first, so
// that the topic has the order of the run.
type output struct {
	svc     *Service
	headers event.Headers
	id      string // prefix of event ids: the request and the recovery

	startedAt time.Time

	// due and index are guarded by publisher.mu.
	due   time.Time
	index int
	// scheduled is set while the publisher knows that there is something to publish.
	scheduled atomic.Bool

	// pubMu serialises publications. It is taken before mu.
	pubMu sync.Mutex
	// unsent are events whose publication failed, so they may be on the bus. They are
	// published again with the same ids. Guarded by pubMu.
	unsent []event.Event
	// hasDelta reports whether there was a delta, streaming whether the request's state
	// is streaming. Guarded by pubMu.
	hasDelta, streaming bool

	// mu guards the fields below.
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

// stream buffers text of the model, and makes the reader of the model's stream wait so that no
// publication becomes large: hosts without streams send a whole answer at once.
func (o *output) stream(ctx context.Context, reasoning bool, text string) {
	for part := range deltasOf(text) {
		o.appendDelta(reasoning, part)
		o.throttle(ctx)
	}
}

// append buffers text. It blocks only when the bus is far behind.
func (o *output) append(reasoning bool, text string) {
	for part := range deltasOf(text) {
		o.appendDelta(reasoning, part)
	}
}

// deltasOf splits a text into parts of at most maxDelta.
func deltasOf(s string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for s != "" {
			part := text.Truncate(s, maxDelta)
			if part == "" {
				part = s[:maxDelta] // it is not UTF-8
			}
			if s = s[len(part):]; !yield(part) {
				return
			}
		}
	}
}

func (o *output) appendDelta(reasoning bool, text string) {
	o.mu.Lock()
	if n := len(o.deltas); n > 0 && o.deltas[n-1].reasoning == reasoning && len(o.deltas[n-1].text)+len(text) <= maxDelta {
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

// throttle makes the reader of the model's stream wait until the next publication is
// near. Data waits in the connection meanwhile, and is shown no later.
func (o *output) throttle(ctx context.Context) {
	for o.waiting() >= fastText && delay.Wait(ctx, throttleLead) {
	}
	if o.svc.streams.Load() < throttleStreams {
		return
	}
	o.mu.Lock()
	due := o.last.Add(o.svc.publisher.interval())
	o.mu.Unlock()
	if wait := due.Add(-throttleLead).Sub(o.svc.opt.Now()); wait > 0 {
		delay.Wait(ctx, wait)
	}
}

// waiting returns how many bytes wait for publication.
func (o *output) waiting() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffered
}

// setProgress buffers a running tool's newest line.
func (o *output) setProgress(u event.ToolCallOutput) {
	o.mu.Lock()
	o.progress[u.ToolCallID] = u
	last := o.last
	o.mu.Unlock()
	o.schedule(last)
}

// clearProgress drops the line of a tool that has ended.
func (o *output) clearProgress(toolCallID string) {
	o.mu.Lock()
	delete(o.progress, toolCallID)
	o.mu.Unlock()
}

// schedule tells the publisher that something waits; last is the time of the previous
// publication.
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

// truncate cuts the text to offset. The caller has collected the buffer before.
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

// collect returns the unsent events followed by the buffer as events. The caller holds
// pubMu, publishes the events and then calls markSent.
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
			o.svc.opt.Logger.Warn("the model's text is not valid UTF-8", "request_id", o.headers.RequestID())
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

// markSent notes that the collected events are on the bus. The caller holds pubMu.
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

// collectOrHeartbeat is like collect, but adds an activity event if the output has been
// silent for activityInterval. The caller holds pubMu.
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
