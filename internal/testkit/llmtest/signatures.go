package llmtest

import (
	"encoding/json"
	"fmt"
)

// maxSignatures bounds how many conversations the server remembers.
const maxSignatures = 10_000

// signatures holds the conversations behind which each signature of a thinking block was
// made. Like Anthropic's newest models, the server refuses a block behind another one.
type signatures map[string]map[string]bool

// checkSignatures returns the path of a thinking block that is behind another conversation
// than the one that it was made in, or "". It records the signature of the answer.
func (s *Server) checkSignatures(body []byte, script Script) string {
	var request struct {
		System, Tools any
		Messages      []map[string]any
	}
	if json.Unmarshal(body, &request) != nil {
		return ""
	}
	withoutCacheMarks(request.System)
	withoutCacheMarks(request.Tools)
	for _, m := range request.Messages {
		withoutCacheMarks(m["content"])
	}
	prefix := func(messages []map[string]any) string {
		return string(encode([]any{request.System, request.Tools, messages}))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range request.Messages {
		blocks, _ := m["content"].([]any)
		if len(blocks) == 0 || m["role"] != "assistant" {
			continue
		}
		first, _ := blocks[0].(map[string]any)
		signature, _ := first["signature"].(string)
		if made := s.signed[signature]; first["type"] == "thinking" && made != nil && !made[prefix(request.Messages[:i])] {
			return fmt.Sprintf("messages.%d.content.0", i)
		}
	}
	if script.Signature != "" && len(s.signed) < maxSignatures {
		if s.signed == nil {
			s.signed = signatures{}
		}
		if s.signed[script.Signature] == nil {
			s.signed[script.Signature] = map[string]bool{}
		}
		s.signed[script.Signature][prefix(request.Messages)] = true
	}
	return ""
}

// withoutCacheMarks removes the cache breakpoints from a list of blocks.
func withoutCacheMarks(blocks any) {
	list, _ := blocks.([]any)
	for _, b := range list {
		if block, ok := b.(map[string]any); ok {
			delete(block, "cache_control")
		}
	}
}
