// Package anthropic speaks Anthropic's Messages protocol, streamed, over
// net/http.
//
// What the server wants back goes back as it came, kept in ProviderOptions
// {"anthropic": {…}}: the signature of a thinking block, redacted thinking
// (a reasoning part without text and with "redactedData"), fields of a block
// that this package does not know, and whole blocks of an unknown type (a part
// of type "custom" with "block"). Reasoning of other providers has no
// signature and is left out.
//
// Prompt caching is asked for on the instructions, the last tool and the last
// two turns of the person's side, so that each step reads what the step before
// it wrote. Package llm says what holds for every adapter.
package anthropic
