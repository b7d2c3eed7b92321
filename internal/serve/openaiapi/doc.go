// Package openaiapi lets clients of OpenAI's API talk to the agent: chat completions,
// responses, and the list of models.
//
// A client is a program with a token of its own ([Client]); its name is part of the client
// of its conversations, so that no client reaches those of another. It has the rights that
// the configuration gives to its token, and is never the operator: it cannot approve calls.
//
// A call begins a conversation or continues one ([selector]), or that whose messages it repeats (transcript.go). It is a prompt like any other:
// accepted durably, once for all attempts of the client ([attempt]), and worked off even if the
// client goes away. A call whose answer was not delivered is remembered until it is repeated or too old. The answer is read from the request's output topic, in one goroutine for each call.
// A question to the person ends the answer; the next call of the conversation can answer it.
// The plain model needs none of that: its calls, for titles and the like, keep nothing.
//
// The tools are the agent's own and run in Lilac; a call with tools of the client is refused unless
// the operator has said that the client can do without them (tools.go), as is everything else that would change what the client gets without its knowledge.
// Parameters of sampling are ignored: the configuration sets them.
//
// Whoever mounts the handler checks hosts and origins. A [Handler] is safe for concurrent
// use. It follows OpenAI's description of its API, version 2.3.0.
package openaiapi
