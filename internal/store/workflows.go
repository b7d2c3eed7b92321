package store

import (
	"encoding/json"
	"fmt"
	"time"

	"lilac/internal/core/workflow"
	"lilac/internal/engine/db"
)

// workflowsMigration creates the tables of workflows, of the waits of their tasks, and of
// held replies. Waits remain after they end, because a late reply still belongs to its
// workflow.
var workflowsMigration = db.Migration{Name: "workflows.0001-workflows", SQL: `
CREATE TABLE workflows (
	id         TEXT PRIMARY KEY,
	session_id TEXT NOT NULL,
	waiting    INTEGER NOT NULL,
	due        INTEGER NOT NULL,
	created_at INTEGER NOT NULL,
	ended_at   INTEGER NOT NULL,
	json       BLOB NOT NULL,
	checksum   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX workflows_due ON workflows (due, id) WHERE due > 0;
CREATE INDEX workflows_created ON workflows (created_at, id);
CREATE INDEX workflows_session ON workflows (session_id, created_at, id);
CREATE INDEX workflows_waiting ON workflows (session_id) WHERE waiting = 1;
CREATE INDEX workflows_ended ON workflows (ended_at) WHERE ended_at > 0;

CREATE TABLE workflow_waits (
	workflow_id TEXT NOT NULL,
	task_id     TEXT NOT NULL,
	way         TEXT NOT NULL,
	platform    TEXT NOT NULL,
	place       TEXT NOT NULL,
	message_id  TEXT NOT NULL,
	waiting     INTEGER NOT NULL,
	sending     INTEGER NOT NULL,
	PRIMARY KEY (workflow_id, task_id)
) STRICT, WITHOUT ROWID;
CREATE INDEX workflow_waits_reply ON workflow_waits (platform, place, message_id) WHERE way = 'reply';
CREATE INDEX workflow_waits_sending ON workflow_waits (platform, place) WHERE sending = 1;
CREATE INDEX workflow_waits_place ON workflow_waits (way, place, workflow_id) WHERE waiting = 1 AND way <> 'reply';

CREATE TABLE workflow_held (
	platform   TEXT NOT NULL,
	channel_id TEXT NOT NULL,
	message_id TEXT NOT NULL,
	reply_to   TEXT NOT NULL,
	PRIMARY KEY (platform, channel_id, message_id)
) STRICT, WITHOUT ROWID;
`}

// workflowTrimBatch is the maximum number of workflows that one call of
// [Workflows.TrimWorkflows] deletes, so that it holds the writer only briefly.
const workflowTrimBatch = 500

func scanWorkflow(r scanner) (w workflow.Workflow, err error) {
	var id, session string
	var waiting, due, created, ended, checksum int64
	var data []byte
	if err := r.Scan(&id, &session, &waiting, &due, &created, &ended, &data, &checksum); err != nil {
		return w, err
	}
	w.ID = id
	err = decodeRow(workflowTable, checksum, data, &w, id, session, waiting, due, created, ended, data)
	return w, err
}

var scanWorkflowOrDamaged = orDamaged(scanWorkflow, func(w workflow.Workflow, why string) workflow.Workflow {
	return workflow.Workflow{ID: w.ID, State: workflow.Damaged, Detail: why}
})

func workflowColumns() string { return workflowTable.list() + ", checksum" }

// Workflows is the table of workflows.
type Workflows struct{}

// Workflow implements [workflow.Table].
func (Workflows) Workflow(q db.Queryer, id string) (workflow.Workflow, error) {
	w, err := scanWorkflow(q.QueryRow(`SELECT `+workflowColumns()+` FROM workflows WHERE id = ?`, id))
	return w, wrap("read workflow", notFound(err, "There is no workflow %s.", id))
}

// SaveWorkflow implements [workflow.Table].
func (Workflows) SaveWorkflow(tx *db.Tx, w workflow.Workflow) error {
	data, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("encode workflow %s: %w", w.ID, err)
	}
	waiting := int64(0)
	if w.State == workflow.Waiting {
		waiting = 1
	}
	values := []any{w.ID, w.Origin.SessionID, waiting, w.Due(), w.CreatedAt, w.EndedAt, data}
	_, err = tx.Exec(`INSERT INTO workflows (`+workflowColumns()+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET session_id = excluded.session_id, waiting = excluded.waiting, due = excluded.due, created_at = excluded.created_at,
		ended_at = excluded.ended_at, json = excluded.json, checksum = excluded.checksum`, append(values, rowChecksum(values...))...)
	if err != nil {
		return fmt.Errorf("save workflow: %w", err)
	}
	if w.State == "" {
		return nil // the tasks of a workflow start to wait when its creation completes
	}
	for _, t := range w.Tasks {
		if err := saveWait(tx, w, t); err != nil {
			return fmt.Errorf("save what task %s waits for: %w", t.ID, err)
		}
	}
	return nil
}

func saveWait(tx *db.Tx, w workflow.Workflow, t workflow.Task) error {
	place := t.Wait.ChannelID
	switch t.Wait.Kind {
	case workflow.ForMoment, workflow.BySchedule:
		return nil
	case workflow.ForEvent:
		place = t.Wait.SessionID
	}
	_, err := tx.Exec(`INSERT INTO workflow_waits (workflow_id, task_id, way, platform, place, message_id, waiting, sending) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (workflow_id, task_id) DO UPDATE SET message_id = excluded.message_id, waiting = excluded.waiting, sending = excluded.sending`,
		w.ID, t.ID, string(t.Wait.Kind), t.Wait.Platform, place, t.Wait.MessageID, t.State == workflow.Waiting, t.Sending)
	return err
}

// Workflows implements [workflow.Table].
func (Workflows) Workflows(q db.Queryer, sessionID string, waiting bool, limit int, before string) ([]workflow.Workflow, error) {
	at, id := int64(1)<<62, ""
	if before != "" {
		var err error
		if at, id, err = pagePosition(q, "workflows", before); err != nil {
			return nil, fmt.Errorf("read workflow: %w", notFound(err, "There is no workflow %s.", before))
		}
	}
	out, err := collect(q, scanWorkflowOrDamaged, `SELECT `+workflowColumns()+` FROM workflows WHERE (?1 = '' OR session_id = ?1) AND (?2 = 0 OR waiting = 1) AND (created_at, id) < (?3, ?4)
		ORDER BY created_at DESC, id DESC LIMIT ?5`, sessionID, waiting, at, id, pageSize(limit))
	return out, wrap("list workflows", err)
}

// CountWaiting implements [workflow.Table].
func (Workflows) CountWaiting(q db.Queryer, sessionID string) (inSession, inAll int, err error) {
	err = q.QueryRow(`SELECT COUNT(*) FILTER (WHERE session_id = ?), COUNT(*) FROM workflows WHERE waiting = 1`, sessionID).Scan(&inSession, &inAll)
	return inSession, inAll, wrap("count workflows", err)
}

// DueWorkflows implements [workflow.Table].
func (Workflows) DueWorkflows(q db.Queryer, now time.Time, limit int) ([]string, error) {
	out, err := collect(q, scanID, `SELECT id FROM workflows WHERE due > 0 AND due <= ? ORDER BY due, id LIMIT ?`, now.UnixMilli(), limit)
	return out, wrap("list due workflows", err)
}

// NextDue implements [workflow.Table].
func (Workflows) NextDue(q db.Queryer) (due int64, err error) {
	err = q.QueryRow(`SELECT COALESCE(MIN(due), 0) FROM workflows WHERE due > 0`).Scan(&due)
	return due, wrap("read what is due next", err)
}

// WorkflowWaits is the index that finds workflows by what their tasks wait for.
// [Workflows.SaveWorkflow] maintains it.
type WorkflowWaits struct{}

// WhoseReply implements [workflow.Table].
func (WorkflowWaits) WhoseReply(q db.Queryer, platform, channelID, messageID string) ([]string, error) {
	out, err := collect(q, scanID, `SELECT DISTINCT workflow_id FROM workflow_waits
		WHERE way = 'reply' AND platform = ? AND place = ? AND message_id = ? AND message_id <> '' ORDER BY workflow_id`, platform, channelID, messageID)
	return out, wrap("look up whose reply it is", err)
}

// AwaitsSending implements [workflow.Table].
func (WorkflowWaits) AwaitsSending(q db.Queryer, platform, channelID string) (there bool, err error) {
	err = q.QueryRow(`SELECT EXISTS (SELECT 1 FROM workflow_waits WHERE sending = 1 AND platform = ? AND place = ?)`,
		platform, channelID).Scan(&there)
	return there, wrap("look up what is being sent", err)
}

// WaitingForMessage implements [workflow.Table].
func (WorkflowWaits) WaitingForMessage(q db.Queryer, sessionID string) ([]string, error) {
	return workflowsWaiting(q, workflow.ForMessage, sessionID)
}

// WaitingForEvents implements [workflow.Table].
func (WorkflowWaits) WaitingForEvents(q db.Queryer, sessionID string) ([]string, error) {
	return workflowsWaiting(q, workflow.ForEvent, sessionID)
}

// workflowsWaiting returns the workflows with tasks that wait in a given way, in one place
// or in all places. The way is a literal in the statement: if it were a parameter, SQLite
// would prepare the statement again for each call, because a partial index depends on it.
func workflowsWaiting(q db.Queryer, way workflow.WaitKind, place string) ([]string, error) {
	out, err := collect(q, scanID, `SELECT DISTINCT workflow_id FROM workflow_waits
		WHERE waiting = 1 AND way <> 'reply' AND way = '`+string(way)+`' AND (?1 = '' OR place = ?1) ORDER BY workflow_id`, place)
	return out, wrap("list who waits", err)
}

// HeldReplies is the table of replies that may belong to a workflow whose message is still
// being sent. They are held until the id of that message is known.
type HeldReplies struct{}

// HoldReply implements [workflow.Table].
func (HeldReplies) HoldReply(tx *db.Tx, h workflow.HeldReply) error {
	_, err := tx.Exec(`INSERT INTO workflow_held (platform, channel_id, message_id, reply_to) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		h.Platform, h.ChannelID, h.MessageID, h.ReplyTo)
	return wrap("hold a reply", err)
}

// HeldReplies implements [workflow.Table].
func (HeldReplies) HeldReplies(q db.Queryer, platform, channelID string) ([]workflow.HeldReply, error) {
	out, err := collect(q, func(r scanner) (h workflow.HeldReply, err error) {
		return h, r.Scan(&h.Platform, &h.ChannelID, &h.MessageID, &h.ReplyTo)
	}, `SELECT platform, channel_id, message_id, reply_to FROM workflow_held WHERE platform = ? AND channel_id = ? ORDER BY length(message_id), message_id`, platform, channelID)
	return out, wrap("list replies that are held", err)
}

// DropHeld implements [workflow.Table].
func (HeldReplies) DropHeld(tx *db.Tx, h workflow.HeldReply) error {
	_, err := tx.Exec(`DELETE FROM workflow_held WHERE platform = ? AND channel_id = ? AND message_id = ?`, h.Platform, h.ChannelID, h.MessageID)
	return wrap("let go a reply", err)
}

// TrimWorkflows deletes workflows that ended before a time, at most workflowTrimBatch. Call
// it again while more is true.
func (Workflows) TrimWorkflows(tx *db.Tx, before time.Time) (more bool, err error) {
	ids, err := collect(tx, scanID, `SELECT id FROM workflows WHERE ended_at > 0 AND ended_at < ? ORDER BY ended_at LIMIT ?`, before.UnixMilli(), workflowTrimBatch)
	if err != nil {
		return false, fmt.Errorf("list ended workflows: %w", err)
	}
	for _, id := range ids {
		for _, statement := range []string{`DELETE FROM workflow_waits WHERE workflow_id = ?`, `DELETE FROM workflows WHERE id = ?`} {
			if _, err := tx.Exec(statement, id); err != nil {
				return false, fmt.Errorf("forget workflow %s: %w", id, err)
			}
		}
	}
	return len(ids) == workflowTrimBatch, nil
}
