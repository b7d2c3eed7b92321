package tracing

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"lilac/internal/foundation/text"
)

const (
	// queueSize bounds the spans that wait to be sent: a minute of a busy server.
	queueSize = 4096
	// batchSize is how many spans go in one request, batchWait how long the
	// first of them waits for others. They are the SDK's defaults.
	batchSize = 512
	batchWait = 2 * time.Second
	// maxAttributes and maxAttribute bound one span.
	maxAttributes = 64
	maxAttribute  = 4 << 10
	// sendTimeout bounds one try, sendTries how many there are.
	sendTimeout = 10 * time.Second
	sendTries   = 3
)

// Options say where spans go.
type Options struct {
	// URL is where traces are posted to, with its path.
	URL string
	// Headers are sent along, for example a key.
	Headers map[string]string
	// Resource describes the program, service.name among it.
	Resource []Attr
	Logger   *slog.Logger
	// Client is how the collector is reached; nil means one of its own.
	Client *http.Client
	// Wait replaces the time a batch waits for more.
	Wait time.Duration
}

// Tracer makes spans. A nil one makes none.
type Tracer struct {
	opt     Options
	queue   chan *Span
	dropped atomic.Int64
	warned  atomic.Bool
	stop    chan struct{}
	done    chan struct{}
	closing sync.Once
}

// New returns a tracer that sends until it is closed.
func New(o Options) *Tracer {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Client == nil {
		o.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if o.Wait <= 0 {
		o.Wait = batchWait
	}
	t := &Tracer{opt: o, queue: make(chan *Span, queueSize), stop: make(chan struct{}), done: make(chan struct{})}
	go t.send()
	return t
}

// Kind is the role of a span.
type Kind int

// The kinds of spans, with the numbers of OTLP.
const (
	Internal Kind = 1
	Server   Kind = 2
	Client   Kind = 3
	Consumer Kind = 5
)

// Attr is a fact about a span. Its value is a string, an int64, a float64, a
// bool or a []string.
type Attr struct {
	Key   string
	Value any
}

// Span is a piece of work. The methods of a nil span do nothing.
type Span struct {
	tracer  *Tracer
	context SpanContext
	parent  [8]byte
	name    string
	kind    Kind
	start   time.Time

	mu     sync.Mutex
	attrs  []Attr
	failed string
	end    time.Time
}

// Start begins a span, as a child of the one that ctx stands in. A parent that
// is not sampled has no spans below it.
func (t *Tracer) Start(ctx context.Context, name string, kind Kind, attrs ...Attr) (context.Context, *Span) {
	if t == nil {
		return ctx, nil
	}
	parent := FromContext(ctx)
	if parent.Valid() && !parent.Sampled {
		return ctx, nil
	}
	s := &Span{tracer: t, name: name, kind: kind, start: time.Now(), context: SpanContext{Trace: parent.Trace, Sampled: true}, parent: parent.Span}
	if !parent.Valid() {
		_, _ = rand.Read(s.context.Trace[:]) // never fails: the standard library ends the program instead
	}
	_, _ = rand.Read(s.context.Span[:])
	s.Set(attrs...)
	return WithParent(ctx, s.context), s
}

// Set adds facts.
func (s *Span) Set(attrs ...Attr) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, a := range attrs {
		if content, ok := a.Value.(string); ok {
			a.Value = text.Truncate(content, maxAttribute)
		}
		if len(s.attrs) < maxAttributes {
			s.attrs = append(s.attrs, a)
		}
	}
}

// Fail marks the span as failed, with the kind of error and a message.
func (s *Span) Fail(kind, message string) {
	if s == nil {
		return
	}
	s.Set(Attr{"error.type", kind})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed = message
	if message == "" {
		s.failed = kind
	}
}

// End ends the span and hands it over to be sent. Only the first call counts.
func (s *Span) End() {
	if s == nil {
		return
	}
	s.mu.Lock()
	over := !s.end.IsZero()
	if !over {
		s.end = time.Now()
	}
	s.mu.Unlock()
	if over {
		return
	}
	select {
	case s.tracer.queue <- s:
	default:
		s.tracer.dropped.Add(1)
	}
}

// Dropped is how many spans were not sent.
func (t *Tracer) Dropped() int64 {
	if t == nil {
		return 0
	}
	return t.dropped.Load()
}

// Close sends what waits, as long as ctx lasts. It may be called twice.
func (t *Tracer) Close(ctx context.Context) {
	if t == nil {
		return
	}
	t.closing.Do(func() { close(t.stop) })
	select {
	case <-t.done:
	case <-ctx.Done():
	}
}

// send makes batches of what comes, until the tracer is closed.
func (t *Tracer) send() {
	defer close(t.done)
	for {
		var batch []*Span
		select {
		case s := <-t.queue:
			batch = append(batch, s)
		case <-t.stop:
			t.post(t.waiting(nil))
			return
		}
		timer := time.NewTimer(t.opt.Wait)
		for full := false; !full && len(batch) < batchSize; {
			select {
			case s := <-t.queue:
				batch = append(batch, s)
			case <-timer.C:
				full = true
			case <-t.stop:
				full = true
			}
		}
		timer.Stop()
		t.post(batch)
	}
}

// waiting adds what is in the queue now.
func (t *Tracer) waiting(batch []*Span) []*Span {
	for {
		select {
		case s := <-t.queue:
			batch = append(batch, s)
		default:
			return batch
		}
	}
}

func (t *Tracer) post(batch []*Span) {
	if len(batch) == 0 {
		return
	}
	body := encode(t.opt.Resource, batch)
	var err error
	for try := range sendTries {
		if try > 0 && !t.pause(time.Duration(try)*time.Second) {
			break
		}
		var again bool
		if again, err = t.try(body); err == nil {
			t.warned.Store(false)
			return
		}
		if !again {
			break
		}
	}
	t.dropped.Add(int64(len(batch)))
	if !t.warned.Swap(true) { // once, until it works again
		t.opt.Logger.Warn("spans could not be sent", "error", err, "spans", len(batch))
	}
}

func (t *Tracer) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.stop:
		return false
	}
}

// try posts a batch once; again says that another try may help.
func (t *Tracer) try(body []byte) (again bool, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), sendTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.opt.URL, bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("make request: %w", err)
	}
	for name, value := range t.opt.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	res, err := t.opt.Client.Do(req)
	if err != nil {
		return true, fmt.Errorf("reach the collector: %w", err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection is used again
	if res.StatusCode < 300 {
		return false, nil
	}
	again = res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= 502 && res.StatusCode <= 504
	return again, fmt.Errorf("the collector answered %s", res.Status)
}
