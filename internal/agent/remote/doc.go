// Package remote runs commands of the agent on other nodes.
//
// One node decides and writes everything; the others lend it their machines. [Nodes], on the
// active node, chooses where a command runs and carries its output back. [Server], on a node
// that waits, runs the command with that machine's sandbox. Both see the same workspace, on a
// shared file system, and [Nodes] proves that before each command.
//
// # Promises
//
//   - A command that a node has begun is never begun again: not on the same node, and not on
//     another one. If the node is lost, the outcome is [builtin.Ended.Lost].
//   - A command does not outlive the work that it belongs to. It ends when its caller cancels it,
//     when the connection breaks, and when the active node has said nothing for
//     [ServerOptions.Silence], which is shorter than the time in which another node takes over.
//   - [Nodes.Run] returns when the command has ended. If the node is lost, it returns when the
//     node is certain to have ended it: at the latest after that time.
//   - Commands of one session run on one node as long as it is there, because some files, such as
//     the home directory, may be on that machine only.
//
// # The protocol
//
// A command is a connection: POST /node/v1/commands with Upgrade: lilac-command, then lines of
// JSON in both directions. The active node sends an [order] and then signals; the other one sends
// frames. Both sides say regularly that they are there. The key of the nodes ([Key]) authenticates
// the caller. POST /node/v1/commands/{id}/stop ends a command whose connection was lost, and
// GET /node/v1/name tells which node answers at an address.
//
// # Concurrency
//
// All methods are safe for concurrent use. A command has one goroutine that reads its connection
// and one that says that this side is there; the one that called Run or ServeHTTP waits for both.
// The mutexes are leaves.
//
// The package imports packages of the agent and of the foundation only; app builds both sides.
package remote
