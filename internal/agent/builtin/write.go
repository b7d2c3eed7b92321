package builtin

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"lilac/internal/agent/tool"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

//go:embed write.md
var writeText string

func newWrite(ws *workspace) tool.Tool {
	return define(
		tool.Spec{Name: "write", Description: writeText, Idempotent: true},
		func(in writeInput) string { return in.Path },
		func(ctx context.Context, call tool.Call, in writeInput) (tool.Result, error) {
			return ws.in(call.Workspace).write(ctx, in)
		})
}

type writeInput struct {
	Path    string `json:"path" blank:"no" jsonschema:"The file: absolute, or relative to the workspace. Missing directories are made."`
	Content string `json:"content" jsonschema:"The whole content of the file."`
}

func (w *workspace) write(ctx context.Context, in writeInput) (tool.Result, error) {
	name, content := in.Path, in.Content
	if len(content) > maxFileBytes {
		return tool.Result{}, fault.InvalidField("content", "The content has %d bytes, the limit is %d.", len(content), maxFileBytes)
	}
	rel, err := w.rel(name)
	if err != nil {
		return tool.Result{}, err
	}
	if rel == "." || strings.HasSuffix(name, "/") {
		return tool.Result{}, fault.InvalidField("path", "%s names a directory; give the path of a file.", name)
	}
	did, err := w.put(ctx, rel, []byte(content))
	if err != nil {
		return tool.Result{}, w.explain(err, name)
	}
	lines := strings.Count(content, "\n")
	if content != "" && !strings.HasSuffix(content, "\n") {
		lines++
	}
	return tool.Result{Text: fmt.Sprintf("%s %s (%s, %s).", did, rel, text.Count(lines, "line"), text.Count(len(content), "byte"))}, nil
}

// put writes content to rel and returns what it did: Created, Replaced or Unchanged.
func (w *workspace) put(ctx context.Context, rel string, content []byte) (string, error) {
	root, err := w.open()
	if err != nil {
		return "", err
	}
	defer func() { _ = root.Close() }()
	if rel, err = followLinks(root, rel); err != nil {
		return "", err
	}
	did, mode := "Created", fs.FileMode(0o644)
	info, err := root.Lstat(rel)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := root.MkdirAll(path.Dir(rel), 0o755); err != nil {
			return "", err
		}
	case err != nil:
		return "", err
	case info.IsDir():
		return "", fault.New(fault.Invalid, "%s is a directory; give the path of a file.", rel)
	default:
		if err := plain(info, rel); err != nil {
			return "", err
		}
		did, mode = "Replaced", info.Mode()
		if info.Size() == int64(len(content)) {
			if old, _, err := readWhole(ctx, root, rel); err == nil && bytes.Equal(old, content) {
				return "Unchanged:", nil
			}
		}
	}
	return did, replaceFile(ctx, root, rel, content, mode)
}
