// Package anthropic implements Anthropic's Messages API with streaming, on net/http.
//
// Data that the server wants back is kept in ProviderOptions {"anthropic": {…}} and
// sent back unchanged: the signature of a thinking block, redacted thinking (a reasoning
// part without text and with "redactedData"), unknown fields of a block, and whole blocks
// of an unknown type (a part of type "custom" with "block"). Reasoning of other providers
// has no signature and is omitted.
//
// Cache breakpoints are set on the system prompt, the last tool, and the last two user
// turns, so that each step reads the cache entry that the step before it wrote. The rules
// for all adapters are in package llm.
package anthropic
