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

// halvingsMax is the maximum number of halvings. It leaves batches of 16 KiB, and reads
// of one entry.
const halvingsMax = 8

// limit scales most down while the link is slow.
func (p *batchSizer) limit(most int) int { return max(1, most>>p.halvings.Load()) }

// observe adjusts the size after an exchange with the given duration and timeout. full
// means that the exchange was about as large as the limit. If it took less than a
// quarter of the timeout, the next one can be twice as large.
func (p *batchSizer) observe(took, within time.Duration, full bool, err error) {
	n := p.halvings.Load()
	switch {
	case errors.Is(err, context.DeadlineExceeded) && n < halvingsMax:
		p.halvings.CompareAndSwap(n, n+1)
	case err == nil && full && took < within/4 && n > 0:
		p.halvings.CompareAndSwap(n, n-1)
	}
}

// cutBatch splits off the items of one batch, at least one.
func (b *Bus) cutBatch(items []*item) (part, rest []*item) {
	size, most := 0, b.sizer.limit(chunkBytes)
	for n, it := range items {
		if size += it.size(); n > 0 && (n == rowsChunk || size > most) {
			return items[:n], items[n:]
		}
	}
	return items, nil
}
