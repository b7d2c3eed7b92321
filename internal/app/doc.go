// Package app is the composition root. From a configuration, it opens the store and the bus,
// builds the model, the tools, the cores and the HTTP server, runs them in one process, and
// stops them in order. It connects the components and contains no logic of its own.
//
// The start listens on the port first, opens the database (which refuses a second process)
// and the bus, and creates the consumer groups of the cores. Only then does it serve HTTP, so
// that no accepted request can be missed. The stop ends the listener, the running requests
// (which the next start resumes), the bus, and the database, in that order.
package app
