// Package acp lets editors talk to the running server over the Agent Client Protocol
// (https://agentclientprotocol.com, version 1): the command "lilac acp" is the agent that
// Zed, JetBrains, and others start, over its standard input and output. A conversation of
// an editor is a conversation of the client "acp" on the server, with the server's
// workspace, tools, rules, and policy.
//
// [Decide] is pure: it takes the state of a conversation and an event of the server, and
// returns what the editor is told. [Agent] is the thin service around it. It keeps nothing:
// an editor that goes away stops no answer, and session/load shows what was said meanwhile.
//
// What the protocol offers and Lilac leaves out: the agent works in the server's workspace,
// so it ignores the editor's directory, its MCP servers, and its file system and terminals.
//
// Concurrency: the connection calls the methods of Agent in goroutines of its own, with
// notifications of one direction in order. Each open conversation has one goroutine that
// follows its events; only that goroutine changes its state and tells the editor. An open
// question has a goroutine that waits for the editor. [Agent.Close] waits for all of them.
package acp
