package delivery

import "lilac/internal/event"

// Users is how many consumers have joined a group, or are about to.
func (b *Engine) Users(topic event.Topic, name string) int {
	b.mu.RLock()
	defer b.mu.RUnlock()
	if g := b.groups[groupName{topic, name}]; g != nil {
		return g.users
	}
	return 0
}

// TailQueue is the queue of a tail, and the buffer that its reader gives back.
type TailQueue struct {
	queue tailQueue
	spare []*Record
}

// NewTailQueue makes a queue that holds n records.
func NewTailQueue(n int) *TailQueue {
	return &TailQueue{queue: tailQueue{max: n, wake: make(chan struct{}, 1)}}
}

// Push feeds a record.
func (q *TailQueue) Push(seq int64) { q.queue.push(&Record{Seq: seq}) }

// Take returns what waits, as a reader takes it.
func (q *TailQueue) Take() (seqs []int64) {
	items, _, ok := q.queue.take(q.spare)
	if !ok {
		return nil
	}
	for i, r := range items {
		seqs = append(seqs, r.Seq)
		items[i] = nil
	}
	q.spare = items[:0]
	return seqs
}
