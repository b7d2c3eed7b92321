// Package llmtest is a fake model provider: a loopback server that implements Anthropic's
// Messages (POST /v1/messages) and OpenAI's chat completions (POST
// /v1/chat/completions) and Responses (POST /v1/responses) with streaming. A function maps each decoded request to a
// [Script], which can also fail like real providers: with a status and Retry-After, an
// overload, or a stream that is cut off, hangs, is malformed, or has unknown fields. The
// server records every request.
//
// [Start] needs no testing.T, so that benchmarks and child processes can use it. The
// server handles five hundred concurrent streams.
package llmtest
