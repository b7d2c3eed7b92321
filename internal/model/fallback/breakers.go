package fallback

import (
	"sync"
	"time"
)

// maxBreakers bounds the breakers that are kept. Configurations have far fewer candidates;
// old ones remain after changes.
const maxBreakers = 1024

// Breakers holds the breakers of a process by their keys. The zero value is empty.
type Breakers struct {
	mu     sync.Mutex // guards states
	states map[string]State
}

// pick chooses a candidate, and marks the test of a breaker whose time is over.
func (b *Breakers) pick(candidates []Candidate, tried []bool, current int, now time.Time) (int, time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	states := make([]State, len(candidates))
	for i, c := range candidates {
		states[i] = b.states[c.Key]
	}
	i, wait := Pick(states, tried, current, now)
	if i >= 0 && !states[i].OpenUntil.IsZero() {
		states[i].ProbedAt = now
		b.putLocked(candidates[i].Key, states[i])
	}
	return i, wait
}

// state returns the state of a breaker.
func (b *Breakers) state(key string) State {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.states[key]
}

func (b *Breakers) failed(key string, f Failure, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.putLocked(key, b.states[key].After(f, now))
}

func (b *Breakers) succeeded(key string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.states, key)
}

func (b *Breakers) putLocked(key string, s State) {
	if b.states == nil || len(b.states) >= maxBreakers {
		b.states = map[string]State{} // closed breakers; the next failures open them again
	}
	b.states[key] = s
}
