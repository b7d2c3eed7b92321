// Package serve is the layer for callers: the HTTP API, the web page, the tool
// server, and the operations that it offers.
//
// Its packages check who calls, translate requests into calls of the cores, and
// decide nothing else. They import core, agent, engine, telemetry, and
// foundation, and never the store.
package serve
