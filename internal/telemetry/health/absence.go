package health

import (
	"sync"
	"time"
)

// Absence finds work that is recorded as in progress, but that nobody does. Work may
// be absent for a moment, while it changes hands. It is safe for concurrent use.
type Absence struct {
	// Lost limits the time for which work may be absent.
	Lost time.Duration

	mu    sync.Mutex
	since map[string]time.Time
}

// Check takes the ids of the work that is absent now. It returns the number of absent
// ids once one of them has been absent in every check for longer than Lost, otherwise 0.
func (a *Absence) Check(absent []string, now time.Time) (lost int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	before := a.since
	a.since = make(map[string]time.Time, len(absent))
	over := false
	for _, id := range absent {
		first, known := before[id]
		if !known {
			first = now
		}
		a.since[id] = first
		over = over || now.Sub(first) > a.Lost
	}
	if !over {
		return 0
	}
	return len(absent)
}
