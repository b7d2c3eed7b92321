package store

import (
	"errors"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
)

var promptsMigration = db.Migration{Name: "store.0011-prompts", SQL: `
CREATE TABLE prompts (
	session_id TEXT PRIMARY KEY,
	prefix     TEXT NOT NULL,
	json       BLOB NOT NULL,
	checksum   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX prompts_prefix ON prompts (prefix);
CREATE TABLE prompt_prefixes (
	id       TEXT PRIMARY KEY,
	json     BLOB NOT NULL,
	checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
`}

// Prompts is the table of what the model was sent beyond the history of each session. The
// instructions and tools are in a table of their own, because most sessions share them.
type Prompts struct{}

var (
	promptRows = newDocuments[session.Prompt]("prompts", "session_id", "session_id", "prefix")
	prefixRows = newDocuments[session.Prefix]("prompt_prefixes", "id", "id")
)

// Prompt implements [session.PromptTable].
func (Prompts) Prompt(q db.Queryer, sessionID string) (session.Prompt, bool, error) {
	return found(promptRows.one(q, `session_id = ?`, sessionID))
}

// Prefix implements [session.PromptTable].
func (Prompts) Prefix(q db.Queryer, id string) (session.Prefix, bool, error) {
	return found(prefixRows.one(q, `id = ?`, id))
}

func found[T any](v T, err error) (T, bool, error) {
	if errors.Is(err, db.ErrNoRows) {
		return v, false, nil
	}
	return v, err == nil, wrap("read prompt", err)
}

// SavePrompt implements [session.PromptTable].
func (Prompts) SavePrompt(tx *db.Tx, sessionID string, p session.Prompt, prefix session.Prefix) error {
	if err := prefixRows.ensure(tx, p.Prefix, prefix); err != nil {
		return wrap("save prefix", err)
	}
	if err := promptRows.put(tx, sessionID, p, p.Prefix); err != nil {
		return wrap("save prompt", err)
	}
	return nil
}

// deleteUnusedPrefixes deletes the prefixes that no session needs.
func deleteUnusedPrefixes(tx *db.Tx) error {
	_, err := tx.Exec(`DELETE FROM prompt_prefixes WHERE NOT EXISTS (SELECT 1 FROM prompts WHERE prompts.prefix = prompt_prefixes.id)`)
	return wrap("delete prefixes", err)
}
