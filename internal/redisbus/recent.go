package redisbus

import (
	"sync"
	"time"
)

// recentBytes bounds what recent remembers: a minute of a busy program's
// output, and no more than a program may cost.
const recentBytes = 16 << 20

// recent remembers the events without rows that were sent in the last minute,
// for a Redis that loses them.
type recent struct {
	mu    sync.Mutex
	items []sentItem
	size  int
}

type sentItem struct {
	*item
	at time.Time
}

func (r *recent) add(items []*item, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, it := range items {
		if it.row == 0 && it.pos != 0 {
			r.items = append(r.items, sentItem{it, at})
			r.size += it.size()
		}
	}
	drop := 0
	for r.size > recentBytes {
		r.size -= r.items[drop].size()
		drop++
	}
	r.drop(drop)
}

func (r *recent) forget(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	drop := 0
	for drop < len(r.items) && now.Sub(r.items[drop].at) > keepSent {
		r.size -= r.items[drop].size()
		drop++
	}
	r.drop(drop)
}

// drop removes the oldest n, and their memory when it is most of the slice.
func (r *recent) drop(n int) {
	clear(r.items[:n])
	r.items = r.items[n:]
	if cap(r.items) > 2*len(r.items)+1024 {
		r.items = append([]sentItem(nil), r.items...)
	}
}

// since returns what was sent in batches after one, oldest first.
func (r *recent) since(batch int64) []*item {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*item
	for _, it := range r.items {
		if it.batch > batch {
			out = append(out, it.item)
		}
	}
	return out
}
