// Package damagetest damages random bytes of rows in a database file, to test that the
// damage is detected. It changes only bytes that belong to rows: bytes in free space, free
// pages or old row versions have no meaning, so flips there would not test anything. [Cells]
// finds the rows of a table; see https://www.sqlite.org/fileformat.html.
//
// Only tests import this package.
package damagetest
