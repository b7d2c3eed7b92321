package chat

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Role says who speaks.
type Role string

// The roles of a ModelMessage.
const (
	System    Role = "system"
	User      Role = "user"
	Assistant Role = "assistant"
	Tool      Role = "tool"
)

// Valid reports whether r is a role of the AI SDK.
func (r Role) Valid() bool {
	switch r {
	case System, User, Assistant, Tool:
		return true
	}
	return false
}

// Message is one ModelMessage. Its content is Parts; IsString says that the
// JSON form is a plain string, and then Parts is at most one text part.
type Message struct {
	Role     Role
	Parts    []Part
	IsString bool
	// ProviderOptions is data for and from a provider, kept as it came.
	ProviderOptions json.RawMessage
	// Extra holds the fields that this package does not know.
	Extra map[string]json.RawMessage
}

// PartType names the kind of a part.
type PartType string

// The part types that Lilac understands; others are carried unchanged.
const (
	TypeText       PartType = "text"
	TypeImage      PartType = "image"
	TypeFile       PartType = "file"
	TypeReasoning  PartType = "reasoning"
	TypeToolCall   PartType = "tool-call"
	TypeToolResult PartType = "tool-result"
)

// Part is one piece of a message's content. Which fields are used depends on
// Type; a field that is empty is not written.
type Part struct {
	Type PartType
	// Text is the text of a text or reasoning part.
	Text string
	// ToolCallID and ToolName belong to tool-call and tool-result parts.
	ToolCallID string
	ToolName   string
	// Input is the arguments of a tool-call, any JSON value.
	Input json.RawMessage
	// Output is the output of a tool-result, {"type": "text", "value": …} and
	// the like; see [ToolResult] and [Part.OutputText].
	Output json.RawMessage
	// Data is the payload of a file or image part as it stands in JSON: a
	// string with base64, a data URL or a URL.
	Data json.RawMessage
	// MediaType is the MIME type of a file, or of an image when it is known.
	MediaType string
	// Filename is the name of a file part.
	Filename string
	// ProviderOptions is data for and from a provider, for example the
	// signature of a reasoning part; it goes back as it came.
	ProviderOptions json.RawMessage
	// Extra holds the fields that this package does not know, and all fields
	// of a part whose type it does not know.
	Extra map[string]json.RawMessage
}

// Text returns a message whose content is a plain string.
func Text(role Role, text string) Message {
	return Message{Role: role, IsString: true, Parts: []Part{{Type: TypeText, Text: text}}}
}

// operatorField is the field of a message that only the operator's configuration wrote.
const operatorField = "operator"

// Operator returns a system message with the operator's own text. Other system messages may
// report what others said.
func Operator(text string) Message {
	m := Text(System, text)
	m.Extra = map[string]json.RawMessage{operatorField: json.RawMessage("true")}
	return m
}

// IsOperator reports whether the message was made by [Operator].
func (m Message) IsOperator() bool {
	return m.Role == System && string(m.Extra[operatorField]) == "true"
}

// TextPart returns a text part.
func TextPart(text string) Part { return Part{Type: TypeText, Text: text} }

// ToolCall returns a tool-call part. Input must be valid JSON.
func ToolCall(id, name string, input json.RawMessage) Part {
	return Part{Type: TypeToolCall, ToolCallID: id, ToolName: name, Input: input}
}

// ToolResult returns a tool-result part with a text output; failed marks it as
// "error-text", which models are told about.
func ToolResult(id, name, text string, failed bool) Part {
	kind := "text"
	if failed {
		kind = "error-text"
	}
	out, _ := json.Marshal(textOutput{Type: kind, Value: text}) // strings always marshal
	return Part{Type: TypeToolResult, ToolCallID: id, ToolName: name, Output: out}
}

type textOutput struct {
	Type  string `json:"type"`
	Value string `json:"value"`
}

// OutputText returns the output of a tool-result as text for a model, and
// whether it is an error. An output of another shape is returned as its JSON.
func (p Part) OutputText() (text string, failed bool) {
	if parts, ok := p.Content(); ok {
		return contentText(parts), false
	}
	var out struct {
		Type   string          `json:"type"`
		Value  json.RawMessage `json:"value"`
		Reason string          `json:"reason"`
	}
	err := json.Unmarshal(p.Output, &out)
	switch {
	case err == nil && out.Type == "execution-denied":
		return strings.TrimSuffix("The call was not allowed: "+out.Reason, ": "), true
	case err != nil || out.Value == nil:
		return string(p.Output), false
	}
	failed = strings.HasPrefix(out.Type, "error")
	var s *string
	if json.Unmarshal(out.Value, &s) == nil && s != nil {
		return *s, failed
	}
	return string(out.Value), failed
}

// Text joins the text parts of a message.
func (m Message) Text() string {
	var b strings.Builder
	for _, p := range m.Parts {
		if p.Type == TypeText {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

// ToolCalls returns the tool-call parts of a message, in order.
func (m Message) ToolCalls() []Part { return m.ofType(TypeToolCall) }

// ToolResults returns the tool-result parts of a message, in order.
func (m Message) ToolResults() []Part { return m.ofType(TypeToolResult) }

func (m Message) ofType(t PartType) []Part {
	var out []Part
	for _, p := range m.Parts {
		if p.Type == t {
			out = append(out, p)
		}
	}
	return out
}

// MaxCount is where sums of counts stop: far beyond anything that is used, and
// little enough that none overflows, whatever was once stored.
const MaxCount = 1 << 60

// Usage is what model calls used. Input counts every input token, cached ones
// included; the cache fields say how many of them were read from or written
// to a provider's cache.
type Usage struct {
	InputTokens      int64 `json:"inputTokens"`
	OutputTokens     int64 `json:"outputTokens"`
	CacheReadTokens  int64 `json:"cacheReadTokens,omitempty"`
	CacheWriteTokens int64 `json:"cacheWriteTokens,omitempty"`
	// CostMicros is the price in millionths of a US dollar; zero when the
	// model has no configured price.
	CostMicros int64 `json:"costMicros,omitempty"`
}

// Add returns the sum of two usages.
func (u Usage) Add(v Usage) Usage {
	return Usage{
		InputTokens:      sum(u.InputTokens, v.InputTokens),
		OutputTokens:     sum(u.OutputTokens, v.OutputTokens),
		CacheReadTokens:  sum(u.CacheReadTokens, v.CacheReadTokens),
		CacheWriteTokens: sum(u.CacheWriteTokens, v.CacheWriteTokens),
		CostMicros:       sum(u.CostMicros, v.CostMicros),
	}
}

// Tokens are those read and those written.
func (u Usage) Tokens() int64 { return sum(u.InputTokens, u.OutputTokens) }

func sum(a, b int64) int64 { return min(counted(a)+counted(b), MaxCount) }

// counted takes a number that cannot be a count as the nearest one that can.
func counted(n int64) int64 { return min(max(n, 0), MaxCount) }

// CachedShare returns the share of the input tokens that was read from the provider's cache,
// between 0 and 1.
func (u Usage) CachedShare() float64 {
	if u.InputTokens <= 0 {
		return 0
	}
	return min(1, float64(counted(u.CacheReadTokens))/float64(u.InputTokens))
}

// Beyond returns what u has more than v, of each count at least nothing.
func (u Usage) Beyond(v Usage) Usage {
	return Usage{
		InputTokens:      max(0, u.InputTokens-v.InputTokens),
		OutputTokens:     max(0, u.OutputTokens-v.OutputTokens),
		CacheReadTokens:  max(0, u.CacheReadTokens-v.CacheReadTokens),
		CacheWriteTokens: max(0, u.CacheWriteTokens-v.CacheWriteTokens),
		CostMicros:       max(0, u.CostMicros-v.CostMicros),
	}
}

// Validate reports what makes m unusable as input: an unknown role, or a part
// without a type. Unknown part types are fine.
func (m Message) Validate() error {
	if !m.Role.Valid() {
		return fmt.Errorf("unknown role %q", m.Role)
	}
	for i, p := range m.Parts {
		if p.Type == "" {
			return fmt.Errorf("part %d has no type", i)
		}
	}
	return nil
}
