// Package responses implements OpenAI's Responses API with streaming, on net/http. OpenAI's
// newest models accept tools only there.
//
// It is used without state on the server: every request has store: false and the whole
// conversation. Reasoning comes as encrypted items, which are kept in ProviderOptions
// {"openai": {"encryptedContent": …}} of a reasoning part and sent back to the provider and
// model family that made them, with their ids, which OpenAI's description demands. Other ids
// are not sent back, because the server stores no items. The rules for all adapters are in package llm; [llm.Alternative] chooses between
// this API and chat completions.
package responses
