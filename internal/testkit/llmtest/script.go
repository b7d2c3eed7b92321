package llmtest

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"
)

// Protocol is the wire protocol of a request.
type Protocol string

// The protocols.
const (
	Anthropic Protocol = "anthropic"
	OpenAI    Protocol = "openai"
	Responses Protocol = "responses"
)

// Request is a call that the server received.
type Request struct {
	// At is the time at which the request was complete.
	At time.Time
	// N numbers the requests of a server, starting at 1.
	N        int
	Protocol Protocol
	Header   http.Header
	// Body is the unmodified JSON.
	Body     []byte
	Model    string
	Messages []Message
	// Tools lists the names of the offered tools.
	Tools []string
}

// Message is a message of a request, reduced to the parts that scripts use.
type Message struct {
	Role string
	// Text joins the texts of the content.
	Text string
	// Results maps call ids to the texts of tool results.
	Results map[string]string
	// Calls lists the names of called tools.
	Calls []string
}

// LastText returns the text of the last message, including its tool results.
func (r Request) LastText() string {
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

// Script defines the server's answer to a request.
type Script struct {
	// Status, unless 0 or 200, replaces the stream by an error response.
	Status int
	// RetryAfter is the unmodified Retry-After header of an error response.
	RetryAfter string
	// ErrorType, ErrorCode, and ErrorMessage fill the body of an error response. With
	// status 200 and a type, the error is an event after the rest of the stream.
	ErrorType, ErrorCode, ErrorMessage string
	// Reset breaks the connection before the response begins.
	Reset bool

	// Wait delays the answer, Delay each delta.
	Wait, Delay time.Duration
	Reasoning   []string
	// Signature is the signature of the reasoning (Anthropic).
	Signature string
	// Redacted is the data of a redacted thinking block (Anthropic).
	Redacted string
	Text     []string
	Calls    []Call
	// Interleave alternates between the deltas of several calls (OpenAI).
	Interleave bool
	// Stop is the protocol's stop reason; empty selects the usual one.
	Stop  string
	Usage Usage
	// Fields adds unknown fields to the first delta (OpenAI), or a block of an
	// unknown type (Anthropic, with "type").
	Fields map[string]json.RawMessage
	// Noise adds unknown events, unknown fields, and comments.
	Noise bool

	// CutAfter breaks the connection after this many bytes of the stream.
	CutAfter int
	// Malformed is sent as the data of an event after the text.
	Malformed string
	// Hang sends nothing after the deltas, until the caller disconnects.
	Hang bool
	// NoEnd closes the stream without its terminating events.
	NoEnd bool
}

// Call is a tool call.
type Call struct {
	// ID may be empty; the server then sends no id (OpenAI).
	ID, Name, Input string
	// Pieces is the number of deltas of the input; 0 means one.
	Pieces int
	// Fields adds unknown fields to the call.
	Fields map[string]json.RawMessage
}

// Usage is the usage that the answer reports. Input includes cached tokens.
type Usage struct{ Input, Output, CacheRead, CacheWrite int64 }

// Say returns a script that streams text word by word.
func Say(text string) Script { return Script{Text: Words(text)} }

// Words splits text into words; the pieces join to the text.
func Words(text string) []string { return strings.SplitAfter(text, " ") }

// Sequence answers the nth request with the nth script, and every request after that
// with the last one.
func Sequence(scripts ...Script) func(Request) Script {
	return func(r Request) Script { return scripts[min(r.N, len(scripts))-1] }
}

// pieces splits the input between runes, as providers do.
func (c Call) pieces() []string {
	runes := []rune(c.Input)
	n := min(max(1, c.Pieces), max(1, len(runes)))
	out := make([]string, 0, n)
	for i := range n {
		out = append(out, string(runes[len(runes)*i/n:len(runes)*(i+1)/n]))
	}
	return out
}
