package builtin

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"lilac/internal/agent/tool"
	"lilac/internal/foundation/fault"
)

//go:embed attachment_download.md
var attachmentDownloadText string

// DefaultDownloadDir is the default directory for downloads.
const DefaultDownloadDir = "~/Downloads"

// DownloadInput is the input of [Attachments.Download].
type DownloadInput struct {
	Dir string `json:"downloadDir,omitempty" default:"~/Downloads" jsonschema:"The directory to put the files into, in the workspace; it is made when it is missing."`
}

// Downloaded is the result of [Attachments.Download].
type Downloaded struct {
	// OK reports that all files were downloaded.
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
	// Filename is the name that the sender gave it.
	Filename string `json:"filename,omitempty"`
}

// FailedDownload is a file that could not be downloaded.
type FailedDownload struct {
	Filename  string `json:"filename,omitempty"`
	SourceURL string `json:"sourceUrl"`
	Error     string `json:"error"`
}

// sha10 is how many hex digits of the hash name a file.
const sha10 = 10

// Download writes the files of the newest message with files into a directory of the
// workspace. Each is named by a hash of its bytes. A file that already exists is not
// written again; if another file has that name, the name is the whole hash. Relative
// directories start at cwd, as in [Attachments.Add].
func (a *Attachments) Download(ctx context.Context, call tool.Call, in DownloadInput, cwd string) (Downloaded, error) {
	name := cmp.Or(in.Dir, DefaultDownloadDir)
	ws := a.ws.in(call.Workspace)
	rel, err := ws.rel(ws.from(cwd, name))
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
	dir, err := ws.openDir(rel)
	if err != nil {
		return Downloaded{}, ws.explain(err, name)
	}
	defer func() { _ = dir.Close() }()
	out := Downloaded{OK: true, DownloadDir: filepath.Join(ws.dir, rel), Files: []DownloadedFile{}}
	rest := a.o.TotalBytes
	var first error
	had := map[[sha256.Size]byte]bool{}
	for _, s := range sent {
		file, sum, err := a.download(ctx, call, dir, s, rest)
		if ctx.Err() != nil {
			return out, context.Cause(ctx)
		}
		if err != nil {
			if out.OK = false; first == nil {
				first = err
			}
			out.Failed = append(out.Failed, FailedDownload{Filename: s.Filename, SourceURL: s.source(), Error: ws.explain(forModel(err), name).Error()})
			continue
		}
		rest -= int64(file.Bytes)
		if had[sum] {
			continue
		}
		had[sum] = true
		file.Path = filepath.Join(out.DownloadDir, file.Path)
		out.Files = append(out.Files, file)
	}
	if len(out.Files) == 0 {
		return out, first
	}
	return out, nil
}

func (s Sent) source() string { return cmp.Or(s.URL, s.Blob) }

func (a *Attachments) download(ctx context.Context, call tool.Call, dir *os.Root, s Sent, rest int64) (file DownloadedFile, sum [sha256.Size]byte, err error) {
	if rest <= 0 {
		return file, sum, fault.New(fault.TooLarge, "The files have more than %d bytes together.", a.o.TotalBytes)
	}
	data, kind, err := a.o.Fetch(ctx, call, s, min(a.o.FileBytes, rest))
	if err != nil {
		return file, sum, err
	}
	sum = sha256.Sum256(data)
	hash, kind := hex.EncodeToString(sum[:]), cmp.Or(plainType(kind), plainType(s.MimeType))
	file = DownloadedFile{SHA10: hash[:sha10], Bytes: len(data), SourceURL: s.source(), MimeType: kind, Filename: s.Filename}
	for _, name := range []string{file.SHA10, hash} {
		file.Path = name + extension(kind, s.Filename, s.URL)
		there, err := holds(ctx, dir, file.Path, data)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return file, sum, replaceFile(ctx, dir, file.Path, data, 0o644)
		case err != nil, there:
			return file, sum, err
		}
	}
	return file, sum, fault.New(fault.Conflict, "%s is in the way: it is another file.", file.Path)
}

// holds reports whether a regular file has that content. Two files can share ten digits
// of a hash, and a command may have written there.
func holds(ctx context.Context, dir *os.Root, name string, data []byte) (bool, error) {
	info, err := dir.Lstat(name)
	if err != nil {
		return false, err
	}
	if !info.Mode().IsRegular() {
		return false, fault.New(fault.Conflict, "%s is in the way: it is not a plain file.", name)
	}
	file, _, err := openPlain(dir, name)
	if err != nil {
		return false, err
	}
	defer func() { _ = file.Close() }()
	found, err := io.ReadAll(io.LimitReader(&ctxReader{ctx, file}, int64(len(data))+1))
	return bytes.Equal(found, data), err
}
