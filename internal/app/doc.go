// Package app is the composition root: it opens the store and the bus, builds
// the model, the tools, the cores and the HTTP server from a configuration,
// runs them in one process and stops them in order. It knows every part and
// decides nothing.
//
// Order of the start: the port is taken, then the database is opened (which
// refuses a second process), the bus, the cores' groups, and only then is the
// port served, so that nothing is accepted that could be missed. Order of the stop: the listener, the
// running requests (which the next start takes up), the bus, the database.
package app
