package httpapi

import (
	"context"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"lilac/internal/core/session"
	"lilac/internal/engine/db"
	"lilac/internal/foundation/chat"
	"lilac/internal/foundation/fault"
)

// blobPrefix begins a reference to stored bytes; the rest is the file's name in
// URLs.
const blobPrefix = "blob:sha256:"

// inlinePictures are the types that a browser may display, because it never
// runs code in them. All other types are downloads.
var inlinePictures = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// filePolicy is the content security policy of a file that is opened directly.
const filePolicy = "default-src 'none'; sandbox; frame-ancestors 'none'"

// FileTable stores which files a session has.
type FileTable interface {
	// ReferFiles records that a session has the files of these parts.
	ReferFiles(tx *db.Tx, sessionID string, parts []chat.Part) error
	// Files lists the files that requests produced, in order.
	Files(q db.Queryer, sessionID string, requestIDs []string) ([]session.File, error)
	// FileOf returns the name and type of a file in a session.
	FileOf(q db.Queryer, sessionID, ref string) (filename, mimeType string, err error)
}

// files serves the files of conversations.
type files struct {
	db       *db.DB
	table    FileTable
	blobs    Blobs
	sessions *sessions
}

// sessionFile is a file with the URL of its bytes.
type sessionFile struct {
	session.File
	URL string `json:"url"`
}

// fileURL returns the path of a stored file of a session, or "" if the file is
// not stored.
func fileURL(sessionID, ref string) string {
	name, ok := strings.CutPrefix(ref, blobPrefix)
	if !ok {
		return ""
	}
	return "/sessions/" + url.PathEscape(sessionID) + "/files/" + url.PathEscape(name)
}

// get writes the bytes of a file that the session refers to.
func (f *files) get(w http.ResponseWriter, r *http.Request) error {
	s, err := f.sessions.get(r)
	if err != nil {
		return err
	}
	if f.blobs == nil {
		return fault.New(fault.NotFound, "This server stores no files.")
	}
	ref := blobPrefix + r.PathValue("file")
	var name, claimed string
	err = f.db.Read(r.Context(), func(q db.Queryer) (err error) {
		name, claimed, err = f.table.FileOf(q, s.ID, ref)
		return err
	})
	if err != nil {
		return err
	}
	data, err := f.blobs.Get(r.Context(), ref)
	if err != nil {
		return err
	}
	media, disposition := safeType(data, claimed), "attachment"
	if slices.Contains(inlinePictures, media) {
		disposition = "inline"
	}
	h := w.Header()
	h.Set("Content-Type", media)
	h.Set("Content-Disposition", contentDisposition(disposition, name))
	h.Set("Content-Security-Policy", filePolicy)
	h.Set("Content-Length", strconv.Itoa(len(data)))
	_, err = w.Write(data)
	return err
}

// safeType returns the media type to serve a file with: a picture only if the
// bytes are one, and never a type that a browser runs.
func safeType(data []byte, claimed string) string {
	if detected := http.DetectContentType(data); slices.Contains(inlinePictures, detected) {
		return detected
	}
	media, _, _ := strings.Cut(claimed, ";")
	switch media {
	case "application/pdf", "application/json", "text/csv", "application/zip":
		return media
	case "text/plain", "text/markdown":
		return media + "; charset=utf-8"
	}
	return "application/octet-stream"
}

// contentDisposition formats the header, with the file name quoted.
func contentDisposition(disposition, name string) string {
	if name == "" {
		name = "file"
	}
	if header := mime.FormatMediaType(disposition, map[string]string{"filename": name}); header != "" {
		return header
	}
	return disposition
}

// of lists the files that the requests of these messages, and the running
// requests, have produced.
func (f *files) of(ctx context.Context, sessionID string, history []session.HistoryMessage, running []string) ([]sessionFile, error) {
	ids := slices.Clone(running)
	for _, m := range history {
		if m.RequestID != "" && !slices.Contains(ids, m.RequestID) {
			ids = append(ids, m.RequestID)
		}
	}
	var found []session.File
	err := f.db.Read(ctx, func(q db.Queryer) (err error) {
		found, err = f.table.Files(q, sessionID, ids)
		return err
	})
	out := make([]sessionFile, len(found))
	for i, file := range found {
		out[i] = sessionFile{File: file, URL: fileURL(sessionID, file.Blob)}
	}
	return out, err
}
