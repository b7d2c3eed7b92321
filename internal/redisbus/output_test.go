package redisbus_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"lilac/internal/bus"
	"lilac/internal/event"
	"lilac/internal/redistest"
)

// Who begins to read an output while its first event is on its way gets it, and
// is never told that the output was removed.
func TestAnOutputThatBeginsIsNotTakenForOneThatIsGone(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	w := newWorld(t, server, server.URL())
	defer w.close()
	const outputs, readers = 400, 4
	for i := range outputs {
		topic := event.OutputTopic(fmt.Sprintf("web:s:%d", i))
		var reading sync.WaitGroup
		begin := make(chan struct{})
		got := errors.New("it came")
		for range readers {
			reading.Go(func() {
				<-begin
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				if err := w.bus.Tail(ctx, bus.Tail{Topic: topic}, func(bus.Delivery) error { return got }); !errors.Is(err, got) {
					t.Errorf("%s: %v", topic, err)
				}
			})
		}
		close(begin)
		if err := w.bus.Publish(t.Context(), event.Event{ID: fmt.Sprint("e", i), Topic: topic, Type: "test.event", Data: []byte("{}")}); err != nil {
			t.Fatal(err)
		}
		reading.Wait()
		if t.Failed() {
			return
		}
	}
}
