package db

import "sync"

// alternatives maps statements that only SQLite understands to their form for PostgreSQL.
var alternatives sync.Map

// Alternative returns a statement for SQLite and registers its form for PostgreSQL, which
// takes the same arguments in the same order. Use it for what the engines do in different
// ways, such as full-text search; write everything else once. Call it from package
// variables.
func Alternative(sqlite, postgres string) string {
	alternatives.Store(sqlite, postgres)
	return sqlite
}

// postgresText returns a statement as PostgreSQL understands it.
func postgresText(query string) string {
	if other, ok := alternatives.Load(query); ok {
		query, _ = other.(string)
	}
	return toPostgres(query)
}
