package observe

import (
	"context"
	"encoding/json"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"lilac/internal/agent/tool"
	"lilac/internal/telemetry/tracing"
)

// Tools wraps tools to record their calls.
func (o *Observer) Tools(tools []tool.Tool) []tool.Tool {
	out := make([]tool.Tool, len(tools))
	for i, t := range tools {
		out[i] = observed{t, o}
		if d, ok := t.(tool.Displayer); ok {
			out[i] = displayed{observed{t, o}, d}
		}
	}
	return out
}

type observed struct {
	tool.Tool
	o *Observer
}

// displayed is an observed tool that keeps its Display method.
type displayed struct {
	observed
	d tool.Displayer
}

// Display implements [tool.Displayer].
func (d displayed) Display(input json.RawMessage) string { return d.d.Display(input) }

// Run implements [tool.Tool].
func (t observed) Run(ctx context.Context, call tool.Call) (tool.Result, error) {
	name := t.Spec().Name
	start := time.Now()
	ctx, span := t.o.tracer.Start(ctx, "execute_tool "+name, trace.SpanKindInternal,
		attribute.String("gen_ai.operation.name", "execute_tool"),
		attribute.String("gen_ai.tool.name", name),
		attribute.String("gen_ai.tool.type", "function"),
		attribute.String("gen_ai.tool.call.id", call.ID),
		attribute.String("gen_ai.conversation.id", call.SessionID),
	)
	status := "error"
	defer func() { // deferred, so that it also runs if the tool panics
		t.o.toolCalls.Add(1, name, status)
		t.o.toolDurations.Observe(seconds(start), name)
		span.End()
	}()
	result, err := t.Tool.Run(ctx, call)
	switch {
	case err != nil:
		fail(span, err)
	case result.Failed:
		status = "failed"
		tracing.Fail(span, "tool_failed", "")
	default:
		status = "ok"
	}
	return result, err
}
