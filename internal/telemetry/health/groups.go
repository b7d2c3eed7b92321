package health

import (
	"fmt"
	"sync"
	"time"

	"lilac/internal/foundation/text"
)

// Backlog is the state of a consumer group.
type Backlog struct {
	Name string
	// Waiting is the number of events that it has not finished; Oldest is the age of
	// the first of them.
	Waiting int64
	Oldest  time.Duration
	// Served reports whether the group has a consumer.
	Served bool
}

// sameEvent is how much two observations of one event's time may differ.
const sameEvent = 2 * time.Second

// Progress detects stuck consumers. A large backlog is normal after a long stop; a
// consumer is stuck if the same event stays first in line.
type Progress struct {
	// Stuck is how long one event may stay first in line.
	Stuck time.Duration
	// Must lists the groups that need a consumer.
	Must []string
	Now  func() time.Time

	mu   sync.Mutex
	seen map[string]first
}

type first struct {
	event time.Time // when the first event happened
	since time.Time // when it was first seen as the first
}

// Check returns an error if a group is stuck or has no consumer.
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
			stuck = fmt.Errorf("the group %s is stuck: its first event has been waiting for %s (waiting: %s)", b.Name, b.Oldest.Round(time.Second), text.Count(b.Waiting, "event"))
		}
	}
	for _, name := range p.Must {
		if !served[name] {
			return fmt.Errorf("the group %s has no consumer", name)
		}
	}
	return stuck
}
