package metrics

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"lilac/internal/foundation/order"
)

// ContentType is the media type of the output of [Registry.Write].
const ContentType = string(expfmt.FmtText)

// Kind is the type of a metric.
type Kind string

// The kinds of metrics.
const (
	CounterKind   Kind = "counter"
	GaugeKind     Kind = "gauge"
	HistogramKind Kind = "histogram"
)

// Desc describes a metric for the reference.
type Desc struct {
	Name, Help string
	Kind       Kind
	Labels     []string
}

// Registry holds the metrics of a program. The zero value is empty and ready to
// use. Declaring a name twice and using a wrong number of label values panic:
// both are programming errors.
type Registry struct {
	mu       sync.Mutex
	declared []Desc
	registry *prometheus.Registry
}

func (r *Registry) declare(d Desc, c prometheus.Collector) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.registry == nil {
		r.registry = prometheus.NewRegistry()
	}
	r.registry.MustRegister(c)
	r.declared = append(r.declared, d)
}

// Describe lists every metric, sorted by name.
func (r *Registry) Describe() []Desc {
	r.mu.Lock()
	defer r.mu.Unlock()
	return order.Sorted(slices.Values(r.declared), func(a, b Desc) int { return strings.Compare(a.Name, b.Name) })
}

// Write writes every metric, sorted by name.
func (r *Registry) Write(w io.Writer) error {
	r.mu.Lock()
	registry := r.registry
	r.mu.Unlock()
	if registry == nil {
		return nil
	}
	families, err := registry.Gather()
	if err != nil {
		return fmt.Errorf("gather metrics: %w", err)
	}
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(w, family); err != nil {
			return fmt.Errorf("write metric %s: %w", family.GetName(), err)
		}
	}
	return nil
}
