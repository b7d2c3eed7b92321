package builtin

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"lilac/internal/agent/tool"
)

const (
	// DefaultAttachBytes and DefaultAttachTotal bound a file, and the files of
	// one call, that are given or downloaded.
	DefaultAttachBytes = 25 << 20
	DefaultAttachTotal = 50 << 20
)

// AttachOptions are what [Attachments] need.
type AttachOptions struct {
	// Workspace is the directory that the agent works in; it is made when it is missing.
	Workspace string
	// HandOver gives files to people; Inbound knows those that people sent and
	// Fetch gets their bytes.
	HandOver HandOver
	Inbound  Inbound
	Fetch    FetchFile
	// FileBytes bounds one file, TotalBytes those of a call; zero means the default.
	FileBytes, TotalBytes int64
}

// File is one that is given to people.
type File struct {
	// ID names the act within the request: what is given, under which name, and
	// the how manieth such file of its call it is.
	ID, Name, MimeType string
	// Path is where the file lies in the workspace.
	Path string
	Data []byte
}

// HandOver gives a file to those who read the call's request. Handing an ID
// over again changes nothing.
type HandOver func(ctx context.Context, call tool.Call, f File) error

// Inbound lists the files of the newest message of the call's conversation
// that somebody sent any with, in their order.
type Inbound func(ctx context.Context, call tool.Call) ([]Sent, error)

// Sent is a file that somebody sent. What the call's text says of files is not
// believed; this comes from what is stored.
type Sent struct {
	// URL is where the platform keeps the file, Blob refers to bytes that were
	// kept when it came; one of them is set.
	URL, Blob          string
	Filename, MimeType string
}

// FetchFile returns the bytes of a file, at most so many, and what type their
// source says they are.
type FetchFile func(ctx context.Context, call tool.Call, s Sent, most int64) (data []byte, mimeType string, err error)

// Attachments gives files to people and takes theirs into the workspace. The
// tools and the callables are both this.
type Attachments struct {
	ws *workspace
	o  AttachOptions
}

// NewAttachments returns the two operations for a workspace.
func NewAttachments(o AttachOptions) (*Attachments, error) {
	ws, err := openWorkspace(Options{Workspace: o.Workspace})
	if err != nil {
		return nil, err
	}
	o.FileBytes, o.TotalBytes = cmp.Or(o.FileBytes, DefaultAttachBytes), cmp.Or(o.TotalBytes, DefaultAttachTotal)
	return &Attachments{ws: ws, o: o}, nil
}

func (a *Attachments) tools() []tool.Tool {
	return []tool.Tool{
		define(
			tool.Spec{Name: "attachment_add", Description: attachmentAddText, Idempotent: true},
			func(in AddInput) string { return strings.Join(in.paths(), ", ") },
			func(ctx context.Context, call tool.Call, in AddInput) (tool.Result, error) {
				return asResult(a.Add(ctx, call, in, ""))
			}),
		define(
			tool.Spec{Name: "attachment_download", Description: attachmentDownloadText, Idempotent: true},
			func(in DownloadInput) string { return in.Dir },
			func(ctx context.Context, call tool.Call, in DownloadInput) (tool.Result, error) {
				return asResult(a.Download(ctx, call, in, ""))
			}),
	}
}

// asResult tells the model a value as JSON.
func asResult(v any, err error) (tool.Result, error) {
	if err != nil {
		return tool.Result{}, err
	}
	text, err := json.Marshal(v)
	if err != nil {
		return tool.Result{}, fmt.Errorf("encode result: %w", err)
	}
	return tool.Result{Text: string(text)}, nil
}
