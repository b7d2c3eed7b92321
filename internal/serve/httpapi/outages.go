package httpapi

import (
	"maps"
	"sync"
	"time"
)

const (
	// outageExpiry forgets a cause that refused no request for this long. Waiting
	// clients retry more often.
	outageExpiry = time.Minute
	// maxOutages limits the causes that are remembered, because a message may hold
	// a name that a client chose. Further causes are logged every time.
	maxOutages = 32
)

// outages remembers why requests are refused with 503 at present. Waiting clients
// retry every few seconds; each cause is logged once. The part of the program
// that recovers logs the end of the outage.
type outages struct {
	mu   sync.Mutex
	last map[string]time.Time // when each cause last refused a request
}

// begins records a refused request and reports whether its cause is new.
func (o *outages) begins(cause string, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.last, func(_ string, last time.Time) bool { return now.Sub(last) > outageExpiry })
	_, known := o.last[cause]
	if known || len(o.last) < maxOutages {
		if o.last == nil {
			o.last = make(map[string]time.Time)
		}
		o.last[cause] = now
	}
	return !known
}
