// Package scans finds statements that read a whole table which grows: they are fast in a test, and slow
// after a year. Databases of package dbtest on SQLite refuse them, and so does the test program.
package scans

import (
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"lilac/internal/engine/db"
)

// small are the tables that stay small, however long the program runs and however much it does.
// Statements may read all of their rows, and those of watched_files, because that happens only when
// the configuration changes.
var small = []string{
	"account_invites", "account_links", "account_logins", "account_people", "bus_groups", "discord_gaps", "discord_gateway", "discord_orders",
	"learned", "meta", "migrations", "prompt_tools", "rule_refusals", "rule_waits", "timers", "tool_operators", "watched_files", "watched_sources",
}

var (
	// scanStep matches a step that reads a whole table, which SQLite calls a search without an index
	// if the statement wants a maximum.
	scanStep      = regexp.MustCompile(`^(?:SCAN|SEARCH) (\w+)(?: USING (?:COVERING )?INDEX (\w+))?$`)
	createPartial = regexp.MustCompile(`CREATE (?:UNIQUE )?INDEX (\w+) ON \w+ \([^;]*\) WHERE`)
	createTable   = regexp.MustCompile(`CREATE TABLE (\w+)`)
	// names matches a table and its alias in a statement.
	names = regexp.MustCompile(`(?i)(?:FROM|JOIN|,|UPDATE) (\w+)(?: AS)? (\w+)`)
	where = regexp.MustCompile(`(?i)\bWHERE\b`)
	limit = regexp.MustCompile(`(?i)\bLIMIT\b`)
)

// Find returns a function for [db.Options.OnPlan]. It calls found with a sentence if a statement of the
// product looks for rows by reading a whole table that grows.
func Find(migrations []db.Migration, found func(problem string)) func(statement string, steps []string) {
	s := schemaOf(migrations)
	return func(statement string, steps []string) {
		if problem := s.scan(statement, steps); problem != "" && ofProduct() {
			found(problem)
		}
	}
}

// schema has the names of tables, and of the indexes that have a condition.
type schema struct{ tables, partial []string }

func schemaOf(migrations []db.Migration) (s schema) {
	for _, m := range migrations {
		for _, found := range createTable.FindAllStringSubmatch(m.SQL, -1) {
			s.tables = append(s.tables, found[1])
		}
		for _, found := range createPartial.FindAllStringSubmatch(m.SQL, -1) {
			s.partial = append(s.partial, found[1])
		}
	}
	return s
}

// scan returns a sentence about the first table that grows and that a statement reads as a whole to
// find rows, or an empty string. steps is the plan of SQLite. Statements without WHERE mean all rows,
// an index with a condition has only the rows that wait for something, and a list in the order of an
// index ends at its limit.
func (s schema) scan(statement string, steps []string) string {
	if !where.MatchString(statement) {
		return ""
	}
	statement = strings.Join(strings.Fields(statement), " ")
	for _, step := range steps {
		found := scanStep.FindStringSubmatch(step)
		if found == nil {
			continue
		}
		name, index := found[1], found[2]
		for _, alias := range names.FindAllStringSubmatch(statement, -1) {
			if alias[2] == name && slices.Contains(s.tables, alias[1]) {
				name = alias[1]
			}
		}
		switch {
		case !slices.Contains(s.tables, name) || slices.Contains(small, name):
		case index != "" && (slices.Contains(s.partial, index) || limit.MatchString(statement)):
		default:
			return fmt.Sprintf("this statement reads all rows of %s, which grows (%s): %s", name, step, statement)
		}
	}
	return ""
}

// ofProduct reports whether the caller of the database is neither a test nor a migration, which may
// read everything because it runs once.
func ofProduct() bool {
	callers := make([]uintptr, 64)
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers)])
	caller := ""
	for {
		frame, more := frames.Next()
		switch {
		case strings.HasSuffix(frame.Function, "lilac/internal/engine/db.(*DB).migrate"):
			return false
		case caller == "" && !strings.Contains(frame.Function, "lilac/internal/engine/db."):
			caller = frame.File
		}
		if !more {
			return !strings.HasSuffix(caller, "_test.go") && !strings.Contains(caller, "/testkit/")
		}
	}
}
