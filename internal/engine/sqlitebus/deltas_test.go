package sqlitebus_test

import (
	"context"
	"encoding/json"
	"fmt"
	"syscall"
	"testing"
	"time"

	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/event"
)

// BenchmarkDeltas measures the cost of many text streams: each round publishes one delta
// on each of 50 streams, as the runner does.
func BenchmarkDeltas(b *testing.B) {
	for _, streams := range []int{125, 500, 1000} {
		b.Run(fmt.Sprint(streams), func(b *testing.B) {
			_, engine := openBus(b, b.TempDir(), db.Options{}, sqlitebus.Options{TrimEvery: -1})
			const round = 50
			cpu := processorTime()
			for i := range b.N {
				var events []event.Event
				for k := range round {
					events = append(events, delta((i*round+k)%streams, (i*round+k)/streams))
				}
				if err := engine.Publish(context.Background(), events...); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((processorTime()-cpu).Nanoseconds())/float64(b.N*round)/1e3, "µs-cpu/delta")
		})
	}
}

func delta(stream, n int) event.Event {
	request := fmt.Sprintf("web:01KAJ4Y5N9Q8Z7X6W5V4T3S%04d:01KAJ4Y5N9Q8Z7X6W5V4T3S2R1", stream)
	data, _ := json.Marshal(event.TextDelta{Delta: "seven words of a model's long answer ", Seq: int64(n), Offset: int64(n) * 37})
	return event.Event{
		ID: fmt.Sprintf("%s/out/0/%d", request, n), Topic: event.OutputTopic(request), Type: event.OutputDeltaText,
		TS: time.Now().UnixMilli(), Key: request, Lane: request, Data: data,
		Headers: event.RequestHeaders(request, "01KAJ4Y5N9Q8Z7X6W5V4T3S", "web"),
	}
}

// processorTime returns the CPU time that this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
