package redisbus_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"lilac/internal/engine/bus"
	"lilac/internal/foundation/event"
	"lilac/internal/testkit/bustest"
	"lilac/internal/testkit/faultproxy"
	"lilac/internal/testkit/redistest"
)

// A backlog that is too large for a slow link to carry within the timeout is sent,
// restored and read in smaller batches.
func TestBacklogPassesASlowLink(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	proxy := faultproxy.Start(t, server.Addr)
	w := &world{t: t, server: server, dir: t.TempDir(), url: "redis://" + proxy.Addr, replyWithin: 400 * time.Millisecond}
	w.open()
	w.attach()
	const events = 30
	server.Kill()
	until(t, "it is away", func() bool { return w.bus.Healthy(context.Background()) != nil })
	for i := range events {
		for _, topic := range []event.Topic{bustest.Topic, plain} {
			e := bustest.Event(topic, fmt.Sprint("a", i), fmt.Sprint("lane", i%3))
			e.Data = []byte(`"` + strings.Repeat("x", 60_000) + `"`)
			if err := w.bus.Publish(context.Background(), e); err != nil {
				t.Fatal(err)
			}
		}
	}
	proxy.Limit(4 << 20)
	server.Restart()
	w.expect(names("a", events))
	server.FlushAll()
	w.healthy()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	defer stop()
	read := 0
	if err := w.bus.Tail(ctx, bus.Tail{Topic: plain}, func(bus.Delivery) error {
		if read++; read == events {
			stop()
		}
		return nil
	}); err != nil || read != events {
		t.Errorf("%d events were read (%v), want %d", read, err, events)
	}
	w.detach()
}
