// Package llm is the contract of a language model that streams ([Model]) and
// what the protocols share: one way to make a call ([Adapter]) over HTTP ([Endpoint]), one
// retry policy ([Retry]), one table from a provider's trouble to an error that
// a person understands, and the price of a call.
//
// An adapter repeats a call only while nothing of the answer was handed on:
// after the first chunk the caller alone knows what it kept. Everything waits
// through the context; a stream that falls silent ends by itself. The protocols
// are packages anthropic, openai and responses; llmtest has fake servers that
// speak them and fail like the real ones.
package llm
