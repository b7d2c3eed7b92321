// Package openai speaks OpenAI's chat completions protocol, streamed, over
// net/http. OpenRouter, Ollama, Groq, vLLM and Gemini's compatible endpoint
// speak it too, each with its own additions: fields of an answer that this
// package does not know (reasoning_details, extra_content …) are kept in
// ProviderOptions {"openai": {…}} of the message or of the tool call that they
// came with, and go back unchanged, since some of them are signatures that the
// server checks.
//
// Servers that leave out ids get them made from the call, so that a repeated
// step has the same ones. Package llm says what holds for every adapter.
package openai
