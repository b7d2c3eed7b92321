package health

import (
	"fmt"
	"sync"
	"time"
)

// Backlog is how a consumer of events stands.
type Backlog struct {
	Name string
	// Waiting is how many events it has not finished; Oldest is the age of the
	// first of them.
	Waiting int64
	Oldest  time.Duration
	// Served says that somebody consumes.
	Served bool
}

// sameEvent is how far two observations of the time of one event may differ.
const sameEvent = 2 * time.Second

// Progress sees whether consumers get on: not whether much waits, which after
// a long stop is normal, but whether the first of what waits stays the first.
type Progress struct {
	// Stuck is how long one event may stay the first before it is a failure.
	Stuck time.Duration
	// Must are the consumers that have to be served.
	Must []string
	Now  func() time.Time

	mu   sync.Mutex
	seen map[string]first
}

type first struct {
	event time.Time // when the first event happened
	since time.Time // when it was first seen as the first
}

// Check returns why a consumer does not get on.
func (p *Progress) Check(now []Backlog) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	at, before := p.Now(), p.seen
	p.seen = make(map[string]first, len(now))
	served := map[string]bool{}
	var stuck error
	for _, b := range now {
		served[b.Name] = served[b.Name] || b.Served
		if b.Waiting == 0 || b.Oldest <= 0 {
			continue
		}
		f := first{event: at.Add(-b.Oldest), since: at}
		if old, ok := before[b.Name]; ok && f.event.Sub(old.event).Abs() <= sameEvent {
			f = old
		}
		p.seen[b.Name] = f
		if waited := at.Sub(f.since); b.Served && waited >= p.Stuck && stuck == nil {
			stuck = fmt.Errorf("the group %s is stuck: an event waits for %s and does not get on (%d wait)", b.Name, b.Oldest.Round(time.Second), b.Waiting)
		}
	}
	for _, name := range p.Must {
		if !served[name] {
			return fmt.Errorf("nobody consumes for the group %s", name)
		}
	}
	return stuck
}
