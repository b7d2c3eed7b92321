// Package llmtest is a fake model provider: one server on loopback that speaks
// Anthropic's Messages (POST /v1/messages) and OpenAI's chat completions (POST
// /v1/chat/completions), streamed as the real ones stream. What it answers is
// decided by a function from the decoded request to a [Script], which can also
// fail as the real ones do: a status with retry-after, an overload, a stream
// that is cut, hangs, is no JSON or holds what nobody has heard of. It records
// every request.
//
// It needs no testing.T ([Start]), so benchmarks and child processes use it
// too, and it is light enough to serve five hundred streams at once.
package llmtest
