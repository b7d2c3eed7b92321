package metrics

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// maxSeries bounds the combinations of label values of one metric: what is
// scraped every few seconds and kept for months must not grow with names that
// a user or a provider chooses.
const maxSeries = 200

// overflow is the value of every label of the combination that takes the rest.
const overflow = "other"

// ContentType is the media type of what [Registry.Write] writes.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// Kind is the type of a metric.
type Kind string

// The kinds of metrics.
const (
	CounterKind   Kind = "counter"
	GaugeKind     Kind = "gauge"
	HistogramKind Kind = "histogram"
)

// Desc describes a metric, for the reference.
type Desc struct {
	Name, Help string
	Kind       Kind
	Labels     []string
}

// Registry holds the metrics of a program. Declaring a name twice panics, as
// does a wrong number of label values: both are mistakes of the program.
type Registry struct {
	mu     sync.Mutex
	metric []metric
}

type metric interface {
	desc() Desc
	write(b *strings.Builder)
}

func (r *Registry) add(m metric) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, other := range r.metric {
		if other.desc().Name == m.desc().Name {
			panic("the metric " + m.desc().Name + " is declared twice")
		}
	}
	r.metric = append(r.metric, m)
}

// Describe lists every metric, sorted by name.
func (r *Registry) Describe() []Desc {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []Desc
	for _, m := range r.metric {
		out = append(out, m.desc())
	}
	slices.SortFunc(out, func(a, b Desc) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// Write writes every metric.
func (r *Registry) Write(w io.Writer) error {
	r.mu.Lock()
	all := slices.Clone(r.metric)
	r.mu.Unlock()
	var b strings.Builder
	for _, m := range all {
		d := m.desc()
		fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s %s\n", d.Name, escapeHelp(d.Help), d.Name, d.Kind)
		m.write(&b)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func escapeHelp(s string) string { return strings.NewReplacer(`\`, `\\`, "\n", `\n`).Replace(s) }

var escapeLabel = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// sample writes one line: a name with a suffix, labels, and one more label if
// extra is not empty.
func sample(b *strings.Builder, name string, labels, values []string, extra, extraValue string, v float64) {
	b.WriteString(name)
	if len(labels) > 0 || extra != "" {
		b.WriteByte('{')
		for i, l := range labels {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString(l + `="` + escapeLabel.Replace(strings.ToValidUTF8(values[i], "\uFFFD")) + `"`)
		}
		if extra != "" {
			if len(labels) > 0 {
				b.WriteByte(',')
			}
			b.WriteString(extra + `="` + extraValue + `"`)
		}
		b.WriteByte('}')
	}
	b.WriteByte(' ')
	b.WriteString(number(v))
	b.WriteByte('\n')
}

func number(v float64) string {
	switch {
	case math.IsInf(v, 1):
		return "+Inf"
	case math.IsInf(v, -1):
		return "-Inf"
	case v == math.Trunc(v) && math.Abs(v) < 1e15:
		return strconv.FormatInt(int64(v), 10)
	}
	return strconv.FormatFloat(v, 'g', -1, 64)
}
