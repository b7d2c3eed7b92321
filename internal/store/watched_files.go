package store

import (
	"encoding/json"
	"errors"

	"lilac/internal/core/files"
	"lilac/internal/engine/db"
)

// watchedMigration creates the tables of file sources and of the files that they have seen.
// A source has a row in watched_sources once its first scan has completed.
var watchedMigration = db.Migration{Name: "watched.0001-watched", SQL: `
CREATE TABLE watched_sources (
	name  TEXT PRIMARY KEY,
	scope TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE watched_files (
	source   TEXT NOT NULL,
	path     TEXT NOT NULL,
	size     INTEGER NOT NULL,
	modified INTEGER NOT NULL,
	PRIMARY KEY (source, path)
) STRICT, WITHOUT ROWID;
`}

// WatchedFiles is the table of files that file sources have seen.
type WatchedFiles struct{}

// KnownFiles returns the files that a source has seen. known is false if the source has not
// completed a scan, or if that scan had another scope.
func (WatchedFiles) KnownFiles(q db.Queryer, source, scope string) (seen map[string]files.Stamp, known bool, err error) {
	var was string
	err = q.QueryRow(`SELECT scope FROM watched_sources WHERE name = ?`, source).Scan(&was)
	switch {
	case errors.Is(err, db.ErrNoRows) || err == nil && was != scope:
		return nil, false, nil
	case err != nil:
		return nil, false, wrap("read watched source", err)
	}
	rows, err := q.Query(`SELECT path, size, modified FROM watched_files WHERE source = ?`, source)
	if err != nil {
		return nil, false, wrap("read watched files", err)
	}
	defer rows.Close()
	seen = map[string]files.Stamp{}
	for rows.Next() {
		var path string
		var stamp files.Stamp
		if err := rows.Scan(&path, &stamp.Size, &stamp.Modified); err != nil {
			return nil, false, wrap("read watched file", err)
		}
		seen[path] = stamp
	}
	return seen, true, wrap("read watched files", rows.Err())
}

// ForgetFiles deletes the files and the completed scan of a source.
func (WatchedFiles) ForgetFiles(tx *db.Tx, source string) error {
	if _, err := tx.Exec(`DELETE FROM watched_sources WHERE name = ?`, source); err != nil {
		return wrap("forget watched source", err)
	}
	_, err := tx.Exec(`DELETE FROM watched_files WHERE source = ?`, source)
	return wrap("forget watched files", err)
}

// MarkScanned records that a source has completed a scan of its scope.
func (WatchedFiles) MarkScanned(tx *db.Tx, source, scope string) error {
	_, err := tx.Exec(`INSERT INTO watched_sources (name, scope) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET scope = excluded.scope`, source, scope)
	return wrap("keep watched source", err)
}

// PutWatchedFile stores the size and the modification time of a file.
func (WatchedFiles) PutWatchedFile(tx *db.Tx, source, path string, stamp files.Stamp) error {
	_, err := tx.Exec(`INSERT INTO watched_files (source, path, size, modified) VALUES (?, ?, ?, ?)
		ON CONFLICT (source, path) DO UPDATE SET size = excluded.size, modified = excluded.modified`, source, path, stamp.Size, stamp.Modified)
	return wrap("keep watched file", err)
}

// DeleteWatchedFile records that a file no longer exists.
func (WatchedFiles) DeleteWatchedFile(tx *db.Tx, source, path string) error {
	_, err := tx.Exec(`DELETE FROM watched_files WHERE source = ? AND path = ?`, source, path)
	return wrap("forget watched file", err)
}

// KeepSources deletes the files and scans of all sources except the named ones.
func (WatchedFiles) KeepSources(tx *db.Tx, names []string) error {
	raw, err := json.Marshal(append([]string{}, names...))
	if err != nil {
		return wrap("encode watched sources", err)
	}
	for _, statement := range []string{
		`DELETE FROM watched_files WHERE source NOT IN (SELECT value FROM json_each(?))`,
		`DELETE FROM watched_sources WHERE name NOT IN (SELECT value FROM json_each(?))`,
	} {
		if _, err := tx.Exec(statement, string(raw)); err != nil {
			return wrap("forget watched sources", err)
		}
	}
	return nil
}
