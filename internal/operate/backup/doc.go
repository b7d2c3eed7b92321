// Package backup writes what must survive of a data directory into one file,
// while a server may be using it, and makes a data directory out of such a file.
//
// The file is a gzip-compressed tar: the database as it was at one moment, then
// the stored files (each is written before the database names it, so none is
// missing), then a manifest with the SHA-256 of every entry, which of a stored
// file is also its name. A file without a manifest was not finished, one that does
// not match it is damaged; neither is restored. The token and the configuration
// are not in it: a restored directory gets a new token.
package backup
