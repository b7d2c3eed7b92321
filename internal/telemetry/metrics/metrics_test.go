package metrics_test

import (
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/telemetry/metrics"
)

func text(t testing.TB, r *metrics.Registry) string {
	t.Helper()
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTextFormat(t *testing.T) {
	var r metrics.Registry
	calls := r.Counter("calls_total", "Calls,\nby tool.", "tool", "status")
	r.Counter("zero_total", "Nothing yet.")
	r.Gauge("room", "Room.", func(set func(float64, ...string)) { set(1.5) })
	took := r.Histogram("took_seconds", "Time.", []float64{0.1, 1}, "tool")
	calls.Add(2, `ba"sh\`, "ok\n")
	calls.Add(-1, `ba"sh\`, "ok\n")
	for _, v := range []float64{0.05, 0.1, 0.5, 7} {
		took.Observe(v, "bash")
	}
	want := `# HELP calls_total Calls,\nby tool.
# TYPE calls_total counter
calls_total{status="ok\n",tool="ba\"sh\\"} 2
# HELP room Room.
# TYPE room gauge
room 1.5
# HELP took_seconds Time.
# TYPE took_seconds histogram
took_seconds_bucket{tool="bash",le="0.1"} 2
took_seconds_bucket{tool="bash",le="1"} 3
took_seconds_bucket{tool="bash",le="+Inf"} 4
took_seconds_sum{tool="bash"} 7.65
took_seconds_count{tool="bash"} 4
# HELP zero_total Nothing yet.
# TYPE zero_total counter
zero_total 0
`
	if diff := cmp.Diff(want, text(t, &r)); diff != "" {
		t.Error(diff)
	}
}

func TestLabelsAreBounded(t *testing.T) {
	var r metrics.Registry
	c := r.Counter("c_total", "C.", "name")
	const n = 10_000
	for i := range n {
		c.Add(1, fmt.Sprint(i))
	}
	got := text(t, &r)
	if lines := strings.Count(got, "c_total{"); lines > 201 {
		t.Errorf("%d series were kept", lines)
	}
	if !strings.Contains(got, `c_total{name="other"} 9800`) {
		t.Errorf("what did not fit was not counted:\n%s", got[:200])
	}
	var collected metrics.Registry
	collected.CounterOf("d_total", "D.", func(set func(float64, ...string)) {
		for i := range n {
			set(2, fmt.Sprint(i))
		}
	}, "name")
	for range 2 { // a counter does not grow by being read
		if got := text(t, &collected); !strings.Contains(got, `d_total{name="other"} 19600`) {
			t.Errorf("what did not fit was not counted:\n%s", got[:200])
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	var r metrics.Registry
	c, h := r.Counter("c_total", "C.", "l"), r.Histogram("h", "H.", metrics.ShortBuckets, "l")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i := range 200 {
				c.Add(1, fmt.Sprint(i%3))
				h.Observe(float64(i), "x")
				_ = r.Write(&strings.Builder{})
			}
		})
	}
	wg.Wait()
	if got := text(t, &r); !strings.Contains(got, `h_count{l="x"} 1600`) {
		t.Errorf("observations were lost:\n%s", got)
	}
}

func TestMistakesOfTheProgramAreLoud(t *testing.T) {
	for name, mistake := range map[string]func(r *metrics.Registry){
		"declared twice": func(r *metrics.Registry) { r.Counter("a", "A."); r.Counter("a", "A.") },
		"other labels":   func(r *metrics.Registry) { r.Counter("a", "A.", "l").Add(1) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("it was accepted")
				}
			}()
			mistake(&metrics.Registry{})
		})
	}
}

var line = regexp.MustCompile(`^(# (HELP|TYPE) [a-z_]+ .*|[a-z_]+(\{([a-z]+="([^"\\\n]|\\["\\n])*",?)*\})? [-+0-9.eEInf]+)$`)

func FuzzLabelValuesCannotBreakTheFormat(f *testing.F) {
	f.Add("a\"b\\c\nd", 1.5)
	f.Fuzz(func(t *testing.T, value string, v float64) {
		var r metrics.Registry
		r.Counter("c_total", "C.", "l").Add(v, value)
		r.Histogram("h", "H.", []float64{1}, "l").Observe(v, value)
		for l := range strings.Lines(text(t, &r)) {
			if !line.MatchString(strings.TrimSuffix(l, "\n")) && v == v {
				t.Fatalf("not a line of the format: %q", l)
			}
		}
	})
}
