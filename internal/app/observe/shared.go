package observe

import (
	"context"
	"sync"
	"time"

	"lilac/internal/engine/bus"
)

// shared reads the groups of the bus once for all gauges of a scrape. The mutex guards its
// fields.
type shared struct {
	mu     sync.Mutex
	at     time.Time
	groups []bus.GroupStatus
}

func (s *shared) of(b bus.GroupTable) []bus.GroupStatus {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b == nil || time.Since(s.at) < sharedFor {
		return s.groups
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeLimit)
	defer cancel()
	groups, err := b.Groups(ctx)
	if err != nil {
		groups = nil
	}
	s.groups, s.at = groups, time.Now()
	return s.groups
}
