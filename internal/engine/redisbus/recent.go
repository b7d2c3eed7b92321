package redisbus

import (
	"encoding/binary"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"lilac/internal/foundation/event"
)

// recentBytes is the maximum memory of recent, in bytes. It is enough for a minute of
// heavy output.
const recentBytes = 16 << 20

// recent keeps the events without rows that were sent in the last minute, in case Redis
// loses them. It stores each batch as one string without pointers, so the garbage
// collector does not have to scan it.
type recent struct {
	mu      sync.Mutex
	batches []sentBatch
	size    int
}

type sentBatch struct {
	number int64
	at     time.Time
	data   string // position, topic, id and entry of each event
}

func (r *recent) add(items []*item, number int64, at time.Time) {
	var data []byte
	for _, it := range items {
		if it.row != 0 || it.pos == 0 {
			continue
		}
		if data == nil {
			data = make([]byte, 0, len(items)*(it.size()+len(it.topic)+16))
		}
		data = binary.AppendUvarint(data, uint64(it.pos))
		for _, part := range []string{string(it.topic), it.id, it.entry} {
			data = append(binary.AppendUvarint(data, uint64(len(part))), part...)
		}
	}
	if data == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.batches = append(r.batches, sentBatch{number, at, rueidis.BinaryString(data)})
	r.size += len(data)
	drop := 0
	for r.size > recentBytes {
		r.size -= len(r.batches[drop].data)
		drop++
	}
	r.drop(drop)
}

func (r *recent) forget(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	drop := 0
	for drop < len(r.batches) && now.Sub(r.batches[drop].at) > keepSent {
		r.size -= len(r.batches[drop].data)
		drop++
	}
	r.drop(drop)
}

// drop removes the oldest n batches. It reallocates the slice when most of its capacity
// is unused.
func (r *recent) drop(n int) {
	clear(r.batches[:n])
	r.batches = r.batches[n:]
	if cap(r.batches) > 2*len(r.batches)+1024 {
		r.batches = append([]sentBatch(nil), r.batches...)
	}
}

// since returns the events of all batches after the given one, oldest first.
func (r *recent) since(batch int64) []*item {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []*item
	for _, b := range r.batches {
		if b.number > batch {
			out = append(out, b.items()...)
		}
	}
	return out
}

// items decodes a batch that add encoded.
func (b sentBatch) items() (out []*item) {
	rest := []byte(b.data)
	number := func() uint64 {
		n, size := binary.Uvarint(rest)
		rest = rest[size:]
		return n
	}
	text := func() string {
		n := number()
		t := string(rest[:n])
		rest = rest[n:]
		return t
	}
	for len(rest) > 0 {
		it := &item{batch: b.number, pos: int64(number())}
		it.topic, it.id, it.entry = event.Topic(text()), text(), text()
		out = append(out, it)
	}
	return out
}
