package llmtest

import "fmt"

func (s *stream) openai(req Request) {
	sc := s.script
	chunk := func(delta object, finish any) {
		out := object{
			"id": fmt.Sprintf("chatcmpl-%d", req.N), "object": "chat.completion.chunk", "model": req.Model,
			"choices": []object{{"index": 0, "delta": delta, "finish_reason": finish}},
		}
		if sc.Noise {
			out["field_of_tomorrow"] = object{"deep": []int{1, 2}}
		}
		s.event("", encode(out))
	}
	first := object{"role": "assistant", "content": ""}
	for name, v := range sc.Fields {
		first[name] = v
	}
	chunk(first, nil)
	if sc.Noise {
		s.write([]byte(": OPENROUTER PROCESSING\n\n"))
	}
	for _, t := range sc.Reasoning {
		s.pause(sc.Delay)
		delta := object{"reasoning_content": t, "content": nil}
		if s.host != nil {
			delta = s.host.ReasoningDelta(t)
		}
		chunk(delta, nil)
	}
	for _, t := range sc.Text {
		s.pause(sc.Delay)
		chunk(object{"content": t}, nil)
	}
	if sc.Malformed != "" {
		s.event("", []byte(sc.Malformed))
	}
	for _, d := range sc.callDeltas() {
		s.pause(sc.Delay)
		chunk(object{"tool_calls": []object{d}}, nil)
	}
	if sc.ErrorType != "" {
		s.event("", errorBody(OpenAI, sc))
		return
	}
	if sc.Hang {
		s.hang()
	}
	if sc.NoEnd {
		return
	}
	stop := sc.Stop
	if stop == "" {
		if stop = "stop"; len(sc.Calls) > 0 {
			stop = "tool_calls"
		}
	}
	chunk(object{}, stop)
	s.event("", encode(object{"choices": []any{}, "usage": object{
		"prompt_tokens": sc.Usage.Input, "completion_tokens": sc.Usage.Output,
		"prompt_tokens_details": object{"cached_tokens": sc.Usage.CacheRead, "cache_write_tokens": sc.Usage.CacheWrite},
	}}))
	s.event("", []byte("[DONE]"))
}

// callDeltas returns the deltas of the calls. The first one of each call has its id and
// name.
func (sc Script) callDeltas() []object {
	queues := make([][]object, len(sc.Calls))
	for i, c := range sc.Calls {
		start := object{"index": i, "type": "function", "function": object{"name": c.Name, "arguments": ""}}
		if c.ID != "" {
			start["id"] = c.ID
		}
		for name, v := range c.Fields {
			start[name] = v
		}
		queues[i] = append(queues[i], start)
		for _, p := range c.pieces() {
			queues[i] = append(queues[i], object{"index": i, "function": object{"arguments": p}})
		}
	}
	var out []object
	for more := true; more; {
		more = false
		for i, q := range queues {
			n := len(q)
			if sc.Interleave {
				n = min(1, n)
			}
			out = append(out, q[:n]...)
			queues[i] = q[n:]
			more = more || len(queues[i]) > 0
		}
	}
	return out
}
