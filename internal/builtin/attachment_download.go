package builtin

import (
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"lilac/internal/fault"
	"lilac/internal/tool"
)

//go:embed attachment_download.md
var attachmentDownloadText string

// DefaultDownloadDir is where files go when the call does not say.
const DefaultDownloadDir = "~/Downloads"

// DownloadSchema is the JSON Schema of the input of [Attachments.Download].
const DownloadSchema = `{"type":"object","properties":{
"downloadDir":{"type":"string","default":"~/Downloads","description":"The directory to put the files into, in the workspace; it is made when it is missing."}}}`

// Downloaded is what became of [Attachments.Download].
type Downloaded struct {
	// OK says that all of the files are there.
	OK          bool             `json:"ok"`
	DownloadDir string           `json:"downloadDir"`
	Files       []DownloadedFile `json:"files"`
	Failed      []FailedDownload `json:"failed,omitempty"`
}

// DownloadedFile is a file in the workspace.
type DownloadedFile struct {
	Path string `json:"path"`
	// SHA10 are the first ten hex digits of the SHA-256 of its bytes.
	SHA10     string `json:"sha10"`
	Bytes     int    `json:"bytes"`
	SourceURL string `json:"sourceUrl"`
	MimeType  string `json:"mimeType,omitempty"`
	// Filename is what the sender called it.
	Filename string `json:"filename,omitempty"`
}

// FailedDownload is a file that could not be had.
type FailedDownload struct {
	Filename  string `json:"filename,omitempty"`
	SourceURL string `json:"sourceUrl"`
	Error     string `json:"error"`
}

// sha10 is how many hex digits of the hash name a file.
const sha10 = 10

// Download puts the files of the newest message that has any into a directory
// of the workspace, each under the hash of its bytes. What is there already is
// not written again. Relative directories begin at cwd as in [Attachments.Add].
func (a *Attachments) Download(ctx context.Context, call tool.Call, cwd string) (Downloaded, error) {
	in := tool.ParseInput(call.Input)
	name := cmp.Or(in.TextOr("downloadDir", ""), DefaultDownloadDir)
	if err := in.Err(); err != nil {
		return Downloaded{}, err
	}
	rel, err := a.ws.rel(a.ws.from(cwd, name))
	if err != nil {
		return Downloaded{}, err
	}
	sent, err := a.o.Inbound(ctx, call)
	if err != nil {
		return Downloaded{}, err
	}
	if len(sent) == 0 {
		return Downloaded{}, fault.New(fault.NotFound, "Nobody has sent a file in this conversation.")
	}
	dir, err := a.ws.openDir(rel)
	if err != nil {
		return Downloaded{}, a.ws.explain(err, name)
	}
	defer func() { _ = dir.Close() }()
	out := Downloaded{OK: true, DownloadDir: filepath.Join(a.ws.dir, rel), Files: []DownloadedFile{}}
	rest := a.o.TotalBytes
	var first error
	for _, s := range sent {
		file, err := a.download(ctx, call, dir, s, rest)
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		if err != nil {
			if out.OK = false; first == nil {
				first = err
			}
			out.Failed = append(out.Failed, FailedDownload{Filename: s.Filename, SourceURL: s.source(), Error: a.ws.explain(forModel(err), name).Error()})
			continue
		}
		rest -= int64(file.Bytes)
		if slices.ContainsFunc(out.Files, func(f DownloadedFile) bool { return f.SHA10 == file.SHA10 }) {
			continue
		}
		file.Path = filepath.Join(out.DownloadDir, file.Path)
		out.Files = append(out.Files, file)
	}
	if len(out.Files) == 0 {
		return out, first
	}
	return out, nil
}

func (s Sent) source() string { return cmp.Or(s.URL, s.Blob) }

func (a *Attachments) download(ctx context.Context, call tool.Call, dir *os.Root, s Sent, rest int64) (DownloadedFile, error) {
	if rest <= 0 {
		return DownloadedFile{}, fault.New(fault.TooLarge, "The files have more than %d bytes together.", a.o.TotalBytes)
	}
	data, kind, err := a.o.Fetch(ctx, call, s, min(a.o.FileBytes, rest))
	if err != nil {
		return DownloadedFile{}, err
	}
	sum := sha256.Sum256(data)
	kind = cmp.Or(plainType(kind), plainType(s.MimeType))
	file := DownloadedFile{SHA10: hex.EncodeToString(sum[:])[:sha10], Bytes: len(data), SourceURL: s.source(), MimeType: kind, Filename: s.Filename}
	file.Path = file.SHA10 + extension(kind, s.Filename, s.URL)
	info, err := dir.Lstat(file.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return file, replaceFile(ctx, dir, file.Path, data, 0o644)
	case err != nil:
		return file, err
	case !info.Mode().IsRegular():
		return file, fault.New(fault.Conflict, "%s is in the way: it is not a plain file.", file.Path)
	}
	return file, nil
}
