package store

import (
	"encoding/json"
	"errors"
	"fmt"

	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/fault"
)

const sessionColumns = `id, client, title, created_at, updated_at, state, active_request, paused, choice, branch_of, branch_at, files_of, pinned, archived, folder`

func scanSession(row scanner) (s session.Session, err error) {
	var paused, choice []byte
	var branch session.Branch
	var pinned, archived int64
	err = row.Scan(&s.ID, &s.Client, &s.Title, &s.CreatedAt, &s.UpdatedAt, &s.State, &s.ActiveRequest, &paused, &choice, &branch.Of, &branch.At, &branch.FilesOf,
		&pinned, &archived, &s.Folder)
	if err != nil {
		return s, err
	}
	s.Pinned, s.Archived = pinned == 1, archived == 1
	if branch.Of != "" {
		s.Branch = &branch
	}
	if len(choice) > 0 {
		if err := json.Unmarshal(choice, &s.Choice); err != nil {
			return s, fmt.Errorf("decode choice: %w", err)
		}
	}
	if len(paused) == 0 {
		return s, nil
	}
	return s, wrap("decode pause", json.Unmarshal(paused, &s.Paused))
}

// Sessions is the table of sessions, that is, of conversations.
type Sessions struct{}

// Session returns one session.
func (Sessions) Session(q db.Queryer, id string) (session.Session, error) {
	out, err := scanSession(q.QueryRow(`SELECT `+sessionColumns+` FROM sessions WHERE id = ?`, id))
	if err != nil {
		return out, fmt.Errorf("read session: %w", notFound(err, "There is no session %q.", id))
	}
	return out, nil
}

// Sessions returns a page of sessions, the most recently updated first. The page starts
// after before, which is a session id or a [session.PageToken]; if before is empty, it
// starts at the newest session. The list omits the sessions of sub-agents, which clients
// find through their tasks.
func (Sessions) Sessions(q db.Queryer, filter session.ListFilter, limit int, before string) ([]session.Session, error) {
	return listSessions(q, "", filter, limit, before)
}

// listSessions lists sessions that a person may see; "" means all of them.
func listSessions(q db.Queryer, person string, filter session.ListFilter, limit int, before string) ([]session.Session, error) {
	query, args := `SELECT `+sessionColumns+` FROM sessions WHERE client <> '`+task.Client+`'`+listed[filter], []any{}
	if person != "" {
		query += ` AND id` + seenBy
		args = append(args, person)
	}
	if before != "" {
		at, id, ok := session.ParsePageToken(before)
		if !ok {
			cursor, err := Sessions{}.Session(q, before)
			if err != nil {
				return nil, err
			}
			if err := checkSeen(q, person, cursor.ID); err != nil {
				return nil, err
			}
			at, id = cursor.UpdatedAt, cursor.ID
		}
		query += ` AND (updated_at, id) < (?, ?)`
		args = append(args, at, id)
	}
	query += ` ORDER BY updated_at DESC, id DESC LIMIT ?`
	out, err := collect(q, scanSession, query, append(args, pageSize(limit))...)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	return out, nil
}

// listed has the condition of each filter.
var listed = map[session.ListFilter]string{
	session.ListActive: ` AND archived = 0`, session.ListPinned: ` AND archived = 0 AND pinned = 1`, session.ListArchived: ` AND archived = 1`,
}

// SessionsWithout returns sessions, the most recently updated first. It omits the sessions
// of the given clients and of sub-agents.
func (Sessions) SessionsWithout(q db.Queryer, clients []string, limit int) ([]session.Session, error) {
	left, err := jsonList(append([]string{task.Client}, clients...))
	if err != nil {
		return nil, err
	}
	out, err := collect(q, scanSession, `SELECT `+sessionColumns+` FROM sessions
		WHERE client NOT IN (SELECT value FROM json_each(?)) ORDER BY updated_at DESC, id DESC LIMIT ?`, left, pageSize(limit))
	return out, wrap("list sessions", err)
}

// CreateSession inserts an idle session.
func (Sessions) CreateSession(tx *db.Tx, v session.Session) error {
	n, err := tx.ExecExpecting(1, `INSERT INTO sessions (id, client, title, created_at, updated_at) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		v.ID, v.Client, v.Title, v.CreatedAt, v.UpdatedAt)
	if err != nil {
		return fmt.Errorf("create session: %w", err)
	}
	if n == 0 {
		return fault.New(fault.Conflict, "There is a session %q already.", v.ID)
	}
	return nil
}

// SetTitle changes the title of a session.
func (Sessions) SetTitle(tx *db.Tx, id, title string) error {
	if _, err := tx.Exec(`UPDATE sessions SET title = ?, updated_at = ? WHERE id = ?`, title, tx.Now().UnixMilli(), id); err != nil {
		return fmt.Errorf("set title: %w", err)
	}
	return nil
}

// SetChoice changes what people chose for a session.
func (Sessions) SetChoice(tx *db.Tx, id string, v session.Choice) error {
	choice := ""
	if v != (session.Choice{}) {
		data, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("encode choice: %w", err)
		}
		choice = string(data)
	}
	_, err := tx.Exec(`UPDATE sessions SET choice = ?, updated_at = ? WHERE id = ?`, choice, tx.Now().UnixMilli(), id)
	return wrap("set choice", err)
}

// SetFiling changes where people find a session. It stays where it is in the order of the lists.
func (Sessions) SetFiling(tx *db.Tx, id string, v session.Filing) error {
	_, err := tx.Exec(`UPDATE sessions SET pinned = ?, archived = ?, folder = ? WHERE id = ?`, v.Pinned, v.Archived, v.Folder, id)
	return wrap("file session", err)
}

// DeleteSession deletes a session with its history, requests, tasks and workflows, and the
// sessions of its sub-agents. It returns a fault.Conflict while a request or task of the
// session runs or is queued, and while a recently accepted message is on its way to the
// session.
func (Sessions) DeleteSession(tx *db.Tx, id string) error {
	if _, err := (Sessions{}).Session(tx, id); err != nil {
		return err
	}
	if err := refuseIfAccepted(tx, id); err != nil {
		return err
	}
	running, err := Tasks{}.RunningTasks(tx, id)
	if err != nil {
		return err
	}
	if len(running) > 0 {
		return &fault.Error{Kind: fault.Conflict, Code: "session_running", Message: "A background task of this session runs. Stop it first, then delete the session."}
	}
	children, err := collect(tx, scanID,
		`SELECT child_session FROM tasks WHERE session_id = ? AND child_session <> ''`, id)
	if err != nil {
		return fmt.Errorf("list sessions of sub-agents: %w", err)
	}
	for _, one := range append(children, id) {
		if err := deleteSession(tx, one); err != nil {
			return err
		}
	}
	return nil
}

func deleteSession(tx *db.Tx, id string) error {
	state, err := SessionStates{}.State(tx, id)
	if err != nil && !db.IsDamaged(err) { // a session with a damaged state cannot run
		return err
	}
	if !state.Idle() {
		return &fault.Error{Kind: fault.Conflict, Code: "session_running", Message: "Something runs in this session. Stop it first, then delete the session."}
	}
	for _, statement := range []string{
		`DELETE FROM journal WHERE request_id IN (SELECT id FROM requests WHERE session_id = ?)`,
		`DELETE FROM requests WHERE session_id = ?`,
		`DELETE FROM history WHERE session_id = ?`,
		`DELETE FROM compactions WHERE session_id = ?`,
		`DELETE FROM conversation_starts WHERE session_id = ?`,
		`DELETE FROM session_inbox WHERE session_id = ?`,
		`DELETE FROM session_state WHERE session_id = ?`,
		`DELETE FROM usage_sessions WHERE session_id = ?`,
		`DELETE FROM rule_events WHERE session_id = ?`,
		`DELETE FROM rule_waits WHERE session_id = ?`,
		`DELETE FROM tasks WHERE session_id = ?`,
		`DELETE FROM workflow_waits WHERE workflow_id IN (SELECT id FROM workflows WHERE session_id = ?)`,
		`DELETE FROM workflows WHERE session_id = ?`,
		`DELETE FROM session_files WHERE session_id = ?`,
		`DELETE FROM router_forwarded WHERE session_id = ?`,
		`DELETE FROM account_shares WHERE session_id = ?`,
		`DELETE FROM account_links WHERE session_id = ?`,
		`DELETE FROM sessions WHERE id = ?`,
	} {
		if _, err := tx.Exec(statement, id); err != nil {
			return fmt.Errorf("delete session: %w", err)
		}
	}
	if err := deletePrompt(tx, id); err != nil {
		return err
	}
	return deleteBlobRefs(tx, ownerSession(id))
}

// SessionStates is the table of the state that the runner keeps for each session.
type SessionStates struct{}

// State returns the runner's state of a session, or the zero State if there is no row.
func (SessionStates) State(q db.Queryer, sessionID string) (out session.State, err error) {
	var data []byte
	var unfinished, checksum int64
	err = q.QueryRow(`SELECT json, unfinished, checksum FROM session_state WHERE session_id = ?`, sessionID).Scan(&data, &unfinished, &checksum)
	switch {
	case errors.Is(err, db.ErrNoRows):
		return out, nil
	case err != nil:
		return out, fmt.Errorf("read session state: %w", err)
	}
	return out, decodeRow(stateTable, checksum, data, &out, sessionID, data, unfinished)
}

// SaveState writes the runner's state of a session and copies the active request and the
// pause to the row of the session, where lists read them.
func (SessionStates) SaveState(tx *db.Tx, sessionID string, v session.State) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode session state: %w", err)
	}
	_, err = tx.Exec(`INSERT INTO session_state (session_id, json, unfinished, checksum) VALUES (?, ?, ?, ?)
		ON CONFLICT (session_id) DO UPDATE SET json = excluded.json, unfinished = excluded.unfinished, checksum = excluded.checksum`,
		sessionID, data, !v.Idle(), rowChecksum(sessionID, data, !v.Idle()))
	if err != nil {
		return fmt.Errorf("write session state: %w", err)
	}
	state, active := "idle", ""
	if v.Active != nil {
		state, active = "running", v.Active.RequestID
	}
	var paused []byte
	if p := v.OpenPause(); p != nil {
		if paused, err = json.Marshal(p); err != nil {
			return fmt.Errorf("encode pause: %w", err)
		}
	}
	if _, err := tx.Exec(`UPDATE sessions SET state = ?, active_request = ?, paused = ?, updated_at = ? WHERE id = ?`,
		state, active, string(paused), tx.Now().UnixMilli(), sessionID); err != nil {
		return fmt.Errorf("update session: %w", err)
	}
	return nil
}

// Unfinished returns the ids of the sessions with running or queued requests.
func (SessionStates) Unfinished(q db.Queryer) ([]string, error) {
	out, err := collect(q, scanID,
		`SELECT session_id FROM session_state WHERE unfinished = 1 ORDER BY session_id`)
	if err != nil {
		return nil, fmt.Errorf("list unfinished sessions: %w", err)
	}
	return out, nil
}
