// Package chat is the conversation: messages, their parts, and what a model
// used. The JSON form is that of the AI SDK's ModelMessage
// (https://ai-sdk.dev/docs/reference/ai-sdk-core/model-message): a role and a
// content that is a string or a list of parts.
//
// Messages round-trip unchanged: a string stays a string, a list stays a list,
// and fields, part types and provider data that this package does not know
// are kept as they came. It imports the standard library only.
package chat
