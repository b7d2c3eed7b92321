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

// searchMigration keeps an index of the words that people and models said. Its
// triggers follow the history, so that nothing that writes there can forget
// it; history has no rowid, which an index needs, so history_rows gives it one.
// The index keeps words and not texts: what is shown is read from the history,
// with its checksum. Rows hold JSON as bytes, which SQLite would take for its
// own binary form, hence the casts.
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
`}

// searchLaterMigration takes the words out of the way of a conversation: a
// message is noted when it is written, and the words of many are indexed at
// once, with every 32nd message or before a search. A row that is damaged has
// no words, or nothing could be written behind it.
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
`}

// HistoryIndex is the full-text index of [History].
type HistoryIndex struct{}

// IndexHistory brings what [Store.Search] looks in up to date: fewer than 32
// messages, the newest.
func (HistoryIndex) IndexHistory(tx *db.Tx) error {
	_, err := tx.Exec(`INSERT INTO history_words (rowid, said) SELECT row, said FROM history_unindexed ORDER BY row`)
	return wrap("index history", err)
}

// maxTerms bounds a query: each word more is another walk through the index.
const maxTerms = 16

// Terms are the words of a query as a person types it.
func Terms(query string) []string {
	words := strings.FieldsFunc(query, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) })
	return words[:min(len(words), maxTerms)]
}

// matchExpression asks for rows with all the words, of which the last may have
// been typed only in part. A quoted word is never syntax.
func matchExpression(terms []string) string {
	var b strings.Builder
	for _, t := range terms {
		b.WriteString(`"` + strings.ReplaceAll(segment(t), `"`, `""`) + `" `)
	}
	return strings.TrimRight(b.String(), " ") + "*"
}

// Search finds messages of people and models that have all words of the query,
// the newest first, of those that [Store.IndexHistory] has seen. In the place of a
// damaged one stands why it cannot be read. It goes on behind the row named by
// before; 0 begins.
func (HistoryIndex) Search(q db.Queryer, query string, limit int, before int64) ([]session.SearchResult, error) {
	return searchHistory(q, "", nil, query, limit, before)
}

// SearchIn is Search in one session; "" is every one, but for those of the
// clients that are left out.
func (HistoryIndex) SearchIn(q db.Queryer, sessionID string, without []string, query string, limit int) ([]session.SearchResult, error) {
	return searchHistory(q, sessionID, without, query, limit, 0)
}

func searchHistory(q db.Queryer, sessionID string, without []string, query string, limit int, before int64) ([]session.SearchResult, error) {
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
		if err := decodeRow(historyTable, checksum, data, &m.Message, f.SessionID, m.Seq, m.ID, f.RequestID, f.CreatedAt, data); err != nil {
			return f, err
		}
		f.Role = string(m.Message.Role)
		f.Excerpt = excerpt(m.Message.Text(), terms)
		return f, nil
	}, damagedResult), `SELECT r.row, h.session_id, h.seq, s.title, h.id, h.request_id, h.created_at, h.json, h.checksum
		FROM history_words w JOIN history_rows r ON r.row = w.rowid
		JOIN history h ON h.session_id = r.session_id AND h.seq = r.seq
		JOIN sessions s ON s.id = h.session_id
		WHERE history_words MATCH ? AND w.rowid < ? AND (? = '' OR r.session_id = ?) AND s.client NOT IN (SELECT value FROM json_each(?)) ORDER BY w.rowid DESC LIMIT ?`,
		matchExpression(terms), before, sessionID, sessionID, left, pageSize(limit))
	return out, wrap("search history", err)
}

// damagedFind stands in the place of a message that cannot be read.
func damagedResult(f session.SearchResult, why string) session.SearchResult {
	return session.SearchResult{Row: f.Row, SessionID: f.SessionID, SessionTitle: f.SessionTitle, MessageID: f.MessageID, RequestID: f.RequestID, Role: string(chat.System), Excerpt: why, Damaged: true}
}

// SessionsTitled lists sessions whose title has the text in it, the most
// recently updated first.
func (Sessions) SessionsTitled(q db.Queryer, text string, limit int) ([]session.Session, error) {
	pattern := "%" + strings.NewReplacer(`\`, `\\`, `%`, `\%`, `_`, `\_`).Replace(strings.ToLower(text)) + "%"
	out, err := collect(q, scanSession,
		`SELECT `+sessionColumns+` FROM sessions WHERE `+lowerFunction+`(title) LIKE ? ESCAPE '\' ORDER BY updated_at DESC, id DESC LIMIT ?`, pattern, pageSize(limit))
	if err != nil {
		return nil, fmt.Errorf("search titles: %w", err)
	}
	return out, nil
}

// What of a message a search shows, in runes: enough to know it again.
const (
	excerptBefore = 50
	excerptAfter  = 190
)

// excerpt cuts out of a text where the first of the words stands, on one line.
// A word that the index found in another spelling (é for e) leaves the beginning.
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

// firstOf returns where the first of the words begins, in runes; 0 if none does.
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
