package httpapi

import (
	_ "embed" // for openapi.json
	"net/http"
	"runtime"
	"runtime/metrics"
	"strconv"
	"sync/atomic"

	"lilac/internal/fault"
)

//go:embed openapi.json
var openAPIDocument []byte

// stats are the numbers that the handler counts itself.
type stats struct {
	prompts, errors, deltas, writes, streams atomic.Int64
}

func (a *api) healthz(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, http.StatusOK, struct {
		Status  string `json:"status"`
		Version string `json:"version,omitempty"`
	}{"ok", a.Version})
}

func (a *api) readyz(w http.ResponseWriter, r *http.Request) error {
	if a.Ready != nil {
		if err := a.Ready(r.Context()); err != nil {
			return &fault.Error{Kind: fault.Unavailable, Code: "not_ready", Message: "Not ready.", Err: err}
		}
	}
	if a.Bus != nil {
		if err := a.Bus.Healthy(r.Context()); err != nil {
			return &fault.Error{Kind: fault.Unavailable, Code: "not_ready", Message: "The bus does not work.", Err: err}
		}
	}
	return writeJSON(w, http.StatusOK, struct {
		Status string `json:"status"`
	}{"ready"})
}

// metrics writes the Prometheus text format.
func (a *api) metrics(w http.ResponseWriter, r *http.Request) error {
	var b []byte
	put := func(name, kind, help string, v int64, labels string) {
		b = append(b, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"...)
		b = append(b, name+labels+" "+strconv.FormatInt(v, 10)+"\n"...)
	}
	put("lilac_uptime_seconds", "gauge", "Seconds since the start.", int64(a.Now().Sub(a.started).Seconds()), "")
	put("lilac_prompts_accepted_total", "counter", "Prompts answered with 200, repeated ones included.", a.stats.prompts.Load(), "")
	put("lilac_http_errors_total", "counter", "Requests answered with an error.", a.stats.errors.Load(), "")
	put("lilac_event_streams", "gauge", "Open event streams.", a.stats.streams.Load(), "")
	put("lilac_stream_output_events_total", "counter", "Output events taken by event streams.", a.stats.deltas.Load(), "")
	put("lilac_stream_writes_total", "counter", "Writes to event streams.", a.stats.writes.Load(), "")
	put("lilac_goroutines", "gauge", "Goroutines.", int64(runtime.NumGoroutine()), "")
	sample := []metrics.Sample{{Name: "/memory/classes/total:bytes"}}
	if metrics.Read(sample); sample[0].Value.Kind() == metrics.KindUint64 {
		put("lilac_memory_bytes", "gauge", "Memory mapped by the Go runtime.", int64(sample[0].Value.Uint64()), "")
	}
	groups, err := a.Bus.Groups(r.Context())
	if err != nil {
		return err
	}
	for _, m := range []struct{ name, help string }{
		{"lilac_bus_pending", "Events delivered to a group and not committed."},
		{"lilac_bus_backlog", "Events not delivered to a group yet."},
		{"lilac_bus_oldest_ms", "Age of the oldest event that a group has not committed."},
	} {
		b = append(b, "# HELP "+m.name+" "+m.help+"\n# TYPE "+m.name+" gauge\n"...)
		for _, g := range groups {
			v := map[string]int64{"lilac_bus_pending": g.Pending, "lilac_bus_backlog": g.Backlog, "lilac_bus_oldest_ms": g.OldestMS}[m.name]
			b = append(b, m.name+`{topic=`+strconv.Quote(string(g.Topic))+`,group=`+strconv.Quote(g.Group)+`} `+strconv.FormatInt(v, 10)+"\n"...)
		}
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, err = w.Write(b)
	return err
}

func (a *api) openAPI(w http.ResponseWriter, _ *http.Request) error {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, err := w.Write(openAPIDocument)
	return err
}
