package builtin

import (
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"lilac/internal/agent/tool"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/order"
)

//go:embed glob.md
var globText string

// globLimit is how many paths are shown by default.
const globLimit = 200

func newGlob(ws *workspace) tool.Tool {
	return define(
		tool.Spec{Name: "glob", Description: globText, Idempotent: true, ParallelSafe: true},
		func(in globInput) string { return in.Pattern },
		func(ctx context.Context, call tool.Call, in globInput) (tool.Result, error) {
			return ws.in(call.Workspace).glob(ctx, in)
		})
}

type globInput struct {
	Pattern string `json:"pattern" blank:"no" jsonschema:"The glob pattern, for example **/*.go or src/**/*.{ts,tsx}."`
	Path    string `json:"path,omitempty" jsonschema:"The directory to search; the workspace when left out."`
	Limit   int    `json:"limit,omitempty" min:"1" max:"1000" jsonschema:"How many paths to show; 200 when left out."`
}

type found struct {
	path string
	time time.Time
}

func (w *workspace) glob(ctx context.Context, in globInput) (tool.Result, error) {
	pattern, dir := in.Pattern, in.Path
	if strings.HasPrefix(pattern, "/") || strings.HasPrefix(pattern, "~") {
		// An absolute pattern is relative to the workspace, whatever path says.
		rel, err := w.rel(pattern)
		if err != nil {
			return tool.Result{}, err
		}
		pattern, dir = rel, ""
	}
	base, err := w.rel(dir)
	if err != nil {
		return tool.Result{}, err
	}
	m, err := newMatcher(pattern, false)
	if err != nil {
		return tool.Result{}, err
	}
	if slices.Contains(strings.Split(pattern, "/"), "..") {
		return tool.Result{}, fault.InvalidField("pattern", "A pattern must not contain \"..\"; set path to the directory to search.")
	}
	root, err := w.open()
	if err != nil {
		return tool.Result{}, err
	}
	defer func() { _ = root.Close() }()
	if info, err := root.Stat(base); err != nil {
		return tool.Result{}, w.explain(err, cmp.Or(dir, "."))
	} else if !info.IsDir() {
		return tool.Result{}, fault.InvalidField("path", "%s is not a directory.", dir)
	}
	var all []found
	complete, err := walk(ctx, root, base, pattern, func(rel string, entry fs.DirEntry) error {
		if !m.match(base, rel) {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			all = append(all, found{rel, info.ModTime()})
		}
		return nil
	})
	if err != nil {
		return tool.Result{}, w.explain(err, cmp.Or(dir, "."))
	}
	order.By(all, func(a, b found) int {
		return cmp.Or(b.time.Compare(a.time), cmp.Compare(a.path, b.path))
	})
	return tool.Result{Text: globResult(all, cmp.Or(in.Limit, globLimit), complete)}, nil
}

func globResult(all []found, limit int, complete bool) string {
	var b strings.Builder
	shown := 0
	for _, f := range all[:min(len(all), limit)] {
		if b.Len()+len(f.path) > tool.MaxBytes-200 {
			break
		}
		b.WriteString(tool.Visible(strings.ReplaceAll(f.path, "\n", "␊")) + "\n")
		shown++
	}
	if len(all) == 0 {
		b.WriteString("[no file matches]\n")
	}
	if shown < len(all) {
		fmt.Fprintf(&b, "[%d of %d files are shown, the newest; narrow the pattern to see others]\n", shown, len(all))
	}
	if !complete {
		b.WriteString("[not everything could be searched; set path to a smaller directory]\n")
	}
	return b.String()
}
