package store

import (
	"strings"
	"unicode"

	"lilac/internal/engine/db"
)

// unspacedMigration makes each letter of a script that puts no spaces between
// words a word of its own: the index would take a whole sentence for one. What
// was said before is indexed anew where there is such a letter.
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
`}

// wordsFunction is words as the database knows it.
var segmentFunction = db.RegisterFunction("lilac_words", segment)

// lowerFunction is for letters of all scripts; SQLite's own is for ASCII.
var lowerFunction = db.RegisterFunction("lilac_lower", strings.ToLower)

// words returns a text with spaces around each letter of a script that has none
// between words. A search for some of them is one for a phrase.
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

// firstUnspaced is where the first of these scripts begins, Thai.
const firstUnsegmented = 0x0e00

// unspaced reports a letter of such a script. Korean is one: it has spaces, but
// particles are written together with the word.
func isUnsegmented(r rune) bool {
	return r >= firstUnsegmented &&
		unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar)
}
