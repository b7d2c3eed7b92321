package delivery_test

import (
	"sync"
	"testing"

	"lilac/internal/engine/delivery"
)

// Records that are pushed while a reader polls the queue arrive once and in order, even
// if most polls find nothing.
func TestTailQueueLosesNothingAfterSpuriousRereads(t *testing.T) {
	const records = 20_000
	q := delivery.NewTailQueue(records)
	var push sync.WaitGroup
	push.Go(func() {
		for seq := range int64(records) {
			q.Push(seq + 1)
		}
	})
	defer push.Wait()
	for want := int64(1); want <= records; {
		for _, seq := range q.Take() {
			if seq != want {
				t.Fatalf("record %d came where %d was next", seq, want)
			}
			want++
		}
	}
}
