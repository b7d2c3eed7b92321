package store

import (
	"fmt"
	"math"
	"strings"
	"unicode"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
)

// searchMigration creates the full-text index of the messages of users and models. Triggers
// on the table history maintain the index, so that no writer can forget it. An FTS5 index
// needs rowids; history has none, so history_rows assigns them. The index stores words and
// no texts: results are read from history, where a checksum protects them. The casts to
// TEXT are needed because the rows store JSON as BLOB, which SQLite would read as JSONB.
var searchMigration = db.Migration{Name: "store.0003-search", SQL: `
CREATE TABLE history_rows (
	row        INTEGER PRIMARY KEY,
	session_id TEXT NOT NULL,
	seq        INTEGER NOT NULL,
	UNIQUE (session_id, seq)
) STRICT;
CREATE VIRTUAL TABLE history_words USING fts5 (said, content = '', contentless_delete = 1, tokenize = "unicode61 remove_diacritics 2");

CREATE VIEW history_said AS
	SELECT session_id, seq, substr(CASE json_type(m, '$.content')
		WHEN 'text' THEN json_extract(m, '$.content')
		WHEN 'array' THEN (SELECT group_concat(json_extract(value, '$.text'), ' ') FROM json_each(m, '$.content') WHERE json_extract(value, '$.type') = 'text')
	END, 1, 65536) AS said
	FROM (SELECT session_id, seq, CAST(json AS TEXT) AS m FROM history)
	WHERE json_extract(m, '$.role') IN ('user', 'assistant');

INSERT INTO history_rows (session_id, seq) SELECT session_id, seq FROM history_said WHERE said <> '' ORDER BY session_id, seq;
INSERT INTO history_words (rowid, said) SELECT row, said FROM history_rows JOIN history_said USING (session_id, seq);

CREATE TRIGGER history_said_insert AFTER INSERT ON history BEGIN
	INSERT INTO history_rows (session_id, seq)
		SELECT session_id, seq FROM history_said WHERE session_id = new.session_id AND seq = new.seq AND said <> '';
	INSERT INTO history_words (rowid, said)
		SELECT row, said FROM history_rows JOIN history_said USING (session_id, seq) WHERE session_id = new.session_id AND seq = new.seq;
END;
CREATE TRIGGER history_said_delete AFTER DELETE ON history BEGIN
	DELETE FROM history_words WHERE rowid = (SELECT row FROM history_rows WHERE session_id = old.session_id AND seq = old.seq);
	DELETE FROM history_rows WHERE session_id = old.session_id AND seq = old.seq;
END;
`, Postgres: searchPostgres}

// searchLaterMigration indexes messages in batches, so that indexing does not slow down
// every write: with every 32nd message and before a search. Messages with invalid JSON
// are indexed without words, because an error in the trigger would block later writes.
var searchLaterMigration = db.Migration{Name: "store.0007-search-later", SQL: `
DROP TRIGGER history_said_insert;
DROP VIEW history_said;
CREATE VIEW history_said AS
	SELECT session_id, seq, substr(CASE json_type(m, '$.content')
		WHEN 'text' THEN json_extract(m, '$.content')
		WHEN 'array' THEN (SELECT group_concat(json_extract(value, '$.text'), ' ') FROM json_each(m, '$.content') WHERE json_extract(value, '$.type') = 'text')
	END, 1, 65536) AS said
	FROM (SELECT session_id, seq, CASE WHEN json_valid(CAST(json AS TEXT)) THEN CAST(json AS TEXT) ELSE '{}' END AS m FROM history)
	WHERE json_extract(m, '$.role') IN ('user', 'assistant');
CREATE VIEW history_unindexed AS
	SELECT row, (SELECT said FROM history_said h WHERE h.session_id = r.session_id AND h.seq = r.seq) AS said
	FROM history_rows r WHERE row > coalesce((SELECT max(id) FROM history_words_docsize), 0);

CREATE TRIGGER history_said_insert AFTER INSERT ON history BEGIN
	INSERT INTO history_rows (session_id, seq) VALUES (new.session_id, new.seq);
END;
CREATE TRIGGER history_rows_insert AFTER INSERT ON history_rows WHEN new.row % 32 = 0 BEGIN
	INSERT INTO history_words (rowid, said) SELECT row, said FROM history_unindexed ORDER BY row;
END;
`, Postgres: nothingOnPostgres}

// HistoryIndex is the full-text index of [History].
type HistoryIndex struct{}

// IndexHistory adds the messages to the index that are not in it yet: fewer than 32, see
// searchLaterMigration. Call it before [HistoryIndex.Search].
func (HistoryIndex) IndexHistory(tx *db.Tx) error {
	_, err := tx.Exec(indexHistory)
	return wrap("index history", err)
}

// maxTerms is the maximum number of words in a query. Each word costs another index scan.
const maxTerms = 16

// Terms splits a query that a user typed into words. It drops the words after maxTerms.
func Terms(query string) []string {
	words := strings.FieldsFunc(query, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	return words[:min(len(words), maxTerms)]
}

// matchExpression returns the FTS5 expression for rows that contain all words. The last
// word matches as a prefix, because the user may still be typing it. Each word is quoted,
// so that FTS5 does not read it as an operator.
func matchExpression(terms []string) string {
	var b strings.Builder
	for _, t := range terms {
		b.WriteString(`"` + strings.ReplaceAll(segment(t), `"`, `""`) + `" `)
	}
	return strings.TrimRight(b.String(), " ") + "*"
}

// Search returns the indexed messages that contain all words of the query, the newest
// first. Only messages of users and models are indexed. The page starts after the row
// before; 0 means at the newest row. A placeholder that names the reason replaces a
// damaged message.
func (HistoryIndex) Search(q db.Queryer, query string, limit int, before int64) ([]session.SearchResult, error) {
	return searchHistory(q, searchHistoryRows, "", nil, query, limit, before)
}

// SearchIn is like Search, but searches one session, or all sessions if sessionID is empty.
// It omits the sessions of the clients in without.
func (HistoryIndex) SearchIn(q db.Queryer, sessionID string, without []string, query string, limit int) ([]session.SearchResult, error) {
	return searchHistory(q, searchHistoryRows, sessionID, without, query, limit, 0)
}

// searchHistory runs one of the statements of the search: in the session of, or in what the
// person of may see.
func searchHistory(q db.Queryer, statement, of string, without []string, query string, limit int, before int64) ([]session.SearchResult, error) {
	terms := Terms(query)
	if len(terms) == 0 {
		return nil, nil
	}
	left, err := jsonList(without)
	if err != nil {
		return nil, err
	}
	if before <= 0 {
		before = math.MaxInt64
	}
	out, err := collect(q, orDamaged(func(r scanner) (f session.SearchResult, err error) {
		var m session.HistoryMessage
		var data []byte
		var checksum int64
		if err := r.Scan(&f.Row, &f.SessionID, &m.Seq, &f.SessionTitle, &m.ID, &f.RequestID, &f.CreatedAt, &data, &checksum); err != nil {
			return f, err
		}
		f.MessageID = m.ID
		if err := decodeLong(q, historyTable, checksum, data, &m.Message, f.SessionID, m.Seq, m.ID, f.RequestID, f.CreatedAt, data); err != nil {
			return f, err
		}
		f.Role = string(m.Message.Role)
		f.Excerpt = excerpt(m.Message.Text(), terms)
		return f, nil
	}, damagedResult), statement,
		matchExpression(terms), before, of, of, left, pageSize(limit))
	return out, wrap("search history", err)
}

// damagedResult returns the placeholder for a damaged message.
func damagedResult(f session.SearchResult, why string) session.SearchResult {
	return session.SearchResult{Row: f.Row, SessionID: f.SessionID, SessionTitle: f.SessionTitle, MessageID: f.MessageID, RequestID: f.RequestID, Role: string(chat.System), Excerpt: why, Damaged: true}
}

// SessionsTitled returns the sessions whose title contains the text, ignoring case, the most
// recently updated first.
func (Sessions) SessionsTitled(q db.Queryer, text string, limit int) ([]session.Session, error) {
	return titledSessions(q, "", text, limit)
}

// titledSessions finds sessions by title that a person may see; "" means all of them.
func titledSessions(q db.Queryer, person, text string, limit int) ([]session.Session, error) {
	seen, args := "", []any{}
	if person != "" {
		seen, args = ` AND id`+seenBy, []any{person}
	}
	pattern := "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(strings.ToLower(text)) + "%"
	out, err := collect(q, scanSession,
		`SELECT `+sessionColumns+` FROM sessions WHERE `+lowerFunction+`(title) LIKE ? ESCAPE '\'`+seen+` ORDER BY updated_at DESC, id DESC LIMIT ?`, append(append([]any{pattern}, args...), pageSize(limit))...)
	if err != nil {
		return nil, fmt.Errorf("search titles: %w", err)
	}
	return out, nil
}

// The lengths of an excerpt before and after the start of the first match, in runes. They
// are enough to recognize a message.
const (
	excerptBefore = 50
	excerptAfter  = 190
)

// excerpt returns the part of a text around the first match, on one line. If no word occurs
// literally, because the index ignores diacritics (é matches e), it returns the beginning
// of the text.
func excerpt(text string, terms []string) string {
	runes := []rune(strings.Join(strings.Fields(text), " "))
	at := firstOf(runes, terms)
	from, to := max(0, at-excerptBefore), min(len(runes), at+excerptAfter)
	out := string(runes[from:to])
	if from > 0 {
		out = "…" + out
	}
	if to < len(runes) {
		out += "…"
	}
	return out
}

// firstOf returns the offset of the first match in a text, in runes, or 0 if there is none.
func firstOf(text []rune, terms []string) int {
	lower := make([]rune, len(text))
	for i, r := range text {
		lower[i] = unicode.ToLower(r)
	}
	haystack := string(lower)
	first := -1
	for _, t := range terms {
		needle := strings.Map(unicode.ToLower, t)
		if at := strings.Index(haystack, needle); at >= 0 && (first < 0 || at < first) {
			first = at
		}
	}
	if first < 0 {
		return 0
	}
	return len([]rune(haystack[:first]))
}
