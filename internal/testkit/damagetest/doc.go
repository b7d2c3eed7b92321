// Package damagetest finds the bytes of rows in a database file, so that a test
// can damage exactly those: a byte of free space, of a free page or of an old
// version of a row means nothing to anybody, and a test that flips such bytes
// measures its own luck. [Cells] follows the pages of a table as the file format
// of SQLite describes them.
//
// Only tests import it.
package damagetest
