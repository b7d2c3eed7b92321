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
	mu     sync.Mutex // guards the fields below
	states map[string]State
	kept   map[string]bool // the keys of the saved states
	save   func(key string, s State)
}

// minKept is the shortest wait that a provider demands and that is worth saving.
const minKept = time.Minute

// Keep adds the waits that providers demanded of an earlier process, and calls save with each
// one from now on, and with the zero state when it does not matter any more. Other states are
// not kept: one call finds out whether what failed works again.
func (b *Breakers) Keep(saved map[string]State, save func(key string, s State)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept, b.save = map[string]bool{}, save
	for key, s := range saved {
		b.kept[key] = true
		if _, ok := b.states[key]; !ok {
			b.putLocked(key, s)
		}
	}
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
	before := b.states[key]
	s := before.After(f, now)
	b.putLocked(key, s)
	var save func(string, State)
	if s.waiting(now) && s.OpenUntil != before.OpenUntil && s.OpenUntil.Sub(now) >= minKept && b.save != nil {
		save, b.kept[key] = b.save, true
	}
	b.mu.Unlock()
	if save != nil {
		save(key, s)
	}
}

func (b *Breakers) succeeded(key string) {
	b.mu.Lock()
	delete(b.states, key)
	var save func(string, State)
	if b.kept[key] {
		save = b.save
		delete(b.kept, key)
	}
	b.mu.Unlock()
	if save != nil {
		save(key, State{})
	}
}

func (b *Breakers) putLocked(key string, s State) {
	if b.states == nil || len(b.states) >= maxBreakers {
		b.states = map[string]State{} // closed breakers; the next failures open them again
	}
	b.states[key] = s
}
