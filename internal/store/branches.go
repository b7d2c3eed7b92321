package store

import (
	"fmt"
	"maps"
	"slices"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
)

var branchesMigration = db.Migration{Name: "store.0043-branches", SQL: `
ALTER TABLE sessions ADD COLUMN branch_of TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN branch_at TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN files_of TEXT NOT NULL DEFAULT '';
CREATE INDEX sessions_branch_of ON sessions (branch_of) WHERE branch_of <> '';
CREATE INDEX sessions_files_of ON sessions (files_of) WHERE files_of <> '';
`}

// maxBranch bounds the messages that a branch takes over, because they are copied in one
// transaction.
const maxBranch = 5000

// Branches are conversations that continue others from an earlier message.
type Branches struct{}

// CreateBranch inserts a session that continues its Branch.Of from the message before
// Branch.At, and returns that message. The branch has copies of what the agent still knows: the
// messages since the conversation began, the newest summary of them, and what else the model was
// sent.
func (Branches) CreateBranch(tx *db.Tx, v session.Session) (at session.HistoryMessage, err error) {
	if at, err = (History{}).Message(tx, v.Branch.Of, v.Branch.At); err != nil {
		return at, err
	}
	var begins, count int64
	if err := tx.QueryRow(beginning, v.Branch.Of).Scan(&begins); err != nil {
		return at, fmt.Errorf("read conversation start: %w", err)
	}
	if at.Seq < begins {
		return at, fault.InvalidField("before", "The message belongs to an earlier conversation, which the agent does not see any more.")
	}
	if err := tx.QueryRow(`SELECT count(*) FROM history WHERE session_id = ? AND seq >= ? AND seq < ?`, v.Branch.Of, begins, at.Seq).Scan(&count); err != nil {
		return at, fmt.Errorf("count messages: %w", err)
	}
	if count > maxBranch {
		return at, fault.New(fault.TooLarge, "%d messages precede this one; a branch takes over at most %d. Begin a new conversation.", count, maxBranch)
	}
	if err := (Sessions{}).CreateSession(tx, v); err != nil {
		return at, err
	}
	if err := (Sessions{}).SetChoice(tx, v.ID, v.Choice); err != nil {
		return at, err
	}
	if _, err := tx.Exec(`UPDATE sessions SET branch_of = ?, branch_at = ?, files_of = ? WHERE id = ?`, v.Branch.Of, v.Branch.At, v.Branch.FilesOf, v.ID); err != nil {
		return at, fmt.Errorf("record branch: %w", err)
	}
	from, err := copySummary(tx, v, begins, at.Seq)
	if err != nil {
		return at, err
	}
	same, err := copyPrompt(tx, v, from, at.Seq)
	if err != nil {
		return at, err
	}
	return at, copyMessages(tx, v, begins, at.Seq, same)
}

// copySummary copies the beginning of the conversation, and the newest summary that covers no
// message of the branch's own. It returns the number of the first message that the agent sees.
func copySummary(tx *db.Tx, v session.Session, begins, until int64) (from int64, err error) {
	if begins > 0 {
		if err := (History{}).BeginConversation(tx, v.ID, begins); err != nil {
			return 0, err
		}
	}
	summaries, err := collect(tx, scanCompaction, `SELECT session_id, seq, request_id, kept_from, created_at, json, checksum FROM compactions
		WHERE session_id = ? AND kept_from >= ? AND kept_from <= ? ORDER BY seq DESC LIMIT 1`, v.Branch.Of, begins, until)
	if err != nil || len(summaries) == 0 {
		return begins, wrap("read summary", err)
	}
	c := summaries[0]
	c.SessionID = v.ID
	return c.KeptFrom, History{}.AddCompaction(tx, c)
}

// copyPrompt copies what the model was sent besides the messages until one, so that the calls of
// the branch begin like those of the conversation: providers then read them from their caches, and
// accept the thinking. It reports whether they do.
func copyPrompt(tx *db.Tx, v session.Session, from, until int64) (same bool, err error) {
	p, known, err := Prompts{}.Prompt(tx, v.Branch.Of)
	if db.IsDamaged(err) || err == nil && (!known || p.From != from) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	notes := slices.DeleteFunc(slices.Clone(p.Notes), func(n session.PromptNote) bool { return n.Before > until })
	if len(notes) < len(p.Notes) {
		p.Day, p.Instructions, p.Tools = "", "", "" // told later; they are told again
	}
	p.Notes = notes
	maps.DeleteFunc(p.Rewritten, func(seq int64, _ chat.Message) bool { return seq >= until })
	return true, wrap("save prompt", promptRows.put(tx, v.ID, p, p.Prefix))
}

// copyMessages copies messages of a span with their numbers, on which summaries and notes depend.
func copyMessages(tx *db.Tx, v session.Session, from, until int64, thinking bool) error {
	copied, err := collect(tx, scanHistory(tx), `SELECT `+historyColumns+` FROM history WHERE session_id = ? AND seq >= ? AND seq < ? ORDER BY seq`, v.Branch.Of, from, until)
	if err != nil {
		return fmt.Errorf("read history: %w", err)
	}
	for _, m := range copied {
		if !thinking { // it is only accepted below the instructions that it was made with
			m.Message.Parts = slices.DeleteFunc(m.Message.Parts, func(p chat.Part) bool { return p.Type == chat.TypeReasoning })
		}
		if len(m.Message.Parts) == 0 {
			continue
		}
		if err := insertHistory(tx, v.ID, m, v.ID); err != nil { // the long texts of the request are deleted with its session
			return err
		}
	}
	return nil
}

func scanCompaction(r scanner) (c session.Compaction, err error) {
	var seq, checksum int64
	var data []byte
	if err := r.Scan(&c.SessionID, &seq, &c.RequestID, &c.KeptFrom, &c.CreatedAt, &data, &checksum); err != nil {
		return c, err
	}
	return c, decodeRow(compactionTable, checksum, data, &c.Summary, c.SessionID, seq, c.RequestID, c.KeptFrom, c.CreatedAt, data)
}

// BranchesOf returns the branches of a session, the newest first.
func (Branches) BranchesOf(q db.Queryer, sessionID string) ([]session.Session, error) {
	out, err := collect(q, scanSession, `SELECT `+sessionColumns+` FROM sessions WHERE branch_of = ? AND branch_of <> '' ORDER BY created_at DESC, id DESC LIMIT 100`, sessionID)
	return out, wrap("list branches", err)
}

// HasFiles reports whether a branch works in the workspace of a session.
func (Branches) HasFiles(q db.Queryer, sessionID string) (bool, error) {
	return exists(q, `SELECT 1 FROM sessions WHERE files_of = ? AND files_of <> ''`, sessionID)
}
