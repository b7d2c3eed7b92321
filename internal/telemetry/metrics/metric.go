package metrics

import (
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// maxSeries bounds the combinations of label values of one metric, because a
	// scraper reads them every few seconds and keeps them for months.
	maxSeries = 200
	// overflow replaces every label value of combinations beyond maxSeries.
	overflow = "other"
)

// seriesLimit maps label values to those that a metric may use.
type seriesLimit struct {
	mu   sync.Mutex
	seen map[string]bool
}

// admit returns the values as valid UTF-8, or overflow values once the limit is
// reached.
func (l *seriesLimit) admit(values []string) []string {
	valid := make([]string, len(values))
	for i, v := range values {
		valid[i] = strings.ToValidUTF8(v, "\uFFFD")
	}
	key := strings.Join(valid, "\xff")
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.seen[key]:
	case len(l.seen) >= maxSeries:
		return slices.Repeat([]string{overflow}, len(values))
	case l.seen == nil:
		l.seen = map[string]bool{key: true}
	default:
		l.seen[key] = true
	}
	return valid
}

// Counter is a value that only grows.
type Counter struct {
	vec   *prometheus.CounterVec
	limit seriesLimit
}

// Counter declares a counter. Its name ends in _total.
func (r *Registry) Counter(name, help string, labels ...string) *Counter {
	c := &Counter{vec: prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)}
	if len(labels) == 0 {
		c.Add(0) // dashboards see a zero instead of a gap
	}
	r.declare(Desc{name, help, CounterKind, labels}, c.vec)
	return c
}

// Add adds v for the label values. It ignores negative values.
func (c *Counter) Add(v float64, labels ...string) {
	if v >= 0 {
		c.vec.WithLabelValues(c.limit.admit(labels)...).Add(v)
	}
}

// Histogram counts observations by size.
type Histogram struct {
	vec   *prometheus.HistogramVec
	limit seriesLimit
}

// Buckets of durations, in seconds: from a local call to an hour of agent work.
var (
	// ShortBuckets fit one HTTP or tool call.
	ShortBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	// LongBuckets fit model calls and whole requests.
	LongBuckets = []float64{.1, .25, .5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600, 1800, 3600}
)

// Histogram declares a histogram with upper bounds in rising order.
func (r *Registry) Histogram(name, help string, buckets []float64, labels ...string) *Histogram {
	h := &Histogram{vec: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)}
	r.declare(Desc{name, help, HistogramKind, labels}, h.vec)
	return h
}

// Observe counts one observation for the label values.
func (h *Histogram) Observe(v float64, labels ...string) {
	h.vec.WithLabelValues(h.limit.admit(labels)...).Observe(v)
}

// Reader reports the current values of a metric by calling set once for each
// combination of label values. Values of the same combination add up.
type Reader func(set func(v float64, labels ...string))

// Gauge declares a gauge whose values read reports at each scrape.
func (r *Registry) Gauge(name, help string, read Reader, labels ...string) {
	r.collect(Desc{name, help, GaugeKind, labels}, prometheus.GaugeValue, read)
}

// CounterOf declares a counter that is counted elsewhere; read reports its values
// at each scrape.
func (r *Registry) CounterOf(name, help string, read Reader, labels ...string) {
	r.collect(Desc{name, help, CounterKind, labels}, prometheus.CounterValue, read)
}

func (r *Registry) collect(d Desc, kind prometheus.ValueType, read Reader) {
	r.declare(d, &collector{prometheus.NewDesc(d.Name, d.Help, d.Labels, nil), kind, read})
}

type collector struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read Reader
}

// Describe implements [prometheus.Collector].
func (c *collector) Describe(out chan<- *prometheus.Desc) { out <- c.desc }

// Collect implements [prometheus.Collector].
func (c *collector) Collect(out chan<- prometheus.Metric) {
	var limit seriesLimit
	sums, values := map[string]float64{}, map[string][]string{}
	c.read(func(v float64, labels ...string) {
		labels = limit.admit(labels)
		key := strings.Join(labels, "\xff")
		sums[key] += v
		values[key] = labels
	})
	for key, labels := range values {
		out <- prometheus.MustNewConstMetric(c.desc, c.kind, sums[key], labels...)
	}
}
