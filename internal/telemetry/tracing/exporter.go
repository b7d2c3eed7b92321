package tracing

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	// maxQueue bounds the spans between their end and the end of their export. It
	// is less than the batch processor's own queue, which drops without counting.
	maxQueue = sdktrace.DefaultMaxQueueSize - 1
	// defaultTimeout bounds one attempt to send a batch (the default of the OTLP
	// exporter specification).
	defaultTimeout = 10 * time.Second
	// sendAttempts is how often a batch is sent before it is dropped.
	sendAttempts = 3
)

// exporter posts batches of spans to a collector.
type exporter struct {
	opt     Options
	waiting atomic.Int64 // spans that have ended and are not exported or dropped
	dropped atomic.Int64
	warned  atomic.Bool // the failure has been logged, and no batch was accepted since
	stopped chan struct{}
	stop    sync.Once
}

func newExporter(o Options) *exporter {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Client == nil {
		o.Client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	return &exporter{opt: o, stopped: make(chan struct{})}
}

// queueLimit drops spans that end while too many others wait, and counts them.
type queueLimit struct {
	sdktrace.SpanProcessor
	exporter *exporter
}

// OnEnd implements [sdktrace.SpanProcessor].
func (q queueLimit) OnEnd(s sdktrace.ReadOnlySpan) {
	if !s.SpanContext().IsSampled() {
		return
	}
	if q.exporter.waiting.Add(1) > maxQueue {
		q.exporter.waiting.Add(-1)
		q.exporter.dropped.Add(1)
		return
	}
	q.SpanProcessor.OnEnd(s)
}

// ExportSpans implements [sdktrace.SpanExporter]. It never returns an error: it
// counts and logs failures itself.
func (e *exporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	defer e.waiting.Add(-int64(len(spans)))
	body := encode(spans)
	var err error
	for attempt := range sendAttempts {
		if attempt > 0 && !e.wait(ctx, time.Duration(attempt)*time.Second) {
			break
		}
		var retry bool
		if retry, err = e.post(ctx, body); err == nil {
			e.warned.Store(false)
			return nil
		}
		if !retry {
			break
		}
	}
	e.dropped.Add(int64(len(spans)))
	if !e.warned.Swap(true) {
		e.opt.Logger.WarnContext(ctx, "cannot send spans to the collector", "error", err, "spans", len(spans))
	}
	return nil
}

// Shutdown implements [sdktrace.SpanExporter].
func (e *exporter) Shutdown(context.Context) error {
	e.stopRetries()
	e.opt.Client.CloseIdleConnections()
	return nil
}

// stopRetries makes exports give up after their current attempt.
func (e *exporter) stopRetries() { e.stop.Do(func() { close(e.stopped) }) }

// wait reports whether d passed before the exporter was stopped.
func (e *exporter) wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-e.stopped:
	}
	return false
}

// post sends a batch once. retry reports whether another attempt may succeed.
func (e *exporter) post(ctx context.Context, body []byte) (retry bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, e.opt.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.opt.URL, bytes.NewReader(body))
	if err != nil {
		return false, fmt.Errorf("make request: %w", err)
	}
	for name, value := range e.opt.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", "application/x-protobuf")
	res, err := e.opt.Client.Do(req)
	if err != nil {
		return true, fmt.Errorf("reach the collector: %w", err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, 64<<10)) // so that the connection can be reused
	if res.StatusCode < 300 {
		return false, nil
	}
	retry = res.StatusCode == http.StatusTooManyRequests || res.StatusCode >= 502 && res.StatusCode <= 504
	return retry, fmt.Errorf("the collector answered %s", res.Status)
}
