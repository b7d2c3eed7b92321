package httpapi

import (
	"maps"
	"sync"
	"time"
)

const (
	// outageOver is how long a cause has refused nobody when it is new again.
	// Clients that wait ask more often.
	outageOver = time.Minute
	// maxOutages bounds the causes that are known; what is said of one may hold a
	// name. Any more are logged each time.
	maxOutages = 32
)

// outages are the causes for which requests are refused with 503 at present, and
// when each did so last. Clients that wait ask again every few seconds; the log is
// told once. When a cause is over is told by the part that it is of.
type outages struct {
	mu   sync.Mutex
	last map[string]time.Time
}

// begins notes that a request was refused, and reports whether the cause is new.
func (o *outages) begins(cause string, now time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	maps.DeleteFunc(o.last, func(_ string, last time.Time) bool { return now.Sub(last) > outageOver })
	_, known := o.last[cause]
	if known || len(o.last) < maxOutages {
		if o.last == nil {
			o.last = make(map[string]time.Time)
		}
		o.last[cause] = now
	}
	return !known
}
