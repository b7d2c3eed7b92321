package metrics

import (
	"slices"
	"strings"
	"sync"
)

// series are the values of one metric by their label values.
type series[T any] struct {
	d  Desc
	mu sync.Mutex
	m  map[string]*entry[T]
}

type entry[T any] struct {
	labels []string
	value  T
}

func newSeries[T any](kind Kind, name, help string, labels []string) series[T] {
	return series[T]{d: Desc{Name: name, Help: help, Kind: kind, Labels: labels}, m: map[string]*entry[T]{}}
}

func (s *series[T]) desc() Desc { return s.d }

// atLocked returns the value for the labels, which it makes if there is room.
func (s *series[T]) atLocked(values []string) *T {
	if len(values) != len(s.d.Labels) {
		panic("the metric " + s.d.Name + " has other labels")
	}
	key := strings.Join(values, "\xff")
	e, ok := s.m[key]
	if !ok && len(s.m) >= maxSeries && len(values) > 0 {
		values = slices.Repeat([]string{overflow}, len(values))
		key = strings.Join(values, "\xff")
		e, ok = s.m[key]
	}
	if !ok {
		e = &entry[T]{labels: slices.Clone(values)}
		s.m[key] = e
	}
	return &e.value
}

// sortedLocked returns the entries in a stable order.
func (s *series[T]) sortedLocked() []*entry[T] {
	out := make([]*entry[T], 0, len(s.m))
	for _, e := range s.m {
		out = append(out, e)
	}
	slices.SortFunc(out, func(a, b *entry[T]) int { return slices.Compare(a.labels, b.labels) })
	return out
}

// Counter only grows.
type Counter struct{ series[float64] }

// Counter declares a counter; its name ends in _total.
func (r *Registry) Counter(name, help string, labels ...string) *Counter {
	c := &Counter{newSeries[float64](CounterKind, name, help, labels)}
	if len(labels) == 0 {
		c.Add(0)
	}
	r.add(c)
	return c
}

// Add adds v, which is not negative, for the label values.
func (c *Counter) Add(v float64, labels ...string) {
	if v < 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	*c.atLocked(labels) += v
}

func (c *Counter) write(b *strings.Builder) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, e := range c.sortedLocked() {
		sample(b, c.d.Name, c.d.Labels, e.labels, "", "", e.value)
	}
}

// Gauge is a value of now, asked for when it is read.
type Gauge struct {
	d    Desc
	read func(set func(v float64, labels ...string))
}

// Gauge declares a gauge; read is called at each scrape, with what sets a value.
func (r *Registry) Gauge(name, help string, read func(set func(v float64, labels ...string)), labels ...string) {
	r.collected(GaugeKind, name, help, read, labels)
}

// CounterOf declares a counter that somebody else counts.
func (r *Registry) CounterOf(name, help string, read func(set func(v float64, labels ...string)), labels ...string) {
	r.collected(CounterKind, name, help, read, labels)
}

func (r *Registry) collected(kind Kind, name, help string, read func(set func(v float64, labels ...string)), labels []string) {
	r.add(&Gauge{Desc{Name: name, Help: help, Kind: kind, Labels: labels}, read})
}

func (g *Gauge) desc() Desc { return g.d }

func (g *Gauge) write(b *strings.Builder) {
	now := newSeries[float64](g.d.Kind, g.d.Name, g.d.Help, g.d.Labels)
	g.read(func(v float64, labels ...string) { *now.atLocked(labels) += v })
	for _, e := range now.sortedLocked() {
		sample(b, g.d.Name, g.d.Labels, e.labels, "", "", e.value)
	}
}

// Histogram counts observations by size.
type Histogram struct {
	series[observations]
	buckets []float64
}

type observations struct {
	counts []uint64 // by bucket, not added up
	count  uint64
	sum    float64
}

// Buckets of durations in seconds: from what a local call takes to what an
// agent works on for an hour.
var (
	// ShortBuckets are for one call of HTTP or of a tool.
	ShortBuckets = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	// LongBuckets are for model calls and whole requests.
	LongBuckets = []float64{.1, .25, .5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300, 600, 1800, 3600}
)

// Histogram declares a histogram with upper bounds in rising order.
func (r *Registry) Histogram(name, help string, buckets []float64, labels ...string) *Histogram {
	h := &Histogram{newSeries[observations](HistogramKind, name, help, labels), buckets}
	r.add(h)
	return h
}

// Observe counts one observation for the label values.
func (h *Histogram) Observe(v float64, labels ...string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	o := h.atLocked(labels)
	if o.counts == nil {
		o.counts = make([]uint64, len(h.buckets))
	}
	if i, _ := slices.BinarySearch(h.buckets, v); i < len(h.buckets) {
		o.counts[i]++
	}
	o.count++
	o.sum += v
}

func (h *Histogram) write(b *strings.Builder) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range h.sortedLocked() {
		var below uint64
		for i, bound := range h.buckets {
			below += e.value.counts[i]
			sample(b, h.d.Name+"_bucket", h.d.Labels, e.labels, "le", number(bound), float64(below))
		}
		sample(b, h.d.Name+"_bucket", h.d.Labels, e.labels, "le", "+Inf", float64(e.value.count))
		sample(b, h.d.Name+"_sum", h.d.Labels, e.labels, "", "", e.value.sum)
		sample(b, h.d.Name+"_count", h.d.Labels, e.labels, "", "", float64(e.value.count))
	}
}
