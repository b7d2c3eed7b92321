// Package llm is the contract of a language model that streams ([Model]) and
// what its adapters share: one way to call a provider over HTTP ([Endpoint]), one
// retry policy ([Retry]), one table from a provider's trouble to an error that
// a person understands, and the price of a call.
//
// An adapter repeats a call only while nothing of the answer was handed on:
// after the first chunk the caller alone knows what it kept. Everything waits
// through the context; a stream that falls silent ends by itself. The adapters
// are packages anthropic, openai and demo; llmtest has fake servers that speak
// the same protocols and fail like the real ones.
package llm
