package session_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/model/llm"
)

// BenchmarkCommandToModel measures the time from the publication of a command to the model call and
// counts the commits in between.
func BenchmarkCommandToModel(b *testing.B) {
	called := make(chan struct{}, 1)
	var commits atomic.Int64
	r := newRig(b, rigOptions{
		onCommit: func(done bool) {
			if done {
				commits.Add(1)
			}
		},
		do: func(ctx context.Context, req llm.Request, say func(string)) (chat.Message, error) {
			called <- struct{}{}
			return echo(ctx, req, say)
		},
	})
	var waited time.Duration
	var counted int64
	for i := range b.N {
		id := fmt.Sprintf("web:s1:r%d", i)
		begin, before := time.Now(), commits.Load()
		r.send(id, fmt.Sprintf("m%d", i), event.Prompt, "hello")
		<-called
		waited += time.Since(begin)
		counted += commits.Load() - before
		r.waitForEnd(id)
	}
	b.ReportMetric(float64(waited.Microseconds())/float64(b.N), "µs/call")
	b.ReportMetric(float64(counted)/float64(b.N), "commits/call")
}
