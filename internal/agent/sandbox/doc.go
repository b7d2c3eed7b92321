// Package sandbox runs a command under a policy, or refuses.
//
// [Detect] finds a sandbox and proves that it works on this machine by running
// it: bubblewrap, else namespaces of our own. Both build the same layers ([Policy]
// says which), in user, process, mount, network, IPC and host name namespaces,
// with a filter of system calls, no capability and no new privileges; our own adds
// Landlock. A command sees the workspace (read and write), the system's programs
// and libraries (read only), an empty /tmp, a few devices, and a /proc of its own. It
// has no network, none of our environment, and no way to make namespaces. The
// paths of [Policy.Hidden] are never visible, whatever else is.
//
// A Unix socket may be shown to a command: that is how it reaches the tool
// server, and, by [Policy.Proxy], a proxy outside that lets some hosts through.
//
// [Limits] bound what a command uses: the kernel where it can count for one command
// alone, and a watcher outside that looks the sooner the less is left. Memory that
// belongs to no process (buffers of sockets and pipes) is bounded only by the
// number of descriptors.
//
// Nothing ever runs unconfined because something is missing: without a
// working sandbox Detect returns a fault of kind Unavailable that says what to
// install or which setting accepts the risk, and [Refusing] makes a Sandbox
// of that answer. [Unconfined] exists for who accepts the risk by name; it
// protects nothing but our environment variables, and bounds nothing but output.
//
// A command ends with its context, with its time limit, and with our process:
// all of its processes are killed, and Run returns when they are gone. What
// left its process group (setsid) is caught by the process namespace,
// and not by Unconfined.
//
// A program that runs commands calls [Enter] first in main: the first process of
// our own namespaces, and what carries connections to the proxy, is the program itself.
//
// The package is Linux only in effect; elsewhere Detect says so. It may import
// fault, and builtin, app and the background tasks may call it.
package sandbox
