// Package longtext keeps long texts out of commits, because everybody else's commits wait for
// a large one.
//
// Before a transaction that writes a long text, callers call [SetAside]: it stores all but the
// first 64 KiB of the text in pieces, each in a commit of its own. [Shorten] then leaves these pieces
// out of the rows with the text and names them at the beginning of the row, so that several rows
// with the same text share them. [Restore] puts them back when a row is read.
//
// A row stays valid JSON when it is shortened, with the first 64 KiB of each text, so that the
// database can still read it. A text that was not set aside stays in its row.
//
// The pieces belong to an owner (the id of a request) and are named by their hash, so that SetAside
// can be repeated after a crash. Package store deletes them some time after their owner.
//
// The source is the requirement that an answer, however long, does not go through one commit.
package longtext
