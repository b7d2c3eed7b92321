package delivery

import (
	"container/heap"
	"slices"
)

// An entry is an event between the cursor and its commit.
type entry struct {
	seq  int64
	lane *lane
	// rec is the event; nil until it is needed if the group is over inMemory.
	rec        *Record
	replay     bool  // rec came with a replay, not from the log
	damage     error // set if the event of a replay is damaged
	attempt    int
	consumer   string
	leaseUntil int64 // ms
	notBefore  int64 // ms
	reason     string
	stored     bool // has a pending row
	// claimedBy is the consumer for which the row already counts an attempt that
	// has not started; see [Engine.Claim].
	claimedBy string
	run       *run // set while a handler runs
}

// A lane runs one entry at a time, oldest first.
type lane struct {
	name    string
	entries []*entry
	// queued means that the lane is in ready or in waiting.
	queued bool
	due    int64
	index  int // within waiting
}

// lanes holds all lanes with entries: the ready ones in FIFO order, the waiting
// ones by their due time.
type lanes struct {
	byName  map[string]*lane
	ready   []*lane
	waiting laneHeap
}

func (l *lanes) add(e *entry, name string) {
	ln := l.byName[name]
	if ln == nil {
		ln = &lane{name: name}
		l.byName[name] = ln
	}
	e.lane = ln
	at := len(ln.entries)
	// A replay goes before newer waiting entries, but the running entry stays first.
	for at > 0 && ln.entries[at-1].seq > e.seq && ln.entries[at-1].run == nil {
		at--
	}
	ln.entries = slices.Insert(ln.entries, at, e)
}

func (l *lanes) remove(e *entry) {
	ln := e.lane
	if len(ln.entries) > 0 && ln.entries[0] == e { // the common case; a lane may be long
		ln.entries[0], ln.entries = nil, ln.entries[1:]
	} else {
		ln.entries = slices.DeleteFunc(ln.entries, func(x *entry) bool { return x == e })
	}
	if len(ln.entries) == 0 && !ln.queued {
		delete(l.byName, ln.name)
	}
}

// schedule queues a lane unless its first entry is running.
func (l *lanes) schedule(ln *lane, now, due int64) {
	if ln.queued || len(ln.entries) == 0 || ln.entries[0].run != nil {
		return
	}
	ln.queued = true
	if due <= now {
		l.ready = append(l.ready, ln)
		return
	}
	ln.due = due
	heap.Push(&l.waiting, ln)
}

// wake moves lanes that are due to the ready ones.
func (l *lanes) wake(now int64) {
	for len(l.waiting) > 0 && l.waiting[0].due <= now {
		l.ready = append(l.ready, heap.Pop(&l.waiting).(*lane))
	}
}

// next removes and returns the first ready lane with an entry that can start.
func (l *lanes) next() *lane {
	for len(l.ready) > 0 {
		ln := l.ready[0]
		l.ready[0] = nil
		l.ready = l.ready[1:]
		ln.queued = false
		if len(ln.entries) == 0 {
			delete(l.byName, ln.name)
			continue
		}
		if ln.entries[0].run == nil {
			return ln
		}
	}
	return nil
}

// putBack makes a lane the next one again.
func (l *lanes) putBack(ln *lane) {
	ln.queued = true
	l.ready = slices.Insert(l.ready, 0, ln)
}

// clearWaiting removes and returns all waiting lanes, so that they can be rescheduled.
func (l *lanes) clearWaiting() []*lane {
	out := []*lane(l.waiting)
	l.waiting = nil
	for _, ln := range out {
		if ln.queued = false; len(ln.entries) == 0 {
			delete(l.byName, ln.name)
		}
	}
	return out
}

type laneHeap []*lane

func (h laneHeap) Len() int           { return len(h) }
func (h laneHeap) Less(i, j int) bool { return h[i].due < h[j].due }
func (h laneHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i]; h[i].index, h[j].index = i, j }

// Push implements [heap.Interface].
func (h *laneHeap) Push(x any) {
	ln := x.(*lane)
	ln.index = len(*h)
	*h = append(*h, ln)
}

// Pop implements [heap.Interface].
func (h *laneHeap) Pop() any {
	old := *h
	ln := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	return ln
}
