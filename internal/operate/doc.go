// Package operate is the layer for operators: the configuration, the HTTP client
// behind the command line, the tools command, diagnosis, and backups.
//
// Its packages may import every layer below app.
package operate
