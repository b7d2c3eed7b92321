package httpapi

import (
	"hash/maphash"
	"maps"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"lilac/internal/fault"
)

const (
	// maxOutages bounds the causes that are kept apart, as what is said of one
	// may hold a name.
	maxOutages = 32
	// maxRefused bounds the requests of an outage of which one has to be answered.
	maxRefused = 64
	// outageForgotten is how long a cause that refuses nobody any more is the same
	// one when it comes again. Clients that wait ask more often.
	outageForgotten = 5 * time.Minute
)

// outages are the causes for which requests are refused with 503 at present.
// Clients that wait ask again every few seconds: the log has a line when a cause
// begins and one when it is over, which is when a request that was refused is
// answered. Another
// one of the same route says nothing: it may need less.
type outages struct {
	open atomic.Int32 // so that nothing is locked while all is well

	mu     sync.Mutex
	causes map[string]*outage
}

type outage struct {
	since, last time.Time
	refused     int
	asked       map[uint64]bool
}

var outageSeed = maphash.MakeSeed()

// askedBy stands for what a request asks for: again the same when its client
// tries again.
func askedBy(r *http.Request) uint64 {
	var h maphash.Hash
	h.SetSeed(outageSeed)
	for _, s := range []string{r.Method, r.URL.RequestURI(), r.Header.Get("Last-Event-ID")} {
		_, _ = h.WriteString(s)
		_ = h.WriteByte(0)
	}
	return h.Sum64()
}

// refuse notes that a request was refused and reports whether the cause is new.
func (o *outages) refuse(cause string, asked uint64, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.causes, func(_ string, c *outage) bool { return now.Sub(c.last) > outageForgotten })
	c, known := o.causes[cause]
	if !known {
		if o.causes == nil {
			o.causes = map[string]*outage{}
		}
		if len(o.causes) == maxOutages {
			delete(o.causes, o.stalest())
		}
		c = &outage{since: now, asked: map[uint64]bool{}}
		o.causes[cause] = c
	}
	c.last = now
	c.refused++
	if len(c.asked) < maxRefused {
		c.asked[asked] = true
	}
	o.open.Store(int32(len(o.causes)))
	return !known
}

func (o *outages) stalest() (cause string) {
	for name, c := range o.causes {
		if cause == "" || c.last.Before(o.causes[cause].last) {
			cause = name
		}
	}
	return cause
}

// answered returns the causes that are over because a request is answered.
func (o *outages) answered(asked uint64) map[string]*outage {
	o.mu.Lock()
	defer o.mu.Unlock()
	over := map[string]*outage{}
	for name, c := range o.causes {
		if c.asked[asked] {
			over[name] = c
			delete(o.causes, name)
		}
	}
	o.open.Store(int32(len(o.causes)))
	return over
}

// logRefused tells the log of an answer that is the server's fault.
func (a *api) logRefused(r *http.Request, wire fault.Wire, err error) {
	if wire.Kind == fault.Unavailable && !a.outages.refuse(wire.Message, askedBy(r), a.Now()) {
		return
	}
	a.Logger.ErrorContext(r.Context(), "request could not be answered", "method", r.Method, "path", r.URL.Path, "kind", wire.Kind, "error", err)
}

func (a *api) logAnswered(r *http.Request) {
	if a.outages.open.Load() == 0 {
		return
	}
	for cause, c := range a.outages.answered(askedBy(r)) {
		a.Logger.InfoContext(r.Context(), "requests are answered again", "cause", cause, "refused", c.refused, "after", a.Now().Sub(c.since).Round(time.Millisecond).String())
	}
}
