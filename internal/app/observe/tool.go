package observe

import (
	"context"
	"encoding/json"
	"time"

	"lilac/internal/agent/tool"
	"lilac/internal/telemetry/tracing"
)

// Tools returns the tools, observed.
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

// displayed keeps the tool's own line for people.
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
	ctx, span := t.o.tracer.Start(ctx, "execute_tool "+name, tracing.Internal,
		tracing.Attr{Key: "gen_ai.operation.name", Value: "execute_tool"},
		tracing.Attr{Key: "gen_ai.tool.name", Value: name},
		tracing.Attr{Key: "gen_ai.tool.type", Value: "function"},
		tracing.Attr{Key: "gen_ai.tool.call.id", Value: call.ID},
		tracing.Attr{Key: "gen_ai.conversation.id", Value: call.SessionID},
	)
	status := "error"
	defer func() { // also when the tool panics
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
		span.Fail("tool_failed", "")
	default:
		status = "ok"
	}
	return result, err
}
