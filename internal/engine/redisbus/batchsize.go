package redisbus

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// batchSizer adapts the size of exchanges, so that replies arrive in time over a slow
// link. A timeout halves the size; a full exchange that is fast doubles it again.
type batchSizer struct{ halvings atomic.Int32 }

// halvingsMax is how often it is halved: then a batch has 16 KiB, and a read one entry.
const halvingsMax = 8

// of scales most down while the link is slow.
func (p *batchSizer) limit(most int) int { return max(1, most>>p.halvings.Load()) }

// took notes how an exchange went that may take so long, and whether it moved about
// as much as it may. One that took a quarter of its time can be twice as large.
func (p *batchSizer) observe(took, within time.Duration, full bool, err error) {
	n := p.halvings.Load()
	switch {
	case errors.Is(err, context.DeadlineExceeded) && n < halvingsMax:
		p.halvings.CompareAndSwap(n, n+1)
	case err == nil && full && took < within/4 && n > 0:
		p.halvings.CompareAndSwap(n, n-1)
	}
}

// part cuts off what is sent at once. It is an event at least.
func (b *Bus) cutBatch(items []*item) (part, rest []*item) {
	size, most := 0, b.sizer.limit(chunkBytes)
	for n, it := range items {
		if size += it.size(); n > 0 && (n == rowsChunk || size > most) {
			return items[:n], items[n:]
		}
	}
	return items, nil
}
