package store

import (
	"errors"
	"math"
	"time"

	"lilac/internal/core/account"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

// AccountShares groups the tables of who may do what in which conversation.
type AccountShares struct{}

// RightOf implements [account.ShareTable].
func (AccountShares) RightOf(q db.Queryer, sessionID, personID string) (r account.Right, err error) {
	err = q.QueryRow(`SELECT access FROM account_shares WHERE session_id = ? AND person_id = ?`, sessionID, personID).Scan(&r)
	if errors.Is(err, db.ErrNoRows) {
		return account.None, nil
	}
	return r, wrap("read right", err)
}

// SaveShare implements [account.ShareTable].
func (AccountShares) SaveShare(tx *db.Tx, s account.Share) error {
	_, err := tx.Exec(`INSERT INTO account_shares (session_id, person_id, access, link, created_at) VALUES (?, ?, ?, ?, ?)
		ON CONFLICT (session_id, person_id) DO UPDATE SET access = excluded.access, link = excluded.link`, s.SessionID, s.PersonID, s.Right, s.Link, s.CreatedAt)
	return wrap("save share", err)
}

// DropShare implements [account.ShareTable].
func (AccountShares) DropShare(tx *db.Tx, sessionID, personID string) error {
	done, err := changed(tx.Exec(`DELETE FROM account_shares WHERE session_id = ? AND person_id = ?`, sessionID, personID))
	if err == nil && !done {
		return fault.New(fault.NotFound, "The conversation is not shared with %q.", personID)
	}
	return wrap("drop share", err)
}

// Shares implements [account.ShareTable].
func (AccountShares) Shares(q db.Queryer, sessionID string) ([]account.Share, error) {
	out, err := collect(q, func(r scanner) (s account.Share, err error) {
		return s, r.Scan(&s.SessionID, &s.PersonID, &s.Name, &s.Right, &s.Link, &s.CreatedAt)
	}, `SELECT s.session_id, s.person_id, p.name, s.access, s.link, s.created_at FROM account_shares s JOIN account_people p ON p.id = s.person_id
		WHERE s.session_id = ? ORDER BY CASE s.access WHEN 'own' THEN 0 ELSE 1 END, p.name, p.id`, sessionID)
	return out, wrap("list shares", err)
}

const linkColumns = `id, session_id, access, created_by, created_at, expires_at`

func scanLink(r scanner) (l account.Link, err error) {
	return l, r.Scan(&l.ID, &l.SessionID, &l.Right, &l.CreatedBy, &l.CreatedAt, &l.ExpiresAt)
}

// AddLink implements [account.ShareTable]. It deletes those that have expired; the people who
// came through them stay.
func (AccountShares) AddLink(tx *db.Tx, l account.Link, hash []byte) error {
	if _, err := tx.Exec(`DELETE FROM account_links WHERE expires_at <= ?`, l.CreatedAt); err != nil {
		return wrap("delete links", err)
	}
	_, err := tx.Exec(`INSERT INTO account_links (hash, `+linkColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		hash, l.ID, l.SessionID, l.Right, l.CreatedBy, l.CreatedAt, l.ExpiresAt)
	return wrap("add link", err)
}

// LinkOf implements [account.ShareTable].
func (AccountShares) LinkOf(q db.Queryer, hash []byte) (account.Link, error) {
	l, err := scanLink(q.QueryRow(`SELECT `+linkColumns+` FROM account_links WHERE hash = ?`, hash))
	return l, wrap("read link", notFound(err, "There is no such link."))
}

// Links implements [account.ShareTable].
func (AccountShares) Links(q db.Queryer, sessionID string, now int64) ([]account.Link, error) {
	out, err := collect(q, scanLink, `SELECT `+linkColumns+` FROM account_links WHERE session_id = ? AND expires_at > ? ORDER BY created_at DESC, id`, sessionID, now)
	return out, wrap("list links", err)
}

// DropLink implements [account.ShareTable].
func (AccountShares) DropLink(tx *db.Tx, sessionID, id string) error {
	if err := dropOne(tx, "link", id, `DELETE FROM account_links WHERE session_id = ? AND id = ?`, sessionID, id); err != nil {
		return err
	}
	_, err := tx.Exec(`DELETE FROM account_shares WHERE session_id = ? AND link = ?`, sessionID, id)
	return wrap("drop shares of link", err)
}

// AccountLog is the table of what people did.
type AccountLog struct{}

// accountLogTrimBatch is the maximum number of actions that one TrimActions deletes, so that it
// holds the writer only briefly.
const accountLogTrimBatch = 1000

// AddAction implements [account.LogTable].
func (AccountLog) AddAction(tx *db.Tx, a account.Action) error {
	_, err := tx.Exec(`INSERT INTO account_log (at, person_id, kind, session_id, subject, detail) VALUES (?, ?, ?, ?, ?, ?)`,
		a.At, a.PersonID, a.Kind, a.SessionID, a.Subject, a.Detail)
	return wrap("record action", err)
}

// Actions implements [account.LogTable].
func (AccountLog) Actions(q db.Queryer, limit int, before int64) ([]account.Action, error) {
	if before <= 0 {
		before = math.MaxInt64
	}
	out, err := collect(q, func(r scanner) (a account.Action, err error) {
		return a, r.Scan(&a.ID, &a.At, &a.PersonID, &a.Kind, &a.SessionID, &a.Subject, &a.Detail)
	}, `SELECT row, at, person_id, kind, session_id, subject, detail FROM account_log WHERE row < ? ORDER BY row DESC LIMIT ?`, before, pageSize(limit))
	return out, wrap("list actions", err)
}

// TrimActions deletes actions from before a time, at most accountLogTrimBatch. Call it again
// while more is true.
func (AccountLog) TrimActions(tx *db.Tx, before time.Time) (more bool, err error) {
	n, err := affected(tx.Exec(`DELETE FROM account_log WHERE row IN (SELECT row FROM account_log WHERE at < ? ORDER BY at LIMIT ?)`, before.UnixMilli(), accountLogTrimBatch))
	return n == accountLogTrimBatch, wrap("trim actions", err)
}

// AccountTables are the tables of package account.
func AccountTables() account.Tables {
	return account.Tables{People: AccountPeople{}, Secrets: AccountSecrets{}, Shares: AccountShares{}, Log: AccountLog{}}
}
