package llmtest

import "fmt"

type object = map[string]any

func (s *stream) anthropic(req Request) {
	sc := s.script
	send := func(kind string, fields object) {
		fields["type"] = kind
		if sc.Noise {
			fields["field_of_tomorrow"] = object{"deep": []int{1, 2}}
		}
		s.event(kind, encode(fields))
	}
	index := 0
	block := func(start object, deltas ...object) {
		send("content_block_start", object{"index": index, "content_block": start})
		for _, d := range deltas {
			s.pause(sc.Delay)
			send("content_block_delta", object{"index": index, "delta": d})
		}
		send("content_block_stop", object{"index": index})
		index++
	}
	send("message_start", object{"message": object{
		"id": fmt.Sprintf("msg_%d", req.N), "type": "message", "role": "assistant", "model": req.Model, "content": []any{},
		"usage": object{
			"input_tokens":  sc.Usage.Input - sc.Usage.CacheRead - sc.Usage.CacheWrite,
			"output_tokens": 1, "cache_read_input_tokens": sc.Usage.CacheRead, "cache_creation_input_tokens": sc.Usage.CacheWrite,
		},
	}})
	if sc.Noise {
		s.write([]byte(": a comment\n\n"))
		send("ping", object{})
		send("event_of_tomorrow", object{"index": 99})
	}
	if len(sc.Reasoning) > 0 {
		deltas := make([]object, 0, len(sc.Reasoning)+1)
		for _, t := range sc.Reasoning {
			deltas = append(deltas, object{"type": "thinking_delta", "thinking": t})
		}
		if sc.Signature != "" {
			deltas = append(deltas, object{"type": "signature_delta", "signature": sc.Signature})
		}
		block(object{"type": "thinking", "thinking": "", "signature": ""}, deltas...)
	}
	if sc.Redacted != "" {
		block(object{"type": "redacted_thinking", "data": sc.Redacted})
	}
	if sc.Fields != nil {
		unknown := object{}
		for name, v := range sc.Fields {
			unknown[name] = v
		}
		block(unknown)
	}
	if len(sc.Text) > 0 {
		deltas := make([]object, len(sc.Text))
		for i, t := range sc.Text {
			deltas[i] = object{"type": "text_delta", "text": t}
		}
		if sc.Noise {
			deltas = append(deltas, object{"type": "delta_of_tomorrow", "x": 1})
		}
		block(object{"type": "text", "text": ""}, deltas...)
	}
	if sc.Malformed != "" {
		s.event("content_block_delta", []byte(sc.Malformed))
	}
	for i, c := range sc.Calls {
		id := c.ID
		if id == "" {
			id = fmt.Sprintf("toolu_%d_%d", req.N, i)
		}
		start := object{"type": "tool_use", "id": id, "name": c.Name, "input": object{}}
		for name, v := range c.Fields {
			start[name] = v
		}
		deltas := []object{{"type": "input_json_delta", "partial_json": ""}}
		for _, p := range c.pieces() {
			deltas = append(deltas, object{"type": "input_json_delta", "partial_json": p})
		}
		block(start, deltas...)
	}
	if sc.ErrorType != "" {
		s.event("error", errorBody(Anthropic, sc))
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
		if stop = "end_turn"; len(sc.Calls) > 0 {
			stop = "tool_use"
		}
	}
	send("message_delta", object{
		"delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": sc.Usage.Output},
	})
	send("message_stop", object{})
}
