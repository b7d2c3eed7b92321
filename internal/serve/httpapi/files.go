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
	"lilac/internal/foundation/fault"
)

// blobPrefix begins a reference to a stored file; the rest is its name in
// addresses.
const blobPrefix = "blob:sha256:"

// inlinePictures are the types that a browser may show: what it draws and
// never runs. Everything else is saved.
var inlinePictures = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// filePolicy holds for a file that is opened by itself, whatever is in it.
const filePolicy = "default-src 'none'; sandbox; frame-ancestors 'none'"

// sessionFile is a file as lists and events show it.
type sessionFile struct {
	session.File
	URL string `json:"url"`
}

// fileURL is where a stored file of a session is; "" if it is not stored.
func fileURL(sessionID, ref string) string {
	name, ok := strings.CutPrefix(ref, blobPrefix)
	if !ok {
		return ""
	}
	return "/sessions/" + url.PathEscape(sessionID) + "/files/" + url.PathEscape(name)
}

// getFile serves the bytes of a file that the session refers to.
func (a *api) getFile(w http.ResponseWriter, r *http.Request) error {
	s, err := a.sessionOf(r)
	if err != nil {
		return err
	}
	if a.Blobs == nil {
		return fault.New(fault.NotFound, "This server keeps no files.")
	}
	ref := blobPrefix + r.PathValue("file")
	var name, said string
	err = a.DB.Read(r.Context(), func(q db.Queryer) (err error) {
		name, said, err = a.Store.FileOf(q, s.ID, ref)
		return err
	})
	if err != nil {
		return err
	}
	data, err := a.Blobs.Get(r.Context(), ref)
	if err != nil {
		return err
	}
	kind, disposition := servedAs(data, said), "attachment"
	if slices.Contains(inlinePictures, kind) {
		disposition = "inline"
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Content-Disposition", dispositionOf(disposition, name))
	h.Set("Content-Security-Policy", filePolicy)
	h.Set("Content-Length", strconv.Itoa(len(data)))
	_, err = w.Write(data)
	return err
}

// servedAs is the type that a file is served with: a picture only if its bytes
// are one, and nothing that a browser would run.
func servedAs(data []byte, said string) string {
	if held := http.DetectContentType(data); slices.Contains(inlinePictures, held) {
		return held
	}
	kind, _, _ := strings.Cut(said, ";")
	switch kind {
	case "application/pdf", "application/json", "text/csv", "application/zip":
		return kind
	case "text/plain", "text/markdown":
		return kind + "; charset=utf-8"
	}
	return "application/octet-stream"
}

// dispositionOf is the header, with a name that cannot break out of it.
func dispositionOf(kind, name string) string {
	if name == "" {
		name = "file"
	}
	if header := mime.FormatMediaType(kind, map[string]string{"filename": name}); header != "" {
		return header
	}
	return kind
}

// filesOf lists the files that the requests of these messages have given, and
// those of requests that run.
func (a *api) filesOf(ctx context.Context, sessionID string, history []session.HistoryMessage, running []string) ([]sessionFile, error) {
	ids := slices.Clone(running)
	for _, m := range history {
		if m.RequestID != "" && !slices.Contains(ids, m.RequestID) {
			ids = append(ids, m.RequestID)
		}
	}
	var files []session.File
	err := a.DB.Read(ctx, func(q db.Queryer) (err error) {
		files, err = a.Store.Files(q, sessionID, ids)
		return err
	})
	out := make([]sessionFile, len(files))
	for i, f := range files {
		out[i] = sessionFile{File: f, URL: fileURL(sessionID, f.Blob)}
	}
	return out, err
}
