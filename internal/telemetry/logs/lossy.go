package logs

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxQueued bounds the lines that wait for the reader of the log, in bytes.
	maxQueued = 1 << 20
	// stalledAfter is how long one write may take before the reader counts as hung.
	stalledAfter = 5 * time.Second
	// troubleFor is how long a lost line is reported.
	troubleFor = 15 * time.Minute
)

// A LossyWriter writes log lines without ever blocking its callers. Lines wait in a
// bounded queue for one goroutine that writes them in order. Lines that do not fit,
// because the process that reads the log hangs, and lines that cannot be written, because
// it has ended, are lost and counted. Later lines are written again as soon as that is
// possible. It is safe for concurrent use.
type LossyWriter struct {
	to       io.Writer
	now      func() time.Time
	lost     atomic.Int64
	lastLost atomic.Int64 // Unix milliseconds
	// writing is when the current write began, in Unix milliseconds, or 0.
	writing atomic.Int64
	wake    chan struct{} // one slot: one signal covers all queued lines
	done    chan struct{} // closed when the goroutine has ended

	mu     sync.Mutex
	queue  [][]byte
	queued int // bytes in queue
	closed bool
}

// NewLossyWriter returns a writer to w. The caller must close it.
func NewLossyWriter(w io.Writer) *LossyWriter {
	l := &LossyWriter{to: w, now: time.Now, wake: make(chan struct{}, 1), done: make(chan struct{})}
	go l.run()
	return l
}

// Write queues one line. It never fails, and never waits for the reader of the log.
func (l *LossyWriter) Write(line []byte) (int, error) {
	l.mu.Lock()
	fits := !l.closed && l.queued+len(line) <= maxQueued
	if fits {
		l.queue = append(l.queue, bytes.Clone(line))
		l.queued += len(line)
	}
	l.mu.Unlock()
	if !fits {
		l.lose()
		return len(line), nil
	}
	l.signal()
	return len(line), nil
}

func (l *LossyWriter) lose() {
	l.lost.Add(1)
	l.lastLost.Store(l.now().UnixMilli())
}

func (l *LossyWriter) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// run writes the queued lines until the writer is closed and the queue is empty.
func (l *LossyWriter) run() {
	defer close(l.done)
	for {
		l.mu.Lock()
		lines, closed := l.queue, l.closed
		l.queue = nil
		l.mu.Unlock()
		if len(lines) == 0 {
			if closed {
				return
			}
			<-l.wake
			continue
		}
		for _, line := range lines {
			l.writing.Store(l.now().UnixMilli())
			_, err := l.to.Write(line)
			l.writing.Store(0)
			if err != nil {
				l.lose()
			}
			l.mu.Lock()
			l.queued -= len(line) // only now: the lines of this round occupy memory, too
			l.mu.Unlock()
		}
	}
}

// Close writes the queued lines, for at most as long as patience. Later lines are lost.
// If the reader of the log hangs, the goroutine stays in its write until the process ends.
func (l *LossyWriter) Close(patience time.Duration) {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.signal()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-l.done:
	case <-timer.C:
	}
}

// Lost returns the number of lines that were lost.
func (l *LossyWriter) Lost() int64 { return l.lost.Load() }

// Trouble says what is wrong with the log now, or recently was, in a public sentence; or
// "".
func (l *LossyWriter) Trouble() string {
	now := l.now().UnixMilli()
	lost, recent := l.lost.Load(), l.lastLost.Load() > now-troubleFor.Milliseconds()
	since := l.writing.Load()
	switch {
	case since != 0 && now-since > stalledAfter.Milliseconds():
		return fmt.Sprintf("The process that reads the log does not read. Lilac works on without it; %d log lines are lost so far.", lost)
	case lost > 0 && recent:
		return fmt.Sprintf("The process that reads the log has ended or is too slow. %d log lines are lost.", lost)
	}
	return ""
}
