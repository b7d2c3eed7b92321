// Package backup writes the persistent part of a data directory to one file, even while a server
// is using the directory, and restores a data directory from such a file.
//
// The file is a gzip-compressed tar archive. It contains, in this order: a consistent snapshot of
// the database; the stored files; and a manifest with the SHA-256 of every entry. Each stored file
// is written before the database refers to it, so no file of the snapshot is missing. The name of
// a stored file is also its SHA-256. A file without a manifest is incomplete, and a file that does
// not match its manifest is damaged; neither is restored. The backup excludes the token and the
// configuration: a restored directory gets a new token.
package backup
