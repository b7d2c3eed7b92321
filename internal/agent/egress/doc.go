// Package egress is how addresses that others chose are reached: the only way
// out of a sandbox, a proxy of ours that runs outside of it and lets through
// what an operator has listed, and the [Fetcher] of files that people sent.
//
// A command in a sandbox has an empty network. When it may reach hosts, a Unix
// socket of its own [Gate] is shown to it, and the proxy behind it takes plain
// HTTP and CONNECT for the hosts and ports of the [Rule]s. Names are resolved
// here, and the address is checked at the moment of the connection: what is
// not a public address ([Public]) is refused unless the rule says that the host is
// internal. So a name that points inside, or changes where it points, gains nothing.
//
// A rule may carry headers, credentials usually. They are added here, outside, to plain
// requests for http://host/, which are sent on as https://host/; the sandbox
// never holds them. What a command sends by CONNECT is its own TLS, into which
// nothing can be added. A host that echoes its request headers would show the
// credential: give it to none that does.
//
// A [Fetcher] takes files from the hosts that it was given and no others, over
// redirects too, checks addresses in the same way, and reads at most as much as
// it was asked to whatever the host claims; nothing is unpacked.
//
// Everything is bounded: connections, bytes, and time; whatever is refused is
// logged and kept in [Gate.Denied] for the model. The package imports fault
// alone; app opens the proxy, builtin a gate for each command, and discord a fetcher.
package egress
