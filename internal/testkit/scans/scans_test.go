package scans

import (
	"testing"

	"lilac/internal/engine/db"
)

// The plans are those of SQLite for the statements.
func TestAStatementMayNotReadAWholeTableThatGrows(t *testing.T) {
	s := schemaOf([]db.Migration{{SQL: `
CREATE TABLE history (id TEXT PRIMARY KEY, session TEXT NOT NULL, open INTEGER NOT NULL, at INTEGER NOT NULL) STRICT;
CREATE INDEX history_at ON history (at);
CREATE TABLE timers (name TEXT PRIMARY KEY) STRICT;
`}, {SQL: `CREATE INDEX history_open ON history (session) WHERE open = 1`}})
	for _, c := range []struct {
		statement, step string
		refused         bool
	}{
		{"SELECT id FROM history WHERE session = ?", "SCAN history", true},
		{"SELECT h.id FROM history AS h WHERE h.session = ?", "SCAN h", true},
		{"SELECT h.id FROM timers t, history h WHERE h.session = t.name", "SCAN h", true},
		{"SELECT max(at) FROM history WHERE session = ? OR id = ?", "SEARCH history", true},
		{"DELETE FROM history WHERE session = ?", "SCAN history USING COVERING INDEX history_at", true},
		{"SELECT id FROM history WHERE id = ?", "SEARCH history USING INDEX sqlite_autoindex_history_1 (id=?)", false},
		{"SELECT id FROM history WHERE session <> '' ORDER BY at LIMIT ?", "SCAN history USING INDEX history_at", false},
		{"SELECT id FROM history WHERE open = 1", "SCAN history USING INDEX history_open", false},
		{"SELECT id FROM history", "SCAN history", false},
		{"DELETE FROM timers WHERE name NOT IN (SELECT value FROM json_each(?))", "SCAN timers", false},
		{"DELETE FROM timers WHERE name NOT IN (SELECT value FROM json_each(?))", "SCAN json_each VIRTUAL TABLE INDEX 1:", false},
	} {
		if got := s.scan(c.statement, []string{c.step}); (got != "") != c.refused {
			t.Errorf("%s, %s: %q", c.statement, c.step, got)
		}
	}
}
