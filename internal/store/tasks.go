package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/core/task"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
)

// tasksMigration creates the table of background tasks. The column json holds the task; the
// other columns only serve to find rows.
var tasksMigration = db.Migration{Name: "tasks.0001-tasks", SQL: `
CREATE TABLE tasks (
	id            TEXT PRIMARY KEY,
	key           TEXT NOT NULL,
	session_id    TEXT NOT NULL,
	child_session TEXT NOT NULL,
	running       INTEGER NOT NULL,
	created_at    INTEGER NOT NULL,
	ended_at      INTEGER NOT NULL,
	json          BLOB NOT NULL,
	checksum      INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX tasks_key ON tasks (key) WHERE key <> '';
CREATE INDEX tasks_session ON tasks (session_id, created_at, id);
CREATE INDEX tasks_created ON tasks (created_at, id);
CREATE UNIQUE INDEX tasks_child ON tasks (child_session) WHERE child_session <> '';
CREATE INDEX tasks_running ON tasks (created_at, id) WHERE running = 1;
CREATE INDEX tasks_ended ON tasks (ended_at) WHERE running = 0;
`}

// tasksTrimBatch is the maximum number of tasks, and of sessions of sub-agents, that one
// call of [Tasks.TrimTasks] deletes, so that it holds the writer only briefly.
const tasksTrimBatch = 20

// entryTask is the kind of the journal entry that records that a request started a
// background task.
const entryTask = "task"

// The kinds of journal entries that record progress of a request; see package session.
const (
	entryModel     = "model"
	entryToolStart = "tool_start"
)

// startedTask is the data of a journal entry of the kind entryTask.
type startedTask struct {
	TaskID      string    `json:"taskId"`
	Kind        task.Kind `json:"kind"`
	Description string    `json:"description"`
}

const taskColumns = `id, key, session_id, child_session, running, created_at, ended_at, json`

// taskValues returns the columns of a task in the order of taskColumns.
func taskValues(t task.Task, data []byte) []any {
	return []any{t.ID, t.Key, t.SessionID, t.ChildSession, t.State == task.Running, t.CreatedAt, t.EndedAt, data}
}

func scanTask(row scanner) (t task.Task, err error) {
	var c struct {
		id, key, session, child string
		running, created, ended int64
		data                    []byte
		checksum                int64
	}
	if err := row.Scan(&c.id, &c.key, &c.session, &c.child, &c.running, &c.created, &c.ended, &c.data, &c.checksum); err != nil {
		return t, err
	}
	t.ID = c.id
	err = decodeRow(taskTable, c.checksum, c.data, &t, c.id, c.key, c.session, c.child, c.running, c.created, c.ended, c.data)
	return t, err
}

var scanTaskOrDamaged = orDamaged(scanTask, func(t task.Task, why string) task.Task {
	return task.Task{ID: t.ID, State: task.Damaged, Reason: why}
})

// Tasks is the table of background tasks.
type Tasks struct{}

// AddTask inserts a task and records the start in the journal of its request.
func (Tasks) AddTask(tx *db.Tx, t task.Task) error {
	data, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode task: %w", err)
	}
	values := taskValues(t, data)
	_, err = tx.Exec(`INSERT INTO tasks (`+taskColumns+`, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, append(values, rowChecksum(values...))...)
	if err != nil || t.RequestID == "" {
		return wrap("add task", err)
	}
	return Journal{}.Record(tx, t.RequestID, session.Entry{
		At: tx.Now().UnixMilli(), Kind: entryTask, Data: startedTask{t.ID, t.Kind, t.Description},
	})
}

// SaveTask updates the columns that can change after a task was added.
func (Tasks) SaveTask(tx *db.Tx, t task.Task) error {
	data, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("encode task: %w", err)
	}
	_, err = tx.Exec(`UPDATE tasks SET running = ?, ended_at = ?, json = ?, checksum = ? WHERE id = ?`,
		t.State == task.Running, t.EndedAt, data, rowChecksum(taskValues(t, data)...), t.ID)
	return wrap("save task", err)
}

const selectTask = `SELECT ` + taskColumns + `, checksum FROM tasks WHERE `

// Task returns the task with an id.
func (Tasks) Task(q db.Queryer, id string) (task.Task, error) {
	t, err := scanTask(q.QueryRow(selectTask+`id = ?`, id))
	return t, wrap("read task", notFound(err, "There is no background task %q.", id))
}

// TaskByKey returns the task that was started under an idempotency key.
func (Tasks) TaskByKey(q db.Queryer, key string) (task.Task, error) {
	t, err := scanTask(q.QueryRow(selectTask+`key = ? AND key <> ''`, key))
	return t, wrap("read task", notFound(err, "Nothing was started under the key %q.", key))
}

// TaskByChild returns the task of the sub-agent with a session.
func (Tasks) TaskByChild(q db.Queryer, sessionID string) (task.Task, error) {
	t, err := scanTask(q.QueryRow(selectTask+`child_session = ? AND child_session <> ''`, sessionID))
	return t, wrap("read task", notFound(err, "The session %q is not that of a sub-agent.", sessionID))
}

// RunningTasks returns the running tasks of a session, or of all sessions if sessionID is
// empty, the oldest first. It skips damaged rows.
func (Tasks) RunningTasks(q db.Queryer, sessionID string) ([]task.Task, error) {
	out, err := collectReadable(q, scanTask, selectTask+`running = 1 AND (?1 = '' OR session_id = ?1) ORDER BY created_at, id`, sessionID)
	return out, wrap("list running tasks", err)
}

// Tasks returns a page of tasks of a session, or of all sessions if sessionID is empty, the
// newest first. The page starts after before, which is a task id or a [session.PageToken].
// A damaged row appears as a task in the state [task.Damaged].
func (Tasks) Tasks(q db.Queryer, sessionID string, limit int, before string) ([]task.Task, error) {
	query, args := selectTask+`id <> ''`, []any{}
	if sessionID != "" {
		query += ` AND session_id = ?`
		args = append(args, sessionID)
	}
	if before != "" {
		at, id, err := pagePosition(q, "tasks", before)
		if err != nil {
			return nil, fmt.Errorf("read task: %w", notFound(err, "There is no background task %q.", before))
		}
		query += ` AND (created_at, id) < (?, ?)`
		args = append(args, at, id)
	}
	out, err := collect(q, scanTaskOrDamaged, query+` ORDER BY created_at DESC, id DESC LIMIT ?`, append(args, pageSize(limit))...)
	return out, wrap("list tasks", err)
}

// sessionUnused is a condition on a session s: it has not been updated since ?1, and has no
// running or queued request, no accepted message and no running task.
const sessionUnused = `(s.updated_at < ?1
	AND NOT EXISTS (SELECT 1 FROM session_state WHERE session_id = s.id AND unfinished = 1)
	AND NOT EXISTS (SELECT 1 FROM session_accepted WHERE session_id = s.id)
	AND NOT EXISTS (SELECT 1 FROM tasks WHERE session_id = s.id AND running = 1))`

// TrimTasks deletes tasks that ended before a time, and unused sessions of sub-agents
// without a task, at most tasksTrimBatch of each. Call it again while more is true. It
// keeps a task while the session of its sub-agent is in use, because clients find the
// session through the task.
func (Tasks) TrimTasks(tx *db.Tx, before time.Time) (more bool, err error) {
	res, err := tx.Exec(`DELETE FROM tasks WHERE id IN (SELECT t.id FROM tasks t WHERE t.running = 0 AND t.ended_at < ?1
		AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = t.child_session AND NOT `+sessionUnused+`) ORDER BY t.ended_at LIMIT ?2)`,
		before.UnixMilli(), tasksTrimBatch)
	if err != nil {
		return false, fmt.Errorf("trim tasks: %w", err)
	}
	n, err := res.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("count trimmed tasks: %w", err)
	}
	// The ids of these sessions share a prefix, so that this is a range scan of the primary key.
	left, err := collect(tx, scanID, `SELECT s.id FROM sessions s WHERE s.id >= '`+task.SessionPrefix+`' AND s.id < '`+task.SessionPrefix+`~' AND s.client = '`+task.Client+`'
		AND NOT EXISTS (SELECT 1 FROM tasks WHERE child_session = s.id AND child_session <> '') AND `+sessionUnused+` ORDER BY s.id LIMIT ?2`,
		before.UnixMilli(), tasksTrimBatch)
	if err != nil {
		return false, fmt.Errorf("list sessions that no task knows: %w", err)
	}
	for _, id := range left {
		if err := deleteSession(tx, id); err != nil {
			return false, err
		}
	}
	return n == tasksTrimBatch || len(left) == tasksTrimBatch, nil
}

// AnswersIn returns the texts of the agent's messages in the newest page of a session's
// history, oldest first.
func (History) AnswersIn(q db.Queryer, sessionID string) ([]string, error) {
	history, err := History{}.Messages(q, sessionID, 0, "")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, m := range history {
		if text := m.Message.Text(); m.Message.Role == chat.Assistant && text != "" {
			out = append(out, text)
		}
	}
	return out, nil
}

// LastAnswer returns the text of the agent's last message in a request, or "".
func (History) LastAnswer(q db.Queryer, sessionID, requestID string) (string, error) {
	history, err := History{}.Messages(q, sessionID, 0, "")
	if err != nil {
		return "", err
	}
	for i := len(history) - 1; i >= 0; i-- {
		m := history[i]
		if text := m.Message.Text(); m.RequestID == requestID && m.Message.Role == chat.Assistant && text != "" {
			return text, nil
		}
	}
	return "", nil
}

// ProgressOf returns the progress of a request. Its last line is the newest tool call or
// text of the model. A request without a journal has the zero progress.
func (Journal) ProgressOf(q db.Queryer, requestID string) (w task.Progress, err error) {
	entries, err := Journal{}.Journal(q, requestID)
	if err != nil {
		return w, err
	}
	for _, e := range entries {
		w.Steps = max(w.Steps, e.Step)
		var did struct {
			Display string       `json:"display"`
			Message chat.Message `json:"message"`
		}
		if e.Kind != entryModel && e.Kind != entryToolStart {
			continue
		}
		if err := json.Unmarshal(e.Data, &did); err != nil {
			return w, fmt.Errorf("decode journal entry %d: %w", e.Seq, err)
		}
		if line := did.Display + did.Message.Text(); line != "" {
			w.LastLine = line
		}
	}
	w.Amount = int64(len(entries))
	return w, nil
}

// Questions returns the open questions of the sub-agents that a session has started, the oldest
// task first.
func (Tasks) Questions(q db.Queryer, sessionID string) ([]session.TaskQuestion, error) {
	running, err := Tasks{}.RunningTasks(q, sessionID)
	if err != nil {
		return nil, err
	}
	var out []session.TaskQuestion
	for _, t := range running {
		if t.ChildSession == "" {
			continue
		}
		s, err := Sessions{}.Session(q, t.ChildSession)
		if fault.KindOf(err) == fault.NotFound {
			continue // it has not begun
		}
		if err != nil {
			return nil, err
		}
		if s.Paused != nil {
			out = append(out, session.TaskQuestion{TaskID: t.ID, Description: t.Description, RequestID: s.ActiveRequest, Paused: s.Paused})
		}
	}
	return out, nil
}

// PayerOf returns the session that a sub-agent works for, whose budget it uses, or "" if
// sessionID is not the session of a sub-agent.
func (Tasks) PayerOf(q db.Queryer, sessionID string) (payer string, err error) {
	err = q.QueryRow(`SELECT session_id FROM tasks WHERE child_session = ? AND child_session <> ''`, sessionID).Scan(&payer)
	if errors.Is(err, db.ErrNoRows) {
		return "", nil
	}
	return payer, wrap("look up who pays", err)
}
