package bench

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lilac/internal/foundation/event"
	"lilac/internal/testkit/e2e"
)

// flooding is the size of one answer of the flooding model, in bytes.
const flooding = 100 << 20

// warmUp is the prompt that gets a short answer: the first answer of a process fills caches.
const warmUp = "warm up"

// flood offers each caller 100 MB at full speed, without repeating itself.
type flood struct {
	// delta is the format of a delta with a piece of text.
	delta string
	sent  atomic.Int64
}

// The deltas of text, of thinking, and of the arguments of a tool call.
const (
	floodText      = `{"content":%q}`
	floodThinking  = `{"reasoning_content":%q}`
	floodArguments = `{"tool_calls":[{"index":0,"id":"call-1","type":"function","function":{"name":"write","arguments":%q}}]}`
)

func (m *flood) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.NotFound(w, r) // it lists no models
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	size, delta := flooding, m.delta
	if body, _ := io.ReadAll(r.Body); strings.Contains(string(body), warmUp) {
		size, delta = 1, floodText
	}
	var b strings.Builder
	for n := 0; n < size && r.Context().Err() == nil; {
		b.Reset()
		for b.Len() < 4<<10 {
			fmt.Fprintf(&b, "word%d ", n+b.Len())
		}
		if _, err := fmt.Fprintf(w, `data: {"choices":[{"index":0,"delta":`+delta+`}]}`+"\n\n", b.String()); err != nil {
			return
		}
		n += b.Len()
		m.sent.Add(int64(b.Len()))
	}
	fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`+"\n\ndata: [DONE]\n\n")
}

// BenchmarkFlood measures what an answer costs that a model offers at full speed: the growth of
// the memory, the time of a cancel in the middle, and the time of another client's POST /sessions,
// compared with that of an idle program. The goals are 32 MiB, one second, and twice the time. It
// measures the default limits of an answer and the highest one.
func BenchmarkFlood(b *testing.B) {
	for _, c := range []struct{ name, delta, config string }{
		{"text", floodText, ""},
		{"thinking", floodThinking, ""},
		{"arguments", floodArguments, ""},
		{"text=4MiB", floodText, "limits: {answer: {text: 4MiB}}\n"},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				measureFlood(b, c.delta, c.config)
			}
		})
	}
}

func measureFlood(b *testing.B, delta, config string) {
	model := &flood{delta: delta}
	fake := httptest.NewServer(model)
	b.Cleanup(fake.Close)
	s := e2e.Start(b, slices.Concat(
		[]string{"OPENAI_BASE_URL=" + fake.URL + "/v1", "OPENAI_API_KEY=bench", "LILAC_MODEL=openai/bench"},
		e2e.Configured(b, config))...)
	create := func(until func() bool) (took []time.Duration) {
		for len(took) < 20 || !until() {
			began := time.Now()
			if code := s.Request("POST", "/sessions", nil, nil); code != http.StatusCreated {
				b.Fatalf("POST /sessions answered %d", code)
			}
			took = append(took, time.Since(began))
			time.Sleep(2 * time.Millisecond) // another client, not a load test
		}
		return took
	}
	s.WaitEnded(s.Prompt(s.NewSession(), warmUp, event.Prompt).RequestID, time.Minute)
	began := time.Now()
	idle := create(func() bool { return time.Since(began) > time.Second })
	before := rss(b, s.PID())
	var most atomic.Int64
	ctx, stop := context.WithCancel(b.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			most.Store(max(most.Load(), rss(b, s.PID())))
			time.Sleep(5 * time.Millisecond)
		}
	}()

	// Whole answers: each ends at the limit of its size.
	session := s.NewSession()
	a := s.Prompt(session, "flood", event.Prompt)
	ended := func() bool { st := s.Story(a.RequestID); return st.State == "failed" || st.State == "done" }
	busy := create(ended)
	end := s.WaitEnded(a.RequestID, time.Minute)
	if !strings.Contains(end.Detail, "too long") {
		b.Errorf("ended as %s: %s", end.State, end.Detail)
	}

	// A cancel in the middle of the next one.
	session = s.NewSession()
	sent := model.sent.Load()
	a = s.Prompt(session, "flood", event.Prompt)
	for model.sent.Load() < sent+256<<10 {
		time.Sleep(time.Millisecond)
	}
	began = time.Now()
	s.Cancel(session)
	s.WaitEnded(a.RequestID, time.Minute)
	cancelled := time.Since(began)
	stop()
	<-done
	b.ReportMetric(float64(most.Load()-before)/(1<<20), "MiB-more")
	b.ReportMetric(float64(cancelled.Milliseconds()), "ms-cancel")
	micros(b, quantile(idle, 0.5), "µs-idle-p50")
	micros(b, quantile(busy, 0.5), "µs-busy-p50")
	micros(b, quantile(busy, 0.99), "µs-busy-p99")
	b.ReportMetric(float64(quantile(busy, 0.5))/float64(quantile(idle, 0.5)), "x-p50")
}
