package bench

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"lilac/internal/testkit/e2e"
	"lilac/internal/testkit/llmtest"
)

// BenchmarkWebhook measures the time from a webhook's POST to its 202, which is sent when the
// event is on disk. It measures sequential requests, and eight concurrent senders without pauses.
// The target is 100 ms.
func BenchmarkWebhook(b *testing.B) {
	model := llmtest.New(b, func(llmtest.Request) llmtest.Script { return llmtest.Say("Yes.") })
	for _, senders := range []int{1, 8} {
		b.Run(fmt.Sprintf("%d-at-a-time", senders), func(b *testing.B) {
			s := e2e.Start(b, slices.Concat(
				[]string{"OPENAI_BASE_URL=" + model.URL + "/v1", "OPENAI_API_KEY=bench", "LILAC_MODEL=openai/bench"},
				e2e.Configured(b, "webhooks:\n  github: {secret: "+e2e.HookSecret+", queue: 100000}\nrules:\n  drop: {when: {type: webhook.received}, do: {drop: true}}\n"))...)
			const each = 250
			run := 0
			for b.Loop() {
				run++
				took := make(chan []time.Duration, senders)
				for n := range senders {
					go func() {
						var mine []time.Duration
						for i := range each {
							began := time.Now()
							if code, _ := s.Hook("github", fmt.Sprintf("%d-%d-%d", run, n, i), `{"action":"completed"}`); code != http.StatusAccepted {
								b.Errorf("answered with %d", code)
							}
							mine = append(mine, time.Since(began))
						}
						took <- mine
					}()
				}
				var all []time.Duration
				for range senders {
					all = append(all, <-took...)
				}
				micros(b, quantile(all, 0.5), "µs-p50")
				micros(b, quantile(all, 0.99), "µs-p99")
			}
		})
	}
}
