// Package egress controls connections to addresses that come from untrusted
// input. A [Proxy] is the only way out of a sandbox, and a [Fetcher] downloads the
// files that people send.
//
// A command in a sandbox has no network. If it may reach hosts, it sees the Unix
// socket of its own [Gate]. The proxy behind the socket accepts plain HTTP and
// CONNECT for the hosts and ports of the [Rule]s. It resolves names itself and checks
// the address when it connects: addresses that are not public ([Public]) are refused
// unless the rule allows an internal host. So a name that points to an internal
// address, or that changes where it points, gains nothing.
//
// If requests leave the network through another proxy ([Upstream]), that one looks names up and connects,
// so addresses cannot be checked here. It gets the names that are listed exactly; a name that only matches
// a wildcard has to lead to public addresses here, too.
//
// A rule may carry headers, usually credentials. The proxy adds them to plain requests
// for http://host/ and sends those on as https://host/, so the sandbox never holds
// a credential. Nothing can be added to CONNECT, which carries the command's own TLS.
// A host that echoes request headers would reveal the credential: do not give it one.
//
// A [Fetcher] downloads only from the hosts that it was given, also after redirects. It
// checks addresses in the same way, reads at most as much as it was asked to, whatever
// the host claims, and unpacks nothing.
//
// Connections, bytes and time are bounded. Refused targets are logged and kept in
// [Gate.Denied] for the model.
//
// All types are safe for concurrent use. A Gate belongs to one command: its mutex guards
// its counters, and Close waits for its connections. The package imports only
// foundation packages; app opens the proxy, builtin opens a gate for each command, and
// discord and web use fetchers.
package egress
