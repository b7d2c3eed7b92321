package httpapi

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"lilac/internal/foundation/fault"
)

const (
	// maxBodyReaders limits the bodies of webhooks that are read at the same time, and so
	// the memory that senders without a valid signature can occupy.
	maxBodyReaders = 64
	// readerGrace is the time in which a sender is not slow: the body of an honest sender
	// is on its way.
	readerGrace = 250 * time.Millisecond
)

// errSlowReader is the answer to a sender that had to make room for another one.
var errSlowReader = &fault.Error{
	Kind: fault.RateLimited, Code: "too_slow", RetryAfter: time.Second,
	Message: "The body of this webhook arrived too slowly while many others were waiting. Send it again.",
}

// bodyReaders reads the bodies of senders that are not authenticated yet. When all places are
// occupied, the slowest sender makes room, so silent connections cannot keep others out.
type bodyReaders struct {
	// refuseNewest is the control of a test: the newest sender makes room.
	refuseNewest bool

	mu     sync.Mutex
	active map[*bodyReader]struct{} // at most maxBodyReaders
}

func newBodyReaders(refuseNewest bool) *bodyReaders {
	return &bodyReaders{refuseNewest: refuseNewest, active: map[*bodyReader]struct{}{}}
}

// bodyReader is the reading of one body.
type bodyReader struct {
	io.ReadCloser
	since   time.Time
	got     atomic.Int64 // bytes
	evicted atomic.Bool
	stop    func() // makes a blocked read fail
}

// Read counts the bytes.
func (b *bodyReader) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.got.Add(int64(n))
	return n, err
}

// rate is the speed of the sender in bytes per second.
func (b *bodyReader) rate(now time.Time) float64 {
	return float64(b.got.Load()) / max(now.Sub(b.since), readerGrace).Seconds()
}

// read reads the body of a request.
func (p *bodyReaders) read(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	conn := http.NewResponseController(w)
	// A connection supports deadlines; the recorder of a test does not.
	reader := &bodyReader{ReadCloser: r.Body, since: time.Now(), stop: func() { _ = conn.SetReadDeadline(time.Now()) }}
	_ = conn.SetReadDeadline(reader.since.Add(webhookBodyLimit))
	if !p.enter(reader) {
		return nil, errSlowReader
	}
	r.Body = reader
	body, err := readBody(w, r, limit)
	p.leave(reader) // from here on, nothing sets the deadline
	if err != nil {
		if reader.evicted.Load() {
			err = errSlowReader
		}
		return nil, err
	}
	_ = conn.SetReadDeadline(time.Time{})
	return body, nil
}

// enter adds a reader, and evicts the slowest one if there are too many.
func (p *bodyReaders) enter(b *bodyReader) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.active) >= maxBodyReaders {
		if p.refuseNewest {
			return false
		}
		slowest := p.slowestLocked(b.since)
		slowest.evicted.Store(true)
		slowest.stop()
		delete(p.active, slowest)
	}
	p.active[b] = struct{}{}
	return true
}

func (p *bodyReaders) leave(b *bodyReader) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.active, b)
}

// slowestLocked returns the reader whose sender is the slowest, or of equally slow ones the
// oldest. Within its grace, a reader is evicted only if all others are, too.
func (p *bodyReaders) slowestLocked(now time.Time) (slowest *bodyReader) {
	graced := func(b *bodyReader) bool { return now.Sub(b.since) < readerGrace }
	for b := range p.active {
		switch {
		case slowest == nil:
		case graced(b) != graced(slowest):
			if graced(b) {
				continue
			}
		case b.rate(now) > slowest.rate(now), b.rate(now) == slowest.rate(now) && !b.since.Before(slowest.since):
			continue
		}
		slowest = b
	}
	return slowest
}
