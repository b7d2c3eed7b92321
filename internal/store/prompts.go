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

// promptToolsMigration stores the tools of prefixes once. A row that an older version wrote has them
// in its prefix.
var promptToolsMigration = db.Migration{Name: "store.0045-prompt-tools", SQL: `
CREATE TABLE prompt_tools (
	id       TEXT PRIMARY KEY,
	json     BLOB NOT NULL,
	checksum INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
ALTER TABLE prompt_prefixes ADD COLUMN tools TEXT NOT NULL DEFAULT '';
CREATE INDEX prompt_prefixes_tools ON prompt_prefixes (tools);
`}

// Prompts is the table of what the model was sent beyond the history of each session. The
// prefixes are in a table of their own, because most sessions share them, and their tools in
// another, because prefixes of different instructions share those.
type Prompts struct{}

var (
	promptRows     = newDocuments[session.Prompt]("prompts", "session_id", "session_id", "prefix")
	prefixRows     = newDocuments[session.Prefix]("prompt_prefixes", "id", "id", "tools")
	promptToolRows = newDocuments[session.PrefixTools]("prompt_tools", "id", "id")
)

// Prompt implements [session.PromptTable].
func (Prompts) Prompt(q db.Queryer, sessionID string) (session.Prompt, bool, error) {
	return found(promptRows.one(q, `session_id = ?`, sessionID))
}

// Prefix implements [session.PromptTable].
func (Prompts) Prefix(q db.Queryer, id string) (session.Prefix, bool, error) {
	prefix, err := prefixRows.one(q, `id = ?`, id)
	if err == nil && prefix.ToolsID != "" {
		prefix.Tools, err = promptToolRows.one(q, `id = ?`, prefix.ToolsID)
	}
	return found(prefix, err)
}

func found[T any](v T, err error) (T, bool, error) {
	if errors.Is(err, db.ErrNoRows) {
		return v, false, nil
	}
	return v, err == nil, wrap("read prompt", err)
}

// SavePrompt implements [session.PromptTable].
func (Prompts) SavePrompt(tx *db.Tx, sessionID string, p session.Prompt, prefix session.Prefix) error {
	tx.Ahead(func(tx *db.Tx) {
		_, _ = prefixOf(tx, sessionID)
		_, _ = prefixRows.has(tx, p.Prefix)
		_, _ = promptToolRows.has(tx, prefix.ToolsID)
	})
	before, err := prefixOf(tx, sessionID)
	if err != nil {
		return err
	}
	if prefix.ToolsID != "" { // otherwise, an older version wrote it, and its row has the tools
		if err := promptToolRows.ensure(tx, prefix.ToolsID, prefix.Tools); err != nil {
			return wrap("save tools of prefix", err)
		}
		prefix.Tools = nil
	}
	if err := prefixRows.ensure(tx, p.Prefix, prefix, prefix.ToolsID); err != nil {
		return wrap("save prefix", err)
	}
	if err := promptRows.put(tx, sessionID, p, p.Prefix); err != nil {
		return wrap("save prompt", err)
	}
	if before == p.Prefix {
		return nil
	}
	return deleteUnusedPrefix(tx, before)
}

// deletePrompt deletes the prompt of a session, and its prefix unless another session needs it.
func deletePrompt(tx *db.Tx, sessionID string) error {
	prefix, err := prefixOf(tx, sessionID)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(`DELETE FROM prompts WHERE session_id = ?`, sessionID); err != nil {
		return wrap("delete prompt", err)
	}
	return deleteUnusedPrefix(tx, prefix)
}

// prefixOf returns the id of the prefix of a session's prompt, or an empty string.
func prefixOf(q db.Queryer, sessionID string) (id string, err error) {
	err = q.QueryRow(`SELECT prefix FROM prompts WHERE session_id = ?`, sessionID).Scan(&id)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return id, wrap("read prefix of prompt", err)
}

// deleteUnusedPrefix deletes a prefix and its tools, unless something needs them. id may be empty.
func deleteUnusedPrefix(tx *db.Tx, id string) error {
	if id == "" {
		return nil
	}
	_, err := tx.Exec(`DELETE FROM prompt_prefixes WHERE id = ? AND NOT EXISTS (SELECT 1 FROM prompts WHERE prompts.prefix = prompt_prefixes.id)`, id)
	if err != nil {
		return wrap("delete prefix", err)
	}
	_, err = tx.Exec(`DELETE FROM prompt_tools WHERE NOT EXISTS (SELECT 1 FROM prompt_prefixes WHERE prompt_prefixes.tools = prompt_tools.id)`)
	return wrap("delete tools of prefix", err)
}
