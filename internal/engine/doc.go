// Package engine is the layer of storage engines: the database with its single
// writer (db), long texts in it (longtext), the contract of the event bus (bus), the
// delivery rules that every engine shares (delivery), and one package per engine of
// the log.
//
// Nothing above this layer names an engine, except app, which selects one, and
// doctor, which inspects it. Its packages import only the foundation layer and
// each other.
package engine
