package delivery

// consumers are the consumers of a group in this process. The dispatcher owns them.
type consumers struct {
	list []*consumer
	turn int // whose turn it is, round robin
	// abandoned is the number of handlers that nothing waits for and that have not
	// returned.
	abandoned int
}

const (
	// abandonedMax is the number of abandoned handlers that a consumer may have before
	// they count against its parallel lanes.
	abandonedMax = 64
)

func (cs *consumers) serves(consumer string) bool {
	for _, c := range cs.list {
		if c.sub.Consumer == consumer {
			return true
		}
	}
	return false
}

func (cs *consumers) limit(c *consumer) int {
	return c.sub.Parallel - max(0, cs.abandoned-abandonedMax)
}

// freeSlots returns the number of handlers that may start.
func (cs *consumers) freeSlots() (n int) {
	for _, c := range cs.list {
		if cs.canStart(c) {
			n += cs.limit(c) - c.running
		}
	}
	return n
}

func (cs *consumers) canStart(c *consumer) bool {
	return !c.stopping && c.ctx.Err() == nil && c.running < cs.limit(c)
}

// pick chooses the consumer for the next delivery, round robin.
func (cs *consumers) pick() *consumer {
	for i := range cs.list {
		c := cs.list[(cs.turn+i)%len(cs.list)]
		if cs.canStart(c) {
			cs.turn++
			return c
		}
	}
	return nil
}

// allStopping reports whether every consumer is stopping.
func (cs *consumers) allStopping() bool {
	for _, c := range cs.list {
		if c.ctx.Err() == nil {
			return false
		}
	}
	return true
}
