// Package doctor diagnoses problems and suggests fixes. It checks directories, disk, database,
// clock, sandbox, model, and the running server. It repairs and changes nothing, and it does not
// open a database that a server has open. Only the command line calls it.
package doctor
