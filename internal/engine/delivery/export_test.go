package delivery

import "lilac/internal/foundation/event"

// Users returns the number of consumers that have joined a group or are joining it.
func (b *Engine) Users(topic event.Topic, name string) int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if g := b.groups[groupName{topic, name}]; g != nil {
		return g.users
	}
	return 0
}

// TailQueue is the queue of a tail, and its reader.
type TailQueue struct {
	queue  tailQueue
	reader reader
}

// NewTailQueue creates a queue for up to n records.
func NewTailQueue(n int) *TailQueue {
	return &TailQueue{queue: tailQueue{max: n, wake: make(chan struct{}, 1)}}
}

// Push feeds a record.
func (q *TailQueue) Push(seq int64) { q.queue.push(&Record{Seq: seq}) }

// Take returns the queued records, as a reader would get them.
func (q *TailQueue) Take() (seqs []int64) {
	if !q.queue.drainTo(&q.reader) {
		return nil
	}
	for i, r := range q.reader.items {
		seqs = append(seqs, r.Seq)
		q.reader.items[i] = nil
	}
	return seqs
}
