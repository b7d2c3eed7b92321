package bench

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// A stampedModel implements just enough of chat completions to stream tokens that contain their
// send time, at the lowest cost for the shared machine.
type stampedModel struct {
	base   time.Time
	tokens int
	delay  time.Duration
	asked  atomic.Int64
}

func (m *stampedModel) listen(b testing.TB) string {
	server := httptest.NewServer(m)
	b.Cleanup(server.Close)
	return server.URL
}

func (m *stampedModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost { // the question for the size of the window
		http.NotFound(w, r)
		return
	}
	m.asked.Add(1)
	w.Header().Set("Content-Type", "text/event-stream")
	flush := http.NewResponseController(w)
	tick := time.NewTicker(m.delay)
	defer tick.Stop()
	for range m.tokens {
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
		fmt.Fprintf(w, `data: {"choices":[{"index":0,"delta":{"content":"%d "}}]}`+"\n\n", time.Since(m.base).Nanoseconds())
		if flush.Flush() != nil {
			return
		}
	}
	fmt.Fprint(w, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`+"\n\ndata: [DONE]\n\n")
	_ = flush.Flush() // an error means that the reader has disconnected
}
