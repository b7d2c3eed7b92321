package llmtest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A Host is a dialect of the chat completions protocol: the fields that it knows, and the
// requests that it refuses. The wordings are those of the real hosts.
type Host struct {
	Name string
	// unknown returns the refusal of an unknown field at a path; nil ignores it.
	unknown func(path, name string) (status int, body string)
	// body, message, and call list the known fields beyond those of every host.
	body, message, call []string
	// renamed maps a field to the name that the host wants instead.
	renamed map[string]string
	// strict means that roles must alternate as in the chat templates of Mistral's models,
	// which do not count the messages of tools, toolUser that no user message may follow a
	// tool message, and reasoning that the reasoning of tool calls must come back.
	// nineLetters means that ids of calls have nine letters and digits.
	strict, toolUser, reasoning, nineLetters bool
	// noImages is the status and the message of a refused image; empty accepts images.
	noImages       string
	noImagesStatus int
	// reasoningField is the field of the host's own reasoning.
	reasoningField string
}

var (
	commonBody    = []string{"model", "messages", "stream", "tools", "tool_choice", "temperature", "top_p", "stop"}
	commonMessage = []string{"role", "content", "tool_calls", "tool_call_id", "name"}
	commonCall    = []string{"id", "type", "function", "index"}
)

func openAIError(message, param string) string {
	return string(encode(map[string]any{"error": map[string]any{"message": message, "type": "invalid_request_error", "param": param, "code": "unknown_parameter"}}))
}

func unknownParameter(path, name string) (int, string) {
	return 400, openAIError("Unknown parameter: '"+path+"'.", path)
}

func extraForbidden(path, name string) (int, string) {
	return 422, string(encode(map[string]any{"detail": []any{map[string]any{"type": "extra_forbidden", "loc": append([]any{"body"}, pathSteps(path)...), "msg": "Extra inputs are not permitted"}}}))
}

func pathSteps(path string) []any {
	var out []any
	for _, step := range strings.Split(strings.NewReplacer("[", ".", "]", "").Replace(path), ".") {
		out = append(out, step)
	}
	return out
}

// Hosts are the dialects that tests run against.
var Hosts = []Host{
	{
		Name: "OpenAI, reasoning", unknown: unknownParameter, body: []string{"stream_options", "prompt_cache_key", "max_completion_tokens", "reasoning_effort"},
		renamed: map[string]string{"max_tokens": "max_completion_tokens"},
	},
	{
		Name: "Azure", unknown: func(path, _ string) (int, string) {
			return 400, openAIError("Unrecognized request argument supplied: "+path, "")
		}, body: []string{"max_tokens", "max_completion_tokens"},
		renamed: map[string]string{"max_tokens": "max_completion_tokens"},
	},
	{Name: "OpenRouter", body: []string{"max_tokens", "stream_options"}, message: []string{"reasoning", "reasoning_details", "reasoning_content"}, reasoningField: "reasoning", noImages: "No endpoints found that support image input", noImagesStatus: 404},
	{
		Name: "Groq", body: []string{"max_tokens", "stream_options"}, message: []string{"reasoning"}, reasoningField: "reasoning",
		unknown: func(path, name string) (int, string) {
			return 400, openAIError(fmt.Sprintf("'%s' : for 'role:assistant' the following must be satisfied[('%s' : property '%s' is unsupported)]", path, path, name), "")
		},
	},
	{Name: "DeepSeek", body: []string{"max_tokens", "stream_options"}, message: []string{"reasoning_content"}, reasoningField: "reasoning_content", reasoning: true, noImages: "Failed to deserialize the JSON body into the target type: messages[1]: unknown variant `image_url`, expected `text`", noImagesStatus: 400},
	{Name: "Mistral", body: []string{"max_tokens"}, unknown: extraForbidden, strict: true, toolUser: true, nineLetters: true, reasoningField: "content"},
	{Name: "xAI", body: []string{"max_tokens", "stream_options", "max_completion_tokens"}, message: []string{"reasoning_content"}, reasoningField: "reasoning_content", unknown: unknownParameter},
	{
		Name: "Gemini", body: []string{"max_tokens", "max_completion_tokens"}, message: []string{"extra_content"}, call: []string{"extra_content"},
		unknown: func(_, name string) (int, string) {
			return 400, `[{"error":{"code":400,"message":"Invalid JSON payload received. Unknown name \"` + name + `\": Cannot find field.","status":"INVALID_ARGUMENT"}}]`
		},
	},
	{Name: "Ollama", body: []string{"max_tokens", "stream_options"}, message: []string{"reasoning", "reasoning_content"}, noImages: "this model is missing data required for image input", noImagesStatus: 500},
	{Name: "llama.cpp", body: []string{"max_tokens", "stream_options"}, message: []string{"reasoning_content"}, strict: true, noImages: "image input is not supported - hint: if this is unexpected, you may need to provide the mmproj", noImagesStatus: 500, reasoningField: "reasoning_content"},
	{Name: "vLLM", strict: true, reasoningField: "reasoning", unknown: func(path, _ string) (int, string) {
		return 400, `{"object":"error","message":"` + path + `: Extra inputs are not permitted","type":"BadRequestError","code":400}`
	}, body: []string{"max_tokens", "stream_options"}, message: []string{"reasoning", "reasoning_content"}, noImages: "m is not a multimodal model", noImagesStatus: 400},
	{Name: "LM Studio", body: []string{"max_tokens", "stream_options"}, message: []string{"reasoning_content"}, strict: true, reasoningField: "reasoning_content"},
	{Name: "SGLang", body: []string{"max_tokens", "stream_options"}, message: []string{"reasoning_content"}, strict: true, reasoningField: "reasoning_content"},
}

// maxCallID is the longest id of a call that OpenAI accepts.
const maxCallID = 40

var nineLetters = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

// Refuse returns the host's refusal of a request; status 0 accepts it.
func (h Host) Refuse(body []byte) (status int, refusal string) {
	var request struct {
		fields   map[string]json.RawMessage
		Messages []map[string]json.RawMessage `json:"messages"`
	}
	if json.Unmarshal(body, &request) != nil || json.Unmarshal(body, &request.fields) != nil {
		return 400, openAIError("The body is not JSON.", "")
	}
	for from, to := range h.renamed {
		if _, ok := request.fields[from]; ok {
			return 400, openAIError(fmt.Sprintf("Unsupported parameter: '%s' is not supported with this model. Use '%s' instead.", from, to), from)
		}
	}
	if status, refusal = h.checkFields(request.fields, "", slices.Concat(commonBody, h.body)); status != 0 {
		return status, refusal
	}
	for i, m := range request.Messages {
		if status, refusal = h.checkFields(m, fmt.Sprintf("messages[%d].", i), slices.Concat(commonMessage, h.message)); status != 0 {
			return status, refusal
		}
		var calls []map[string]json.RawMessage
		_ = json.Unmarshal(m["tool_calls"], &calls) // none
		for j, c := range calls {
			if status, refusal = h.checkFields(c, fmt.Sprintf("messages[%d].tool_calls[%d].", i, j), slices.Concat(commonCall, h.call)); status != 0 {
				return status, refusal
			}
		}
		for _, c := range calls {
			id := stringOf(c["id"])
			if h.nineLetters && !nineLetters.MatchString(id) {
				return 400, `{"object":"error","message":"Tool call id was ` + id + ` but must be a-z, A-Z, 0-9, with a length of 9.","type":"invalid_request_function_call","code":"3280"}`
			}
			if len(id) > maxCallID {
				return 400, openAIError(fmt.Sprintf("Invalid 'messages[%d].tool_calls[0].id': string too long. Expected a string with maximum length 40, but got a string with length %d instead.", i, len(id)), "")
			}
		}
		if h.noImages != "" && strings.Contains(string(m["content"]), `"image_url"`) {
			return h.noImagesStatus, openAIError(h.noImages, "")
		}
		_, has := m["reasoning_content"]
		if h.reasoning && len(calls) > 0 && !has {
			return 400, openAIError("The `reasoning_content` in the thinking mode must be passed back to the API.", "")
		}
	}
	return h.checkRoles(request.Messages)
}

// Unknown returns the refusal of the first field that the host does not know, also if it
// ignores such fields, and "" if it knows all.
func (h Host) Unknown(body []byte) string {
	h.unknown, h.renamed, h.noImages, h.strict, h.toolUser, h.reasoning, h.nineLetters = unknownParameter, nil, "", false, false, false, false
	_, refusal := h.Refuse(body)
	return refusal
}

func (h Host) checkFields(fields map[string]json.RawMessage, at string, known []string) (int, string) {
	if h.unknown == nil {
		return 0, ""
	}
	names := make([]string, 0, len(fields))
	for name := range fields {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		if !slices.Contains(known, name) {
			return h.unknown(at+name, name)
		}
	}
	return 0, ""
}

func (h Host) checkRoles(messages []map[string]json.RawMessage) (int, string) {
	last, turns := "", 0
	for i, m := range messages {
		role := strings.Trim(string(m["role"]), `"`)
		switch {
		case h.toolUser && role == "user" && last == "tool":
			return 400, `{"object":"error","message":"Unexpected role 'user' after role 'tool'","type":"invalid_request_message_order","code":"3230"}`
		case h.strict && role == last && role != "tool":
			return 400, openAIError(mustAlternate, "")
		case h.strict && role == "system" && i > 0:
			return 400, openAIError("System message must be at the beginning.", "")
		}
		last = role
		if role == "user" || role == "assistant" && m["tool_calls"] == nil {
			if h.strict && (role == "user") != (turns%2 == 0) {
				return 400, openAIError(mustAlternate, "")
			}
			turns++
		}
	}
	return 0, ""
}

const mustAlternate = "After the optional system message, conversation roles must alternate user/assistant/user/assistant/..."

// ReasoningDelta returns a delta with reasoning as the host sends it.
func (h Host) ReasoningDelta(text string) map[string]any {
	switch h.reasoningField {
	case "":
		return nil
	case "content":
		return map[string]any{"content": []any{map[string]any{"type": "thinking", "thinking": []any{map[string]any{"type": "text", "text": text}}}}}
	}
	return map[string]any{h.reasoningField: text}
}

var position = regexp.MustCompile(`(messages|tool_calls)[\[.]\d+`)

// RefusalKind returns a refusal without positions: two refusals of one kind have the same.
func RefusalKind(refusal string) string { return position.ReplaceAllString(refusal, "$1") }
