package store

import (
	"strings"
	"unicode"

	"lilac/internal/engine/db"
)

// segmentMigration indexes scripts that do not separate words with spaces, such as Chinese,
// character by character. Otherwise, the index would treat a whole sentence as one word.
// It also indexes existing messages in such scripts again.
var segmentMigration = db.Migration{Name: "store.0009-search-unspaced", SQL: `
DROP VIEW history_unindexed;
CREATE VIEW history_unindexed AS
	SELECT row, (SELECT ` + segmentFunction + `(said) FROM history_said h WHERE h.session_id = r.session_id AND h.seq = r.seq) AS said
	FROM history_rows r WHERE row > coalesce((SELECT max(id) FROM history_words_docsize), 0);

CREATE TEMP TABLE unspaced AS SELECT row, ` + segmentFunction + `(said) AS said
	FROM history_rows JOIN history_said USING (session_id, seq)
	WHERE row IN (SELECT id FROM history_words_docsize) AND said <> ` + segmentFunction + `(said);
DELETE FROM history_words WHERE rowid IN (SELECT row FROM unspaced);
INSERT INTO history_words (rowid, said) SELECT row, said FROM unspaced;
DELETE FROM unspaced;
INSERT INTO unspaced SELECT row, ` + segmentFunction + `(said) FROM (
		SELECT row, CASE WHEN json_valid(CAST(json AS TEXT)) THEN json_extract(CAST(json AS TEXT), '$.text') END AS said FROM surface_messages
	) WHERE said <> ` + segmentFunction + `(said);
DELETE FROM surface_words WHERE rowid IN (SELECT row FROM unspaced);
INSERT INTO surface_words (rowid, said) SELECT row, said FROM unspaced;
DROP TABLE unspaced;
`, Postgres: nothingOnPostgres}

// segmentFunction is the name of segment as an SQL function.
var segmentFunction = db.RegisterFunction("lilac_words", segment)

// lowerFunction is the name of an SQL function that lowercases all scripts. The function
// lower of SQLite lowercases only ASCII.
var lowerFunction = db.RegisterFunction("lilac_lower", strings.ToLower)

// segment puts spaces around each character for which isUnsegmented is true, so that the
// index stores it as a word. A query of several such characters, segmented and quoted, is a
// phrase query.
func segment(text string) string {
	if !strings.ContainsFunc(text, isUnsegmented) {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if isUnsegmented(r) {
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// firstUnsegmented is the start of the Thai block in Unicode, the lowest code point of the
// scripts in isUnsegmented.
const firstUnsegmented = 0x0e00

// isUnsegmented reports whether a rune belongs to a script that does not separate words with
// spaces. Hangul counts as such a script: Korean has spaces, but attaches particles to
// words.
func isUnsegmented(r rune) bool {
	return r >= firstUnsegmented &&
		unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}
