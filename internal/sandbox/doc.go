// Package sandbox runs a command under a policy, or refuses.
//
// [Detect] finds bubblewrap and proves that it works on this machine by
// running it. A command in it sees the workspace (read and write), the
// system's programs and libraries (read only), an empty /tmp and a /proc of
// its own; it has no network, no capability, none of our environment and no
// way to make namespaces of its own. The paths of [Policy.Hidden] are never
// visible, whatever else is.
//
// Nothing ever runs unconfined because something is missing: without a
// working sandbox Detect returns a fault of kind Unavailable that says what to
// install or which setting accepts the risk, and [Refusing] makes a Sandbox
// of that answer. [Unconfined] exists for who accepts the risk by name; it
// protects nothing but our environment variables.
//
// A command ends with its context, with its time limit, and with our process:
// all of its processes are killed, and Run returns when they are gone. What
// left its process group (setsid) is caught by bubblewrap's process namespace,
// and not by Unconfined.
//
// The package is Linux only in effect; elsewhere Detect says so. It may import
// fault, and builtin, app and the background tasks may call it.
package sandbox
