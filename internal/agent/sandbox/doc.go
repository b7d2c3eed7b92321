// Package sandbox runs a command under a policy, or refuses.
//
// [Detect] finds a sandbox and runs it once to prove that it works on this machine:
// bubblewrap, or else Lilac's built-in namespace sandbox. Both build the layers of the
// [Policy] in user, process, mount, network, IPC and host name namespaces, with a filter
// of system calls, without capabilities and without new privileges; the built-in sandbox
// adds Landlock. A command sees the workspace (read and write), the system's programs and
// libraries (read only), an empty /tmp, a few devices, and its own /proc. It has no
// network, none of Lilac's environment variables, and cannot create namespaces. The paths
// of [Policy.Hidden] are never visible.
//
// A command may see a Unix socket. That is how it reaches the tool server and, with
// [Policy.Proxy], a proxy outside that lets some hosts through.
//
// [Limits] bound the resources of a command: the kernel enforces them where it can count
// for one command alone; otherwise, a watcher outside checks them, more often the closer
// the limit is. Memory that belongs to no process (buffers of sockets and pipes) is
// bounded only by the number of descriptors.
//
// Nothing ever runs unconfined because something is missing. Without a working sandbox,
// Detect returns a fault of kind Unavailable that says what to install, or which setting
// accepts the risk; [Refusing] turns it into a Sandbox. [Unconfined] is for operators who
// accept the risk explicitly: it protects only Lilac's environment variables and bounds
// only the output.
//
// A command ends with its context, its time limit, and Lilac's process: all of its
// processes are killed, and Run returns when they are gone. The process namespace also
// catches processes that left the process group (setsid); Unconfined does not.
//
// A program that runs commands must call [Enter] first in main: the first process in the
// built-in sandbox, and the process that forwards connections to the proxy, are the
// program itself.
//
// A Sandbox is safe for concurrent use; each Run owns its processes and goroutines, and
// waits for them. The package works only on Linux; elsewhere, Detect says so. It imports
// foundation packages only. builtin, app and the background tasks may call it.
package sandbox
