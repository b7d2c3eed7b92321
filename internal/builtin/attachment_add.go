package builtin

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"

	"lilac/internal/fault"
	"lilac/internal/tool"
)

//go:embed attachment_add.md
var attachmentAddText string

const (
	// attachFiles is what platforms take on one message.
	attachFiles = 10
	// attachBytes bounds one file: above it platforms take none without a fee.
	attachBytes = 25 << 20
)

// File is one that is given to people.
type File struct {
	// ID names the act: the call and the place of the file in it.
	ID, Name, MimeType string
	Data               []byte
}

// HandOver gives a file to those who read the call's request. Handing an ID
// over again changes nothing.
type HandOver func(ctx context.Context, call tool.Call, f File) error

func newAttachmentAdd(ws *workspace, handOver HandOver) tool.Tool {
	return &action{
		spec: tool.Spec{
			Name: "attachment_add", Description: attachmentAddText, Idempotent: true,
			Schema: json.RawMessage(`{"type":"object","properties":{
"paths":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":10,"description":"The files: absolute, or relative to the workspace."}},
"required":["paths"]}`),
		},
		display: func(in *tool.Input) string { return strings.Join(in.Texts("paths", attachFiles), ", ") },
		run: func(ctx context.Context, call tool.Call, in *tool.Input) (tool.Result, error) {
			paths := in.Texts("paths", attachFiles)
			if err := in.Err(); err != nil {
				return tool.Result{}, err
			}
			// All are read before the first is given: a mistake gives none.
			files := make([]File, len(paths))
			for i, name := range paths {
				f, err := ws.attachment(name)
				if err != nil {
					return tool.Result{}, err
				}
				f.ID = fmt.Sprintf("%s/%d", call.ID, i)
				files[i] = f
			}
			var told strings.Builder
			told.WriteString("Given to the people you talk to:\n")
			for _, f := range files {
				if err := handOver(ctx, call, f); err != nil {
					return tool.Result{}, err
				}
				fmt.Fprintf(&told, "%s (%s, %d bytes)\n", f.Name, f.MimeType, len(f.Data))
			}
			return tool.Result{Text: told.String()}, nil
		},
	}
}

// attachment reads a file that is to be given.
func (w *workspace) attachment(name string) (File, error) {
	rel, err := w.rel(name)
	if err != nil {
		return File{}, err
	}
	root, err := w.open()
	if err != nil {
		return File{}, err
	}
	defer func() { _ = root.Close() }()
	file, info, err := openPlain(root, rel)
	if err != nil {
		return File{}, w.explain(err, name)
	}
	defer func() { _ = file.Close() }()
	switch {
	case info.IsDir():
		return File{}, fault.New(fault.Invalid, "%s is a directory; give its files, or an archive of them.", name)
	case info.Size() > attachBytes:
		return File{}, fault.New(fault.TooLarge, "%s has %d bytes; at most %d can be given.", name, info.Size(), attachBytes)
	}
	data, err := io.ReadAll(io.LimitReader(file, attachBytes))
	if err != nil {
		return File{}, w.explain(err, name)
	}
	kind := mime.TypeByExtension(path.Ext(rel))
	if kind == "" {
		kind = http.DetectContentType(data)
	}
	return File{Name: path.Base(rel), MimeType: kind, Data: data}, nil
}
