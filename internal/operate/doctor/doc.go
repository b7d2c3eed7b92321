// Package doctor looks for what is wrong and says what to do about it:
// directories, disk, database, clock, sandbox, model and the running server.
// It repairs nothing and changes nothing; a database that a server has open is
// left to the server. Only the command line calls it.
package doctor
