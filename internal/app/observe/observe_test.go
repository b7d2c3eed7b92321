package observe_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"lilac/internal/agent/tool"
	"lilac/internal/app/observe"
	"lilac/internal/engine/bus"
	"lilac/internal/engine/db"
	"lilac/internal/engine/sqlitebus"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
	"lilac/internal/telemetry/metrics"
	"lilac/internal/telemetry/tracing"
)

const canary = "what the person wrote"

// model answers once, then fails.
type model struct{ calls int }

func (m *model) Info() llm.Info {
	return llm.Info{Provider: "gemini", Name: "g-1", MaxOutputTokens: 100, Price: &llm.Price{Input: 1, Output: 2}}
}

func (m *model) Stream(ctx context.Context, _ llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		m.calls++
		if m.calls > 1 {
			yield(llm.Chunk{}, &fault.Error{Kind: fault.RateLimited, Code: "too_many_calls", Message: "Too many calls: " + canary})
			return
		}
		if yield(llm.Chunk{Kind: llm.ChunkText, Text: canary}, nil) {
			yield(llm.Chunk{Kind: llm.ChunkDone, Stop: llm.StopTools, Usage: chat.Usage{InputTokens: 1_000_000, OutputTokens: 500_000, CacheReadTokens: 10}}, nil)
		}
	}
}

// echo is a tool that fails if its input says so.
type echo struct{}

func (echo) Spec() tool.Spec                { return tool.Spec{Name: "echo"} }
func (echo) Display(json.RawMessage) string { return "shown" }
func (echo) Run(_ context.Context, c tool.Call) (tool.Result, error) {
	switch string(c.Input) {
	case `"bad"`:
		return tool.Result{Failed: true, Text: canary}, nil
	case `"broken"`:
		return tool.Result{}, errors.New("a defect")
	}
	return tool.Result{Text: canary}, nil
}

// collected starts a collector. It returns a tracer, and a function that returns the received
// spans.
func collected(t *testing.T) (*tracing.Tracer, func() string) {
	var mu sync.Mutex
	var got strings.Builder
	srv := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got.Write(body)
	}))
	tr, err := tracing.New(tracing.Options{URL: srv.URL, Client: srv.Client()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tr.Close(context.Background())
		srv.Close()
	})
	return tr, func() string {
		tr.Close(context.Background())
		mu.Lock()
		defer mu.Unlock()
		return got.String()
	}
}

func text(t *testing.T, r *metrics.Registry) string {
	t.Helper()
	var b strings.Builder
	if err := r.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func wantAll(t *testing.T, where, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%s lack %q:\n%s", where, w, got)
		}
	}
}

func TestModelsAndToolsAreMeasuredAndTraced(t *testing.T) {
	var r metrics.Registry
	tracer, got := collected(t)
	o := observe.New(&r, tracer)
	ctx, ended := o.Run(context.Background(), observe.Run{
		RequestID: "web:s:r", SessionID: "s", Client: "web", TraceParent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
	})
	m := o.Model(&model{})
	for range 2 {
		for _, err := range m.Stream(ctx, llm.Request{Session: "s", Messages: []chat.Message{chat.Text(chat.User, canary)}}) {
			_ = err
		}
	}
	for range (&model{}).Stream(ctx, llm.Request{}) {
		break
	}
	for range o.Model(&model{}).Stream(ctx, llm.Request{}) {
		break // stop reading early
	}
	tools := o.Tools([]tool.Tool{echo{}})
	if tools[0].(tool.Displayer).Display(nil) != "shown" {
		t.Error("the tool's own line is lost")
	}
	for _, in := range []string{`"ok"`, `"bad"`, `"broken"`} {
		_, _ = tools[0].Run(ctx, tool.Call{ID: "c1", SessionID: "s", Input: json.RawMessage(in)})
	}
	o.Published([]event.Event{{Topic: event.TopicEnv}, {Topic: event.OutputTopic("a")}, {Topic: event.OutputTopic("b")}})
	ended(nil)

	numbers := text(t, &r)
	wantAll(t, "metrics", numbers,
		`lilac_model_tokens_total{direction="input",model="g-1",provider="gemini"} 1e+06`,
		`lilac_model_tokens_total{direction="output",model="g-1",provider="gemini"} 500000`,
		`lilac_model_tokens_total{direction="cache_read",model="g-1",provider="gemini"} 10`,
		`lilac_model_cost_dollars_total{model="g-1",provider="gemini"} 2`,
		`lilac_model_request_duration_seconds_count{model="g-1",provider="gemini",status="ok"} 1`,
		`lilac_model_request_duration_seconds_count{model="g-1",provider="gemini",status="rate_limited"} 1`,
		`lilac_model_request_duration_seconds_count{model="g-1",provider="gemini",status="stopped"} 1`,
		`lilac_tool_calls_total{status="ok",tool="echo"} 1`, `lilac_tool_calls_total{status="failed",tool="echo"} 1`, `lilac_tool_calls_total{status="error",tool="echo"} 1`,
		`lilac_tool_duration_seconds_count{tool="echo"} 3`,
		`lilac_bus_published_total{topic="env"} 1`, `lilac_bus_published_total{topic="out.req"} 2`,
	)
	spans := got()
	wantAll(t, "spans", spans, "invoke_agent lilac", "chat g-1", "execute_tool echo",
		"gen_ai.operation.name", "gen_ai.provider.name", "gcp.gemini", "gen_ai.request.model", "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens",
		"gen_ai.tool.name", "gen_ai.tool.call.id", "gen_ai.conversation.id", "web:s:r", "rate_limited", "too_many_calls", "\x0a\xf7\x65\x19\x16\xcd\x43\xdd\x84\x48\xeb\x21\x1c\x80\x31\x9c")
	if strings.Contains(spans, canary) || strings.Contains(numbers, canary) {
		t.Error("what people wrote is in the spans or metrics")
	}
}

func TestHTTPRequestsPassTheirTraceOn(t *testing.T) {
	tracer, got := collected(t)
	o := observe.New(&metrics.Registry{}, tracer)
	const header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	ctx, ended := o.HTTP(context.Background(), "POST /sessions/{id}/prompt", header)
	tp := event.TraceParent(ctx)
	if !strings.HasPrefix(tp, header[:36]) || tp == header {
		t.Errorf("events get the traceparent %q", tp)
	}
	ended(503)
	wantAll(t, "spans", got(), "POST /sessions/{id}/prompt", "http.route", "error.type")

	// Without a collector, the caller's header is passed on unchanged.
	off := observe.New(&metrics.Registry{}, nil)
	if ctx, _ := off.HTTP(context.Background(), "POST /x", header); event.TraceParent(ctx) != header {
		t.Errorf("it became %q", event.TraceParent(ctx))
	}
	if ctx, _ := off.HTTP(context.Background(), "POST /x", "garbage"); event.TraceParent(ctx) != "" {
		t.Errorf("garbage became %q", event.TraceParent(ctx))
	}
}

func TestRequestsAreMeasured(t *testing.T) {
	var r metrics.Registry
	o := observe.New(&r, nil)
	o.RequestEnded(event.StateDone, "web", 2*time.Second)
	o.RequestEnded(event.StateFailed, "web", -time.Second) // the clock was set back
	got := text(t, &r)
	for _, want := range []string{
		`lilac_request_duration_seconds_sum{state="done",surface="web"} 2`,
		`lilac_request_duration_seconds_sum{state="failed",surface="web"} 0`,
		`lilac_request_duration_seconds_count{state="failed",surface="web"} 1`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the metrics lack %s:\n%s", want, got)
		}
	}
}

func TestGroupsAreMeasured(t *testing.T) {
	d, err := db.Open(t.Context(), db.Options{Dir: t.TempDir(), Migrations: sqlitebus.Migrations})
	if err != nil {
		t.Fatal(err)
	}
	b, err := sqlitebus.New(d, sqlitebus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	defer b.Close()
	var r metrics.Registry
	observe.Describe(&r, observe.Program{Version: "v", Started: time.Now(), Bus: b})
	if err := b.Declare(t.Context(), bus.Subscription{Topic: event.TopicEnv, Group: "g", Mode: bus.Work, Consumer: "c"}); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); !strings.Contains(text(t, &r), `lilac_bus_group_served{group="g",topic="env"} 0`); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(text(t, &r))
		}
	}
}
