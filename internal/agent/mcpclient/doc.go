// Package mcpclient connects to servers of the Model Context Protocol (MCP), over stdio,
// streamable HTTP, and the older HTTP with SSE, and offers their tools, resources and prompts as callables.
//
// A server is untrusted. It may hang, crash, flood, lie, and change its tools, and only
// its own callables suffer:
//
//   - A stdio server runs in the sandbox of the agent's commands, with a home directory of
//     its own, and with only the environment variables that its configuration names. It
//     has a network only if its configuration lists hosts.
//   - An HTTP server is reached through [egress.NewService]: nothing but the configured
//     address receives a request, a header, or a token.
//   - A token of a login ([LogIn]) is asked for with the address of its server as the resource,
//     and sent to this address only.
//   - Names of tools are below mcp.SERVER, so they can't shadow others. Descriptions and
//     hints are shown as text of the server, and permit nothing: what may be called is up to
//     the policy (package grant).
//   - Messages, lists, results, and bytes per minute are bounded. Calls and starts have time
//     limits. A call whose server ends has an unknown outcome. A server that only forgets the session
//     gets another one, and the call again.
//
// [Servers.Run] owns one goroutine for each server, which starts it, lists what it offers,
// publishes its notifications, and restarts it with backoff ([Backoff]). [Servers.Set]
// applies a configuration at any time. All methods are safe for concurrent use. The mutex
// of Servers guards its map, that of a server its state; the former is taken first, and no
// I/O happens under either.
//
// The client has one capability: elicitation. A server may ask a person something during a
// call ([People]). It must not use the model or the files (no sampling and no roots).
package mcpclient
