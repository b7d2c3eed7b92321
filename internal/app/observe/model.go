package observe

import (
	"cmp"
	"context"
	"iter"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
	"lilac/internal/model/llm"
)

// Model wraps m to record its calls.
func (o *Observer) Model(m llm.Model) llm.Model { return &model{m, o} }

type model struct {
	llm.Model
	o *Observer
}

// Prepare prepares the model; see [llm.Prepare].
func (m *model) Prepare(ctx context.Context) { llm.Prepare(ctx, m.Model) }

// Stream implements [llm.Model].
func (m *model) Stream(ctx context.Context, req llm.Request) iter.Seq2[llm.Chunk, error] {
	return func(yield func(llm.Chunk, error) bool) {
		info := m.Info()
		start := time.Now()
		ctx, span := m.o.tracer.Start(ctx, "chat "+info.Name, trace.SpanKindClient,
			attribute.String("gen_ai.operation.name", "chat"),
			attribute.String("gen_ai.provider.name", providerName(info.Provider)),
			attribute.String("gen_ai.request.model", info.Name),
			attribute.Int64("gen_ai.request.max_tokens", int64(cmp.Or(req.MaxOutputTokens, info.MaxOutputTokens))),
			attribute.String("gen_ai.conversation.id", req.Session),
		)
		status := "stopped" // if the consumer stops reading early
		defer func() {
			m.o.modelCalls.Observe(seconds(start), info.Provider, info.Name, status)
			span.End()
		}()
		for chunk, err := range m.Model.Stream(ctx, req) {
			switch {
			case err != nil && ctx.Err() == nil:
				status = string(fault.KindOf(err))
				fail(span, err)
				m.o.Calls.Failed(err, time.Now())
			case err == nil && chunk.Kind == llm.ChunkDone:
				status = "ok"
				m.o.Calls.Answered(time.Now())
				m.used(info, chunk.Usage)
				span.SetAttributes(usageAttrs(chunk)...)
			}
			if !yield(chunk, err) {
				return
			}
		}
	}
}

func (m *model) used(info llm.Info, u chat.Usage) {
	for direction, n := range map[string]int64{
		"input": u.InputTokens, "output": u.OutputTokens, "cache_read": u.CacheReadTokens, "cache_write": u.CacheWriteTokens,
	} {
		m.o.modelTokens.Add(float64(n), info.Provider, info.Name, direction)
	}
	if u.InputTokens > 0 {
		m.o.cachedShare.Observe(u.CachedShare(), info.Provider, info.Name)
	}
	cost := u.CostMicros
	if cost == 0 {
		cost = info.Price.Cost(u)
	}
	m.o.modelCost.Add(float64(cost)/1e6, info.Provider, info.Name)
}

func usageAttrs(c llm.Chunk) []attribute.KeyValue {
	out := []attribute.KeyValue{
		attribute.Int64("gen_ai.usage.input_tokens", c.Usage.InputTokens),
		attribute.Int64("gen_ai.usage.output_tokens", c.Usage.OutputTokens),
		attribute.StringSlice("gen_ai.response.finish_reasons", []string{string(c.Stop)}),
	}
	if c.Model != "" {
		out = append(out, attribute.String("gen_ai.response.model", c.Model))
	}
	if c.Usage.CacheReadTokens > 0 {
		out = append(out, attribute.Int64("gen_ai.usage.cache_read.input_tokens", c.Usage.CacheReadTokens))
	}
	if c.Usage.CacheWriteTokens > 0 {
		out = append(out, attribute.Int64("gen_ai.usage.cache_creation.input_tokens", c.Usage.CacheWriteTokens))
	}
	return out
}

// providerName returns the name of a provider in the semantic conventions.
func providerName(name string) string {
	if name == "gemini" {
		return "gcp.gemini"
	}
	return name
}
