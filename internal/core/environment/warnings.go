package environment

import (
	"sync"
	"time"
)

const (
	// quietFor is how long a warning is not said again.
	quietFor = time.Minute
	// quietMax bounds the warnings that are remembered.
	quietMax = 500
)

// warnings lets each warning be said once in a while, however many events it
// is for, and counts the others.
type warnings struct {
	mu   sync.Mutex
	said map[string]said
}

type said struct {
	at time.Time
	// more counts the events since then.
	more int64
}

// due reports whether a warning is to be said now, and for how many events it
// was not since the last time.
func (w *warnings) due(warning string, now time.Time) (unsaid int64, say bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, known := w.said[warning]
	if known && now.Sub(s.at) < quietFor {
		s.more++
		w.said[warning] = s
		return 0, false
	}
	if len(w.said) >= quietMax {
		clear(w.said)
	}
	if w.said == nil {
		w.said = map[string]said{}
	}
	w.said[warning] = said{at: now}
	return s.more, true
}
