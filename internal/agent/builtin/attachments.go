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

// AttachOptions configure [Attachments].
type AttachOptions struct {
	// Workspace is the directory that the agent works in if a call names no other; it is created
	// if it is missing.
	Workspace string
	// HandOver sends files to people, Inbound lists files that people sent, and Fetch
	// downloads them.
	HandOver HandOver
	Inbound  Inbound
	Fetch    FetchFile
	// FileBytes bounds one file, TotalBytes those of a call; zero means the default.
	FileBytes, TotalBytes int64
}

// File is a file for people.
type File struct {
	// ID identifies the file within the request. It depends on the content, the name,
	// and the position among equal files of the call, so a repeated call has the same ids.
	ID, Name, MimeType string
	// Path is the path in the workspace.
	Path string
	Data []byte
}

// HandOver sends a file to the people who read the answer to the call's request.
// Repeating an ID has no effect.
type HandOver func(ctx context.Context, call tool.Call, f File) error

// Inbound lists the files of the newest message with files in the call's conversation,
// in their order.
type Inbound func(ctx context.Context, call tool.Call) ([]Sent, error)

// Sent is a file that a person sent. It comes from stored messages, never from the text
// of a call.
type Sent struct {
	// URL is the address of the file on its platform; Blob refers to bytes that
	// Lilac stored when the file arrived. One of them is set.
	URL, Blob          string
	Filename, MimeType string
}

// FetchFile returns the bytes of a file, at most most of them, and the media type that
// the source reported.
type FetchFile func(ctx context.Context, call tool.Call, s Sent, most int64) (data []byte, mimeType string, err error)

// Attachments sends files of the workspace to people and downloads theirs into it. The
// tools and the callables for attachments share it.
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

// asResult returns a result whose text is a value as JSON.
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
