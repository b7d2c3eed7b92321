package tracing_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	"lilac/internal/foundation/fault"
	"lilac/internal/telemetry/tracing"
	"lilac/internal/testkit/effort"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newTracer(t testing.TB, o tracing.Options) *tracing.Tracer {
	t.Helper()
	tr, err := tracing.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

// field is one field of a protobuf message.
type field struct {
	n    int
	num  uint64
	data []byte
}

// fields decodes a message, which a collector would do with generated code.
func fields(t testing.TB, b []byte) []field {
	t.Helper()
	var out []field
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 {
			t.Fatalf("no key in % x", b)
		}
		b = b[n:]
		f := field{n: int(key >> 3)}
		switch key & 7 {
		case 0:
			if f.num, n = binary.Uvarint(b); n <= 0 {
				t.Fatalf("no varint in % x", b)
			}
			b = b[n:]
		case 1:
			f.num, b = binary.LittleEndian.Uint64(b), b[8:]
		case 2:
			size, n := binary.Uvarint(b)
			if n <= 0 || uint64(len(b)-n) < size {
				t.Fatalf("a length beyond the end in % x", b)
			}
			f.data, b = b[n:n+int(size)], b[n+int(size):]
		default:
			t.Fatalf("wire type %d", key&7)
		}
		out = append(out, f)
	}
	return out
}

func all(t testing.TB, b []byte, n int) (out []field) {
	for _, f := range fields(t, b) {
		if f.n == n {
			out = append(out, f)
		}
	}
	return out
}

// one descends by field numbers to the first match.
func one(t testing.TB, b []byte, path ...int) field {
	t.Helper()
	var f field
	for _, n := range path {
		found := all(t, b, n)
		if len(found) == 0 {
			return field{}
		}
		f = found[0]
		b = f.data
	}
	return f
}

func attributes(t testing.TB, b []byte, n int) map[string]string {
	out := map[string]string{}
	for _, a := range all(t, b, n) {
		v := ""
		for _, f := range fields(t, one(t, a.data, 2).data) {
			switch f.n {
			case 1:
				v = string(f.data)
			case 2:
				v = fmt.Sprint(f.num == 1)
			case 3:
				v = fmt.Sprint(int64(f.num))
			case 4:
				v = fmt.Sprint(math.Float64frombits(f.num))
			case 5:
				for _, e := range all(t, f.data, 1) {
					v += "[" + string(one(t, e.data, 1).data) + "]"
				}
			}
		}
		out[string(one(t, a.data, 1).data)] = v
	}
	return out
}

// collector is a fake OTLP/HTTP collector.
type collector struct {
	*httptest.Server
	mu       sync.Mutex
	bodies   [][]byte
	requests []*http.Request
	status   []int // of the next answers; 200 when empty
}

func newCollector(t testing.TB, status ...int) *collector {
	c := &collector{status: status}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.requests = append(c.requests, r)
		if len(c.status) > 0 {
			w.WriteHeader(c.status[0])
			c.status = c.status[1:]
			return
		}
		c.bodies = append(c.bodies, body)
	}))
	t.Cleanup(c.Close)
	return c
}

func (c *collector) client() *http.Client { return c.Server.Client() }

func (c *collector) spans(t testing.TB) (out [][]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.bodies {
		for _, s := range all(t, one(t, b, 1, 2).data, 2) {
			out = append(out, s.data)
		}
	}
	return out
}

func TestSpansReachTheCollector(t *testing.T) {
	c := newCollector(t)
	tr := newTracer(t, tracing.Options{
		URL: c.URL + "/v1/traces", Client: c.client(), Headers: map[string]string{"X-Key": "k"}, Version: "v1", BatchWait: time.Millisecond,
	})
	parent := tracing.WithTraceParent(context.Background(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	ctx, outer := tr.Start(parent, "outer", trace.SpanKindServer,
		attribute.String("s", "x\xff"), attribute.Int64("i", -7), attribute.Float64("f", 1.5),
		attribute.Bool("b", true), attribute.StringSlice("l", []string{"p", "q"}))
	_, inner := tr.Start(ctx, "inner", trace.SpanKindClient)
	tracing.Fail(inner, "timeout", "It took too long.")
	inner.End()
	inner.End()
	outer.End()
	tr.Close(context.Background())
	tr.Close(context.Background())

	spans := c.spans(t)
	if len(spans) != 2 {
		t.Fatalf("%d spans came", len(spans))
	}
	in, out := spans[0], spans[1]
	if string(one(t, in, 5).data) != "inner" || string(one(t, out, 5).data) != "outer" {
		t.Errorf("names are %q and %q", one(t, in, 5).data, one(t, out, 5).data)
	}
	for _, s := range spans {
		if got := fmt.Sprintf("%x", one(t, s, 1).data); got != "0af7651916cd43dd8448eb211c80319c" {
			t.Errorf("the trace is %s", got)
		}
		if start, end := one(t, s, 7).num, one(t, s, 8).num; start == 0 || end < start || time.Since(time.Unix(0, int64(start))) > time.Minute {
			t.Errorf("from %d to %d", start, end)
		}
	}
	if got := fmt.Sprintf("%x", one(t, out, 4).data); got != "b7ad6b7169203331" {
		t.Errorf("the parent of the outer span is %s", got)
	}
	if string(one(t, in, 4).data) != string(one(t, out, 2).data) {
		t.Error("the inner span is no child of the outer one")
	}
	if one(t, in, 15, 3).num != 2 || string(one(t, in, 15, 2).data) != "It took too long." || one(t, out, 15).data != nil {
		t.Error("the status is wrong")
	}
	want := map[string]string{"s": "x\uFFFD", "i": "-7", "f": "1.5", "b": "true", "l": "[p][q]"}
	if diff := cmp.Diff(want, attributes(t, out, 9)); diff != "" {
		t.Error(diff)
	}
	if got := attributes(t, one(t, c.bodies[0], 1, 1).data, 1); got["service.name"] != "lilac" || got["service.version"] != "v1" {
		t.Errorf("the resource is %v", got)
	}
	if r := c.requests[0]; r.Header.Get("X-Key") != "k" || r.Header.Get("Content-Type") != "application/x-protobuf" || r.URL.Path != "/v1/traces" {
		t.Errorf("posted to %s with %v", r.URL, r.Header)
	}
}

func TestBusyCollectorIsAskedAgainAndABrokenOneDropped(t *testing.T) {
	effort.SkipSlow(t)
	c := newCollector(t, 503)
	tr := newTracer(t, tracing.Options{URL: c.URL, Client: c.client(), BatchWait: time.Millisecond})
	_, s := tr.Start(context.Background(), "a", trace.SpanKindInternal)
	s.End()
	for deadline := time.Now().Add(time.Minute); len(c.spans(t)) == 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it was not sent again")
		}
	}
	tr.Close(context.Background())

	refusing := newCollector(t, 400, 400, 400, 400)
	tr = newTracer(t, tracing.Options{URL: refusing.URL, Client: refusing.client(), BatchWait: time.Millisecond})
	_, s = tr.Start(context.Background(), "a", trace.SpanKindInternal)
	s.End()
	tr.Close(context.Background())
	if tr.Dropped() != 1 || len(refusing.requests) != 1 {
		t.Errorf("%d dropped after %d tries", tr.Dropped(), len(refusing.requests))
	}
}

func TestCollectorThatHangsHoldsUpNothing(t *testing.T) {
	release := make(chan struct{})
	c := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	tr := newTracer(t, tracing.Options{URL: c.URL, Client: c.Client(), BatchWait: time.Millisecond})
	start := time.Now()
	const n = 10_000
	for range n {
		_, s := tr.Start(context.Background(), "a", trace.SpanKindInternal)
		s.End()
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("%d spans took %s", n, took)
	}
	if tr.Dropped() == 0 {
		t.Error("everything was kept: the queue has no bound")
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	tr.Close(ctx)
	close(release)
	tr.Close(context.Background())
	c.Close()
}

func TestATracerThatIsClosedTooLateLeavesNothingRunning(t *testing.T) {
	before := goleak.IgnoreCurrent()
	tr := newTracer(t, tracing.Options{URL: "http://127.0.0.1:1"})
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	tr.Close(ctx)
	goleak.VerifyNone(t, before)
}

func TestOffCostsNothing(t *testing.T) {
	var off *tracing.Tracer
	ctx := context.Background()
	allocs := testing.AllocsPerRun(100, func() {
		_, s := off.Start(ctx, "a", trace.SpanKindInternal)
		s.End()
	})
	if allocs > 0 {
		t.Errorf("%v allocations", allocs)
	}
	off.Close(ctx)
}

func TestParentThatIsNotSampledHasNoSpans(t *testing.T) {
	c := newCollector(t)
	tr := newTracer(t, tracing.Options{URL: c.URL, Client: c.client()})
	ctx := tracing.WithTraceParent(context.Background(), "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00")
	ctx, s := tr.Start(ctx, "a", trace.SpanKindInternal)
	s.End()
	tr.Close(context.Background())
	if len(c.requests) != 0 || !strings.HasSuffix(tracing.TraceParent(ctx), "-00") {
		t.Error("a span was made below one that is not sampled")
	}
}

func TestEnvironment(t *testing.T) {
	for _, tt := range []struct {
		name string
		env  map[string]string
		url  string
		bad  bool
	}{
		{name: "nothing", env: nil},
		{name: "endpoint", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318/"}, url: "http://c:4318/v1/traces"},
		{name: "with a path", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "https://c/otlp"}, url: "https://c/otlp/v1/traces"},
		{name: "of traces", env: map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/x", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://d"}, url: "http://c/x"},
		{name: "switched off", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_SDK_DISABLED": "true"}},
		{name: "no exporter", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_TRACES_EXPORTER": "none"}},
		{name: "no URL", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "c:4318"}, bad: true},
		{name: "grpc", env: map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, bad: true},
	} {
		o, on, err := tracing.Environment(func(name string) string { return tt.env[name] })
		if (err != nil) != tt.bad || tt.bad && fault.KindOf(err) != fault.Invalid {
			t.Errorf("%s: %v", tt.name, err)
		}
		if on != (tt.url != "") || o.URL != tt.url && on {
			t.Errorf("%s: on %v, %q", tt.name, on, o.URL)
		}
	}
	o, _, _ := tracing.Environment(func(name string) string {
		return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_EXPORTER_OTLP_HEADERS": "Authorization=Basic%20abc, x-a = b"}[name]
	})
	if diff := cmp.Diff(map[string]string{"Authorization": "Basic abc", "x-a": "b"}, o.Headers); diff != "" {
		t.Error(diff)
	}
}

func TestTheSDKsVariablesApply(t *testing.T) {
	t.Setenv("OTEL_SERVICE_NAME", "mine")
	t.Setenv("OTEL_RESOURCE_ATTRIBUTES", "service.name=other,env=prod")
	t.Setenv("OTEL_SPAN_ATTRIBUTE_VALUE_LENGTH_LIMIT", "3")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "1")
	c := newCollector(t)
	tr := newTracer(t, tracing.Options{URL: c.URL, Client: c.client()})
	_, s := tr.Start(context.Background(), "a", trace.SpanKindInternal, attribute.String("long", "abcdef"))
	s.End()
	tr.Close(context.Background())
	resource := attributes(t, one(t, c.bodies[0], 1, 1).data, 1)
	if resource["service.name"] != "mine" || resource["env"] != "prod" {
		t.Errorf("resource = %v, want the service mine in env prod", resource)
	}
	if got := attributes(t, c.spans(t)[0], 9)["long"]; got != "abc" {
		t.Errorf("attribute = %q, want it cut to abc", got)
	}
	t.Setenv("OTEL_TRACES_SAMPLER", "always_off")
	tr = newTracer(t, tracing.Options{URL: c.URL, Client: c.client()})
	_, s = tr.Start(context.Background(), "b", trace.SpanKindInternal)
	s.End()
	tr.Close(context.Background())
	if len(c.spans(t)) != 1 {
		t.Error("a span was sent although the sampler is always_off")
	}
}

func FuzzTraceParent(f *testing.F) {
	for _, s := range []string{"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "", "00-00000000000000000000000000000000-b7ad6b7169203331-01", "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "cc-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-more"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		first := tracing.TraceParent(tracing.WithTraceParent(context.Background(), header))
		if again := tracing.TraceParent(tracing.WithTraceParent(context.Background(), first)); again != first {
			t.Errorf("%q was written as %q, and that as %q", header, first, again)
		}
	})
}
