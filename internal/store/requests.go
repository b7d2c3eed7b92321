package store

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/engine/longtext"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/event"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

const requestColumns = `id, session_id, client, state, detail, created_at, started_at, ended_at, woken_by, steps, recoveries, usage, model, error_kind`

// requestUsage is the JSON in the column usage. The notes are part of it: a column of their own
// would change the checksums of all rows.
type requestUsage struct {
	chat.Usage
	Notes string `json:"notes,omitempty"`
}

func encodeUsage(r session.Request) ([]byte, error) {
	usage, err := json.Marshal(requestUsage{r.Usage, r.Notes})
	if err != nil {
		return nil, fmt.Errorf("encode usage: %w", err)
	}
	return usage, nil
}

func scanRequest(row scanner) (r session.Request, err error) {
	var usage []byte
	var stored requestUsage
	var checksum int64
	err = row.Scan(&r.ID, &r.SessionID, &r.Client, &r.State, &r.Detail, &r.CreatedAt, &r.StartedAt, &r.EndedAt,
		&r.WokenBy, &r.Steps, &r.Recoveries, &usage, &r.Model, &r.ErrorKind, &checksum)
	if err != nil {
		return r, err
	}
	err = decodeRow(requestTable, checksum, usage, &stored, requestValues(r, usage)...)
	r.Usage, r.Notes = stored.Usage, stored.Notes
	r.CachedShare = math.Round(r.Usage.CachedShare()*1000) / 1000
	return r, err
}

// requestValues returns the columns of a request in the order of requestColumns.
func requestValues(r session.Request, usage []byte) []any {
	return []any{
		r.ID, r.SessionID, r.Client, string(r.State), r.Detail, r.CreatedAt, r.StartedAt, r.EndedAt,
		r.WokenBy, r.Steps, r.Recoveries, usage, r.Model, string(r.ErrorKind),
	}
}

// Requests is the table of requests.
type Requests struct{}

// CreateRequest inserts a request. It fails if the id exists.
func (Requests) CreateRequest(tx *db.Tx, r session.Request) error {
	usage, err := encodeUsage(r)
	if err != nil {
		return err
	}
	values := requestValues(r, usage)
	_, err = tx.Exec(`INSERT INTO requests (`+requestColumns+`, checksum) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		append(values, rowChecksum(values...))...)
	return wrap("create request", err)
}

// SaveRequest updates the columns that can change after a request was created. It leaves
// the other columns alone, so that SQLite does not have to update two indexes.
func (Requests) SaveRequest(tx *db.Tx, r session.Request) error {
	usage, err := encodeUsage(r)
	if err != nil {
		return err
	}
	_, err = tx.Exec(`UPDATE requests SET state = ?, detail = ?, started_at = ?, ended_at = ?, steps = ?, recoveries = ?, usage = ?, model = ?, error_kind = ?, checksum = ?
		WHERE id = ?`, r.State, r.Detail, r.StartedAt, r.EndedAt, r.Steps, r.Recoveries, usage, r.Model, r.ErrorKind, rowChecksum(requestValues(r, usage)...), r.ID)
	return wrap("write request", err)
}

// Request returns one request.
func (Requests) Request(q db.Queryer, id string) (session.Request, error) {
	r, err := scanRequest(q.QueryRow(`SELECT `+requestColumns+`, checksum FROM requests WHERE id = ?`, id))
	if err != nil {
		return r, fmt.Errorf("read request: %w", notFound(err, "There is no request %q.", id))
	}
	return r, nil
}

var scanRequestOrDamaged = orDamaged(scanRequest, func(r session.Request, why string) session.Request {
	return session.Request{ID: r.ID, State: session.Damaged, Detail: why}
})

// Requests returns a page of requests of a session, or of all sessions if sessionID is
// empty, the newest first. The page starts after before, which is a request id or a
// [session.PageToken]. A damaged row appears as a request in the state [session.Damaged].
func (Requests) Requests(q db.Queryer, sessionID string, limit int, before string) ([]session.Request, error) {
	return listRequests(q, "", sessionID, limit, before)
}

// listRequests lists requests of sessions that a person may see; "" means all of them.
func listRequests(q db.Queryer, person, sessionID string, limit int, before string) ([]session.Request, error) {
	query, args := `SELECT `+requestColumns+`, checksum FROM requests WHERE id <> ''`, []any{}
	if sessionID != "" {
		query += ` AND session_id = ?`
		args = append(args, sessionID)
	}
	if person != "" {
		query += ` AND session_id` + seenBy
		args = append(args, person)
	}
	if before != "" {
		at, id, err := pagePosition(q, "requests", before)
		if err != nil {
			return nil, fmt.Errorf("read request: %w", notFound(err, "There is no request %q.", before))
		}
		query += ` AND (created_at, id) < (?, ?)`
		args = append(args, at, id)
	}
	out, err := collect(q, scanRequestOrDamaged, query+` ORDER BY created_at DESC, id DESC LIMIT ?`, append(args, pageSize(limit))...)
	return out, wrap("list requests", err)
}

// Consumed lists what the newest requests since a time (Unix milliseconds) have used, and the calls of
// models without a request, at most limit of each, newest first. It skips damaged usage.
func (Requests) Consumed(q db.Queryer, since int64, limit int) ([]session.Consumed, error) {
	scan := func(rows scanner) (*session.Consumed, error) {
		var c session.Consumed
		var usage []byte
		if err := rows.Scan(&c.CreatedAt, &c.Model, &c.Client, &c.SessionID, &c.Rule, &c.TookMs, &c.Purpose, &usage); err != nil {
			return nil, err
		}
		if json.Unmarshal(usage, &c.Usage) != nil {
			return nil, nil
		}
		return &c, nil
	}
	var out []session.Consumed
	for _, query := range []string{
		`SELECT created_at, model, client, session_id, COALESCE((SELECT rule FROM rule_runs WHERE request_id = requests.id ORDER BY id LIMIT 1), ''),
			CASE WHEN state = 'done' AND started_at > 0 THEN ended_at - started_at ELSE 0 END, '', usage
			FROM requests WHERE created_at >= ? ORDER BY created_at DESC, id DESC LIMIT ?`,
		`SELECT at, model, client, session_id, '', 0, purpose, usage FROM usage_calls WHERE at >= ? ORDER BY at DESC, id DESC LIMIT ?`,
	} {
		found, err := collect(q, scan, query, since, limit)
		if err != nil {
			return nil, wrap("list what was used", err)
		}
		for _, c := range found {
			if c != nil {
				out = append(out, *c)
			}
		}
	}
	return out, nil
}

// promptPreviewMax is the maximum length of the text that [Requests.Asked] returns, in
// runes.
const promptPreviewMax = 200

// Asked returns the beginning of the message that started a request, or "" if no message
// started it. It also returns "" if the message is damaged, so that a list of requests
// does not fail; [Requests.Story] reports the damage.
func (Requests) Asked(q db.Queryer, r session.Request) (string, error) {
	id, err := event.ParseRequestID(r.ID)
	if err != nil {
		return "", nil
	}
	m, err := Mailbox{}.Mail(q, r.SessionID, id.Specific)
	if fault.KindOf(err) == fault.NotFound || db.IsDamaged(err) {
		return "", nil
	}
	if err != nil || len(m.Messages) == 0 {
		return "", err
	}
	// The messages before the last one are context: the messages that it replies to.
	return text.TruncateRunes(m.Messages[len(m.Messages)-1].Text(), promptPreviewMax), nil
}

// Running returns the running requests of a session, or of all sessions if sessionID is
// empty. It skips damaged rows, so that clients can still follow the other requests.
func (Requests) Running(q db.Queryer, sessionID string) ([]session.Request, error) {
	query, args := `SELECT `+requestColumns+`, checksum FROM requests WHERE state IN ('running', 'streaming')`, []any{}
	if sessionID != "" {
		query += ` AND session_id = ?`
		args = append(args, sessionID)
	}
	out, err := collectReadable(q, scanRequest, query+` ORDER BY session_id, id`, args...)
	return out, wrap("list running requests", err)
}

// Story returns a request with its messages and its journal. Placeholders that name the
// reason replace damaged messages and journal entries.
func (Requests) Story(q db.Queryer, requestID string) (session.Story, error) {
	r, err := Requests{}.Request(q, requestID)
	if err != nil {
		return session.Story{}, err
	}
	messages, err := storyMessages(q, r)
	if err != nil {
		return session.Story{}, err
	}
	entries, err := storyOf(q, requestID)
	return session.Story{Request: r, Messages: messages, Entries: entries}, err
}

// storyOf returns the journal of a request. Entries that cannot be read are in it as damaged.
func storyOf(q db.Queryer, requestID string) ([]session.StoryEntry, error) {
	return journal(q, orDamaged(scanEntry(q, requestID), func(e session.StoryEntry, why string) session.StoryEntry {
		return session.StoryEntry{Seq: e.Seq, Kind: session.EntryDamaged, Detail: why}
	}), requestID)
}

// storyMessages returns the messages that were applied to a request, oldest first.
func storyMessages(q db.Queryer, r session.Request) ([]session.StoryMessage, error) {
	out, err := collect(q, orDamaged(scanStoryMessage(r), func(m session.StoryMessage, why string) session.StoryMessage {
		return session.StoryMessage{MessageID: m.MessageID, Text: why}
	}), `SELECT message_id, queue, state, event_id, created_at, json, checksum FROM session_inbox
		WHERE request_id = ? AND request_id <> '' ORDER BY created_at, message_id`, r.ID)
	return out, wrap("read what came into a request", err)
}

func scanStoryMessage(r session.Request) func(scanner) (session.StoryMessage, error) {
	return func(row scanner) (m session.StoryMessage, err error) {
		var data []byte
		var checksum int64
		if err := row.Scan(&m.MessageID, &m.Queue, &m.State, &m.EventID, &m.CreatedAt, &data, &checksum); err != nil {
			return m, err
		}
		var messages []chat.Message
		err = decodeRow(mailTable, checksum, data, &messages,
			r.SessionID, m.MessageID, r.ID, string(m.Queue), string(m.State), m.EventID, m.CreatedAt, data)
		if err != nil {
			return m, err
		}
		for _, one := range messages {
			m.Text += one.Text()
		}
		return m, nil
	}
}

// Journal is the table of the journal entries of each request.
type Journal struct{}

// Record appends an entry to the journal of a request.
func (Journal) Record(tx *db.Tx, requestID string, e session.Entry) error {
	data := []byte("{}")
	if e.Data != nil {
		var err error
		if data, err = json.Marshal(e.Data); err != nil {
			return fmt.Errorf("encode journal entry: %w", err)
		}
	}
	data, err := longtext.Shorten(tx, requestID, data)
	if err != nil {
		return fmt.Errorf("append journal entry: %w", err)
	}
	seq, err := tx.Next("journal "+requestID, `SELECT coalesce(max(seq), 0) FROM journal WHERE request_id = ?`, requestID)
	if err != nil {
		return fmt.Errorf("number journal entry: %w", err)
	}
	_, err = tx.Exec(`INSERT INTO journal (request_id, seq, at, step, kind, data, checksum) VALUES (?, ?, ?, ?, ?, ?, ?)`,
		requestID, seq, e.At, e.Step, e.Kind, data, rowChecksum(requestID, seq, e.At, e.Step, e.Kind, data))
	return wrap("append journal entry", err)
}

// Journal returns the journal of a request, oldest entry first.
func (Journal) Journal(q db.Queryer, requestID string) ([]session.StoryEntry, error) {
	return journal(q, scanEntry(q, requestID), requestID)
}

func journal(q db.Queryer, scan func(scanner) (session.StoryEntry, error), requestID string) ([]session.StoryEntry, error) {
	out, err := collect(q, scan, `SELECT seq, at, step, kind, data, checksum FROM journal WHERE request_id = ? ORDER BY seq`, requestID)
	return out, wrap("read journal", err)
}

func scanEntry(q db.Queryer, requestID string) func(scanner) (session.StoryEntry, error) {
	return func(row scanner) (e session.StoryEntry, err error) {
		var data []byte
		var checksum int64
		if err := row.Scan(&e.Seq, &e.At, &e.Step, &e.Kind, &data, &checksum); err != nil {
			return e, err
		}
		return e, decodeLong(q, journalTable, checksum, data, &e.Data, requestID, e.Seq, e.At, e.Step, e.Kind, data)
	}
}

// TrimLongTexts deletes the long texts of requests that were deleted with their session. before must
// be longer ago than the retention of the bus, whose events contain them.
func (Requests) TrimLongTexts(tx *db.Tx, before time.Time) (more bool, err error) {
	return trimOld(tx, "long texts", `DELETE FROM long_texts WHERE (owner, id) IN
		(SELECT owner, id FROM long_texts t WHERE at < ? AND NOT EXISTS (SELECT 1 FROM requests WHERE requests.id = t.owner) ORDER BY at LIMIT ?)`, before)
}

// conversationStart is a subquery for the time at which the newest conversation of a
// session began.
const conversationStart = `(SELECT coalesce(max(at), 0) FROM conversation_starts WHERE session_id = ?)`

// Ran implements [router.Table].
func (Requests) Ran(q db.Queryer, sessionID, requestID string) (bool, error) {
	return exists(q, `SELECT 1 FROM requests WHERE id = ? AND session_id = ? AND created_at >= `+conversationStart, requestID, sessionID, sessionID)
}
