package store

import (
	"encoding/json"
	"fmt"
	"strings"

	"lilac/internal/core/session"
	"lilac/internal/core/surface"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
)

// filesMigration creates the tables of references to blobs and of files that requests sent.
// It collects the references of existing rows.
var filesMigration = db.Migration{Name: "files.0001-files", SQL: filesTables + collectBlobRefs("'session/' || t.session_id", "history") +
	collectBlobRefs("'session/' || t.session_id", "session_inbox") +
	collectBlobRefs("'message/' || t.platform || '/' || t.channel_id || '/' || t.id", "surface_messages"), Postgres: db.PostgresTables(filesTables)}

const filesTables = `
CREATE TABLE blob_refs (
	owner     TEXT NOT NULL,
	blob      TEXT NOT NULL,
	filename  TEXT NOT NULL,
	mime_type TEXT NOT NULL,
	PRIMARY KEY (owner, blob)
) STRICT, WITHOUT ROWID;
CREATE INDEX blob_refs_blob ON blob_refs (blob);

CREATE TABLE session_files (
	session_id TEXT NOT NULL,
	request_id TEXT NOT NULL,
	id         TEXT NOT NULL,
	created_at INTEGER NOT NULL,
	filename   TEXT NOT NULL,
	mime_type  TEXT NOT NULL,
	bytes      INTEGER NOT NULL,
	blob       TEXT NOT NULL,
	PRIMARY KEY (session_id, request_id, id)
) STRICT, WITHOUT ROWID;
`

// collectBlobRefs returns a statement that inserts the references to blobs in the JSON of an
// existing table. owner is an SQL expression.
func collectBlobRefs(owner, table string) string {
	return `
INSERT OR IGNORE INTO blob_refs (owner, blob, filename, mime_type)
	SELECT ` + owner + `, substr(j.atom, 13), '', ''
	FROM (SELECT *, CAST(json AS TEXT) AS text FROM ` + table + `) AS t,
		json_tree(CASE WHEN instr(t.text, 'blob:sha256:') > 0 AND json_valid(t.text) THEN t.text ELSE '{}' END) AS j
	WHERE j.type = 'text' AND length(j.atom) = 76 AND substr(j.atom, 1, 12) = 'blob:sha256:';
`
}

// ownerSession returns the owner of the references in the history and mailbox of a session.
func ownerSession(id string) string { return "session/" + id }

// ownerMessage returns the owner of the references in a cached platform message.
func ownerMessage(m surface.Message) string {
	return "message/" + m.Platform + "/" + m.ChannelID + "/" + m.ID
}

// addBlobRef records that an owner refers to a blob. It ignores a ref that is not a
// reference to a blob, such as a URL.
func addBlobRef(tx *db.Tx, owner, ref, filename, mimeType string) error {
	name, ok := blobName(ref)
	if !ok {
		return nil
	}
	_, err := tx.Exec(`INSERT INTO blob_refs (owner, blob, filename, mime_type) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`, owner, name, filename, mimeType)
	return wrap("refer to a file", err)
}

// Files groups the tables of files that requests sent and of references to blobs.
type Files struct{}

// ReferFiles records that a session refers to the files and images in parts.
func (Files) ReferFiles(tx *db.Tx, sessionID string, parts []chat.Part) error {
	for _, p := range parts {
		if content, ok := p.Content(); ok {
			if err := referPictures(tx, sessionID, content); err != nil {
				return err
			}
			continue
		}
		var ref string
		if p.Type != chat.TypeFile && p.Type != chat.TypeImage || json.Unmarshal(p.Data, &ref) != nil {
			continue
		}
		if err := addBlobRef(tx, ownerSession(sessionID), ref, p.Filename, p.MediaType); err != nil {
			return err
		}
	}
	return nil
}

// referPictures records that a session refers to the pictures in the result of a tool.
func referPictures(tx *db.Tx, sessionID string, content []chat.Part) error {
	for _, p := range content {
		ref, mediaType, ok := p.ResultData()
		if !ok {
			continue
		}
		if err := addBlobRef(tx, ownerSession(sessionID), ref, "picture", mediaType); err != nil {
			return err
		}
	}
	return nil
}

// replaceMessageRefs replaces the references of a cached message with those of its
// attachments.
func replaceMessageRefs(tx *db.Tx, m surface.Message) error {
	if err := deleteBlobRefs(tx, ownerMessage(m)); err != nil {
		return err
	}
	for _, a := range m.Attachments {
		if err := addBlobRef(tx, ownerMessage(m), a.Blob, a.Filename, a.MimeType); err != nil {
			return err
		}
	}
	return nil
}

func deleteBlobRefs(tx *db.Tx, owner string) error {
	_, err := tx.Exec(`DELETE FROM blob_refs WHERE owner = ?`, owner)
	return wrap("forget files", err)
}

// PutFile inserts a file that a request sent. It raises the creation time if necessary, so
// that the file sorts after the earlier files of the request. It returns false, and changes
// nothing, if the id exists.
func (Files) PutFile(tx *db.Tx, f session.File) (fresh bool, err error) {
	res, err := tx.Exec(`INSERT INTO session_files (session_id, request_id, id, created_at, filename, mime_type, bytes, blob)
		SELECT ?1, ?2, ?3, CASE WHEN MAX(created_at) >= ?4 THEN MAX(created_at) + 1 ELSE ?4 END, ?5, ?6, ?7, ?8 FROM session_files WHERE session_id = ?1 AND request_id = ?2
		ON CONFLICT DO NOTHING`, f.SessionID, f.RequestID, f.ID, f.CreatedAt, f.Filename, f.MimeType, f.Bytes, f.Blob)
	if err != nil {
		return false, fmt.Errorf("write file: %w", err)
	}
	n, err := res.RowsAffected()
	if err != nil || n == 0 {
		return false, wrap("count files", err)
	}
	return true, addBlobRef(tx, ownerSession(f.SessionID), f.Blob, f.Filename, f.MimeType)
}

// Files returns the files that the given requests of a session sent, oldest first.
func (Files) Files(q db.Queryer, sessionID string, requestIDs []string) ([]session.File, error) {
	if len(requestIDs) == 0 {
		return nil, nil
	}
	args := []any{sessionID}
	for _, id := range requestIDs {
		args = append(args, id)
	}
	out, err := collect(q, func(r scanner) (f session.File, err error) {
		return f, r.Scan(&f.SessionID, &f.RequestID, &f.ID, &f.CreatedAt, &f.Filename, &f.MimeType, &f.Bytes, &f.Blob)
	}, `SELECT session_id, request_id, id, created_at, filename, mime_type, bytes, blob FROM session_files
		WHERE session_id = ? AND request_id IN (`+strings.TrimSuffix(strings.Repeat("?,", len(requestIDs)), ",")+`) ORDER BY created_at, id LIMIT ?`, append(args, maxPage)...)
	return out, wrap("list files", err)
}

// FileOf returns the filename and the MIME type under which a session refers to a blob. It
// returns a fault.NotFound if the session has no reference to the blob.
func (Files) FileOf(q db.Queryer, sessionID, ref string) (filename, mimeType string, err error) {
	name, ok := blobName(ref)
	if !ok {
		return "", "", fault.New(fault.NotFound, "There is no such file in this session.")
	}
	err = q.QueryRow(`SELECT filename, mime_type FROM blob_refs WHERE owner = ? AND blob = ?`, ownerSession(sessionID), name).Scan(&filename, &mimeType)
	return filename, mimeType, wrap("read file", notFound(err, "There is no such file in this session."))
}

// Referenced returns the set of the given blobs that have at least one reference.
func (Files) Referenced(q db.Queryer, names []string) (map[string]bool, error) {
	out := map[string]bool{}
	for _, name := range names {
		has, err := exists(q, `SELECT 1 FROM blob_refs WHERE blob = ? LIMIT 1`, name)
		if err != nil {
			return nil, fmt.Errorf("look for references: %w", err)
		}
		if has {
			out[name] = true
		}
	}
	return out, nil
}
