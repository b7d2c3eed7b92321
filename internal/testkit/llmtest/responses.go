package llmtest

import (
	"encoding/json"
	"fmt"
	"strings"
)

// responses streams an answer as OpenAI's Responses API does.
func (s *stream) responses(req Request) {
	sc := s.script
	sequence := 0
	send := func(kind string, fields object) {
		fields["type"], fields["sequence_number"] = kind, sequence
		sequence++
		if sc.Noise {
			fields["field_of_tomorrow"] = object{"deep": []int{1, 2}}
		}
		s.event(kind, encode(fields))
	}
	output := []object{}
	item := func(start, end object, deltas func(index int)) {
		index := len(output)
		send("response.output_item.added", object{"output_index": index, "item": start})
		deltas(index)
		send("response.output_item.done", object{"output_index": index, "item": end})
		output = append(output, end)
	}
	response := func(status string) object {
		return object{"id": fmt.Sprintf("resp_%d", req.N), "object": "response", "status": status, "model": req.Model, "output": output}
	}
	send("response.created", object{"response": response("in_progress")})
	if sc.Noise {
		s.write([]byte(": a comment\n\n"))
		send("response.event_of_tomorrow", object{"output_index": 99})
	}
	if len(sc.Reasoning) > 0 {
		end := object{"type": "reasoning", "id": "rs_1", "summary": []object{{"type": "summary_text", "text": strings.Join(sc.Reasoning, "")}}}
		if sc.Signature != "" {
			end["encrypted_content"] = sc.Signature
		}
		item(object{"type": "reasoning", "id": "rs_1", "summary": []any{}}, end, func(index int) {
			send("response.reasoning_summary_part.added", object{"output_index": index, "summary_index": 0})
			for _, t := range sc.Reasoning {
				s.pause(sc.Delay)
				send("response.reasoning_summary_text.delta", object{"output_index": index, "summary_index": 0, "delta": t})
			}
		})
	}
	if len(sc.Text) > 0 {
		content := []object{{"type": "output_text", "text": strings.Join(sc.Text, ""), "annotations": []any{}}}
		item(object{"type": "message", "role": "assistant", "content": []any{}}, object{"type": "message", "role": "assistant", "phase": "final_answer", "content": content}, func(index int) {
			for _, t := range sc.Text {
				s.pause(sc.Delay)
				send("response.output_text.delta", object{"output_index": index, "content_index": 0, "delta": t})
			}
		})
	}
	if sc.Malformed != "" {
		s.event("response.output_text.delta", []byte(sc.Malformed))
	}
	for i, c := range sc.Calls {
		id := c.ID
		if id == "" {
			id = fmt.Sprintf("call_%d_%d", req.N, i)
		}
		end := object{"type": "function_call", "call_id": id, "name": c.Name, "arguments": c.Input, "status": "completed"}
		item(object{"type": "function_call", "call_id": id, "name": c.Name, "arguments": ""}, end, func(index int) {
			for _, p := range c.pieces() {
				s.pause(sc.Delay)
				send("response.function_call_arguments.delta", object{"output_index": index, "delta": p})
			}
		})
	}
	if sc.ErrorType != "" {
		send("error", object{"code": sc.ErrorType, "message": sc.ErrorMessage, "param": nil})
		return
	}
	if sc.Hang {
		s.hang()
	}
	if sc.NoEnd {
		return
	}
	status, end := "completed", response
	if sc.Stop != "" {
		status = "incomplete"
	}
	final := end(status)
	if sc.Stop != "" {
		final["incomplete_details"] = object{"reason": sc.Stop}
	}
	final["usage"] = object{
		"input_tokens": sc.Usage.Input, "output_tokens": sc.Usage.Output, "total_tokens": sc.Usage.Input + sc.Usage.Output,
		"input_tokens_details": object{"cached_tokens": sc.Usage.CacheRead, "cache_write_tokens": sc.Usage.CacheWrite},
	}
	send("response."+status, object{"response": final})
}

// decodeResponses decodes a request of the Responses API.
func decodeResponses(body []byte) (Request, error) {
	var w struct {
		Model        string `json:"model"`
		Instructions string `json:"instructions"`
		Input        []struct {
			Type      string          `json:"type"`
			Role      string          `json:"role"`
			Content   json.RawMessage `json:"content"`
			Name      string          `json:"name"`
			CallID    string          `json:"call_id"`
			Output    json.RawMessage `json:"output"`
			Encrypted string          `json:"encrypted_content"`
		} `json:"input"`
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(body, &w); err != nil {
		return Request{}, err
	}
	r := Request{Protocol: Responses, Body: body, Model: w.Model}
	if w.Instructions != "" {
		r.Messages = append(r.Messages, Message{Role: "system", Text: w.Instructions, Results: map[string]string{}})
	}
	for _, item := range w.Input {
		m := Message{Role: item.Role, Results: map[string]string{}}
		switch item.Type {
		case "reasoning":
			continue
		case "function_call":
			m.Role, m.Calls = "assistant", []string{item.Name}
		case "function_call_output":
			m.Role = "tool"
			m.Results[item.CallID] = texts(item.Output)
		default:
			m.Text = texts(item.Content)
		}
		r.Messages = append(r.Messages, m)
	}
	for _, t := range w.Tools {
		r.Tools = append(r.Tools, t.Name)
	}
	return r, nil
}

// texts joins the texts of a content, which is a string or a list.
func texts(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(raw, &parts) // no texts if it is not a list
	out := make([]string, 0, len(parts))
	for _, p := range parts {
		if p.Text != "" {
			out = append(out, p.Text)
		}
	}
	return strings.Join(out, "\n")
}
