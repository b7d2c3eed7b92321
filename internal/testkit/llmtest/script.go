package llmtest

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// Protocol is what a request was made in.
type Protocol string

// The protocols.
const (
	Anthropic Protocol = "anthropic"
	OpenAI    Protocol = "openai"
)

// Request is a call that the server got.
type Request struct {
	// At is when the whole request was there.
	At time.Time
	// N counts the requests of a server from 1.
	N        int
	Protocol Protocol
	Header   http.Header
	// Body is the JSON as it came; Decode reads it.
	Body     []byte
	Model    string
	Messages []Message
	// Tools are the names of the tools on offer.
	Tools []string
}

// Message is a message of a request, reduced to what scripts decide by.
type Message struct {
	Role string
	// Text joins the texts of the content.
	Text string
	// Results are the texts of tool results, by call id.
	Results map[string]string
	// Calls are the names of called tools.
	Calls []string
}

// Last returns the text of the last message, or of its tool results.
func (r Request) Last() string {
	if len(r.Messages) == 0 {
		return ""
	}
	m := r.Messages[len(r.Messages)-1]
	text := m.Text
	for _, result := range m.Results {
		text += result
	}
	return text
}

// Script says what the server answers.
type Script struct {
	// Status other than 0 and 200 answers with an error instead of a stream.
	Status int
	// RetryAfter is the header of such an answer, as it stands.
	RetryAfter string
	// ErrorType, ErrorCode and ErrorMessage are its body's; with status 200
	// and a type, the error comes inside the stream, after the other pieces.
	ErrorType, ErrorCode, ErrorMessage string
	// Reset breaks the connection before anything was answered.
	Reset bool

	// Wait comes before the answer, Delay before each piece of it.
	Wait, Delay time.Duration
	Reasoning   []string
	// Signature belongs to the reasoning (Anthropic).
	Signature string
	// Redacted is the data of a redacted thinking block (Anthropic).
	Redacted string
	Text     []string
	Calls    []Call
	// Interleave sends the pieces of several calls in turn (OpenAI).
	Interleave bool
	// Stop is the protocol's own stop reason; empty means the usual one.
	Stop  string
	Usage Usage
	// Fields are unknown fields of the answer: of the first delta (OpenAI),
	// or a whole block of an unknown type (Anthropic, with "type").
	Fields map[string]json.RawMessage
	// Noise adds events, fields and comments that nobody has heard of.
	Noise bool

	// CutAfter breaks the connection after so many bytes of the stream.
	CutAfter int
	// Malformed sends this as an event's data after the first pieces of text.
	Malformed string
	// Hang stays silent after the pieces, until the caller leaves.
	Hang bool
	// NoEnd ends the stream in order, but without what marks its end.
	NoEnd bool
}

// Call is a tool call.
type Call struct {
	// ID may be empty: then the server sends none (OpenAI).
	ID, Name, Input string
	// Pieces is in how many deltas the input comes; 0 means one.
	Pieces int
	// Fields are unknown fields of the call.
	Fields map[string]json.RawMessage
}

// Usage is what the answer says it used; Input counts cached tokens too.
type Usage struct{ Input, Output, CacheRead, CacheWrite int64 }

// Say returns a script that answers with text, word by word.
func Say(text string) Script { return Script{Text: Words(text)} }

// Words splits text into pieces that join to it again.
func Words(text string) []string { return strings.SplitAfter(text, " ") }

// Sequence returns a function that answers the nth request with the nth
// script, and every one after the last with the last.
func Sequence(scripts ...Script) func(Request) Script {
	return func(r Request) Script { return scripts[min(r.N, len(scripts))-1] }
}

// pieces cuts between runes, as providers do.
func (c Call) pieces() []string {
	runes := []rune(c.Input)
	n := min(max(1, c.Pieces), max(1, len(runes)))
	out := make([]string, 0, n)
	for i := range n {
		out = append(out, string(runes[len(runes)*i/n:len(runes)*(i+1)/n]))
	}
	return out
}
