package environment

import (
	"sync"
	"time"
)

const (
	// warningInterval is the time in which a warning is logged at most once.
	warningInterval = time.Minute
	// maxWarnings bounds the warnings that are remembered.
	maxWarnings = 500
)

// warnings limits how often each warning is logged, however many events it is
// about, and counts the suppressed ones.
type warnings struct {
	mu   sync.Mutex
	seen map[string]warning
}

type warning struct {
	at         time.Time
	suppressed int64 // since then
}

// allow reports whether to log a warning now, and how often it was suppressed
// since the last time.
func (w *warnings) allow(text string, now time.Time) (suppressed int64, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last, found := w.seen[text]
	if found && now.Sub(last.at) < warningInterval {
		last.suppressed++
		w.seen[text] = last
		return 0, false
	}
	if len(w.seen) >= maxWarnings {
		clear(w.seen)
	}
	if w.seen == nil {
		w.seen = map[string]warning{}
	}
	w.seen[text] = warning{at: now}
	return last.suppressed, true
}
