package builtin

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"

	"lilac/internal/agent/tool"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/text"
)

//go:embed grep.md
var grepText string

// The limits of grep.
const (
	grepLimit      = 100 // matching lines by default
	grepMaxPattern = 1000
	grepLine       = 300 // bytes shown of one line
	ctxEvery       = 1000
)

func newGrep(ws *workspace) tool.Tool {
	return define(
		tool.Spec{Name: "grep", Description: grepText, Idempotent: true, ParallelSafe: true},
		func(in grepInput) string { return in.Pattern },
		func(ctx context.Context, call tool.Call, in grepInput) (tool.Result, error) {
			return ws.in(call.Workspace).grep(ctx, call, in)
		})
}

type grepInput struct {
	Pattern    string `json:"pattern" blank:"no" jsonschema:"The regular expression (Go, RE2)."`
	Path       string `json:"path,omitempty" jsonschema:"The file or directory to search; the workspace when left out."`
	Glob       string `json:"glob,omitempty" jsonschema:"Search only files whose path matches, for example *.go or src/**/*.ts."`
	IgnoreCase bool   `json:"ignore_case,omitempty" jsonschema:"Let upper and lower case match each other."`
	Context    int    `json:"context,omitempty" min:"0" max:"10" jsonschema:"Lines to show before and after each match."`
	FilesOnly  bool   `json:"files_only,omitempty" jsonschema:"Show only the paths of files with a match."`
	Limit      int    `json:"limit,omitempty" min:"1" max:"1000" jsonschema:"How many matching lines (or files) to show; 100 when left out."`
}

// search is the state of one call of grep.
type search struct {
	root      *os.Root
	re        *regexp.Regexp
	out       *tool.Output
	context   int
	filesOnly bool
	limit     int
	matches   int
	files     int
	skipped   int // too large or unreadable
}

func (w *workspace) grep(ctx context.Context, call tool.Call, in grepInput) (tool.Result, error) {
	pattern, dir, glob := in.Pattern, in.Path, in.Glob
	s := &search{
		context:   in.Context,
		limit:     cmp.Or(in.Limit, grepLimit),
		filesOnly: in.FilesOnly,
		out:       tool.NewOutput(w.dir, call.ID, tool.Limits{}),
	}
	if len(pattern) > grepMaxPattern {
		return tool.Result{}, fault.InvalidField("pattern", "The pattern has %d bytes, the limit is %d.", len(pattern), grepMaxPattern)
	}
	if in.IgnoreCase {
		pattern = "(?i)" + pattern
	}
	var err error
	if s.re, err = regexp.Compile(pattern); err != nil {
		return tool.Result{}, fault.InvalidField("pattern", "The pattern is not a valid regular expression (Go, RE2): %s. Escape what is meant literally with a backslash.", strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	base, err := w.rel(dir)
	if err != nil {
		return tool.Result{}, err
	}
	m, err := newMatcher(cmp.Or(glob, "**"), glob != "")
	if err != nil {
		return tool.Result{}, err
	}
	if s.root, err = w.open(); err != nil {
		return tool.Result{}, err
	}
	defer func() { _ = s.root.Close() }()
	info, err := s.root.Stat(base)
	if err == nil {
		err = plain(info, base)
	}
	if err != nil {
		return tool.Result{}, w.explain(err, cmp.Or(dir, "."))
	}
	complete := true
	if !info.IsDir() {
		err = s.file(ctx, base)
	} else {
		complete, err = walk(ctx, s.root, base, glob, func(rel string, _ fs.DirEntry) error {
			if !m.match(base, rel) {
				return nil
			}
			return s.file(ctx, rel)
		})
	}
	if err != nil && !errors.Is(err, errEnough) {
		return tool.Result{}, w.explain(err, cmp.Or(dir, "."))
	}
	s.summary(complete)
	return tool.Result{Text: s.out.Text()}, nil
}

func (s *search) full() bool {
	if s.filesOnly {
		return s.files >= s.limit
	}
	return s.matches >= s.limit
}

// file searches one file. It skips binary and very large files.
func (s *search) file(ctx context.Context, rel string) error {
	if s.full() {
		return errEnough
	}
	data, _, err := readWhole(ctx, s.root, rel)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		s.skipped++
		return nil
	case isBinary(data):
		return nil
	}
	name := tool.Visible(strings.ReplaceAll(rel, "\n", "␊"))
	before := s.matches
	err = s.lines(ctx, name, data)
	if s.matches > before {
		s.files++
		if s.filesOnly {
			fmt.Fprintln(s.out, name)
		}
	}
	return err
}

func (s *search) lines(ctx context.Context, name string, data []byte) error {
	lines := bytes.Split(bytes.TrimSuffix(data, []byte{'\n'}), []byte{'\n'})
	shown := 0 // lines before this one were shown or are too far away
	for i, line := range lines {
		if i%ctxEvery == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		at := s.re.FindIndex(bytes.TrimSuffix(line, []byte{'\r'}))
		if at == nil {
			continue
		}
		if s.full() {
			return errEnough
		}
		s.matches++
		if s.filesOnly {
			return nil
		}
		first := max(shown, i-s.context)
		if s.context > 0 && s.matches > 1 && (first > shown || shown == 0) {
			fmt.Fprintln(s.out, "--")
		}
		for j := first; j < i; j++ {
			fmt.Fprintf(s.out, "%s-%d- %s\n", name, j+1, excerpt(lines[j], 0))
		}
		fmt.Fprintf(s.out, "%s:%d: %s\n", name, i+1, excerpt(line, at[0]))
		shown = i + 1
		for shown < len(lines) && shown <= i+s.context && !s.re.Match(bytes.TrimSuffix(lines[shown], []byte{'\r'})) {
			fmt.Fprintf(s.out, "%s-%d- %s\n", name, shown+1, excerpt(lines[shown], 0))
			shown++
		}
	}
	return nil
}

// excerpt returns the part of a line around the index at.
func excerpt(line []byte, at int) string {
	line = bytes.TrimSuffix(line, []byte{'\r'})
	if len(line) <= grepLine {
		return tool.Visible(string(line))
	}
	start := len(text.Truncate(line, max(0, min(at-grepLine/3, len(line)-grepLine))))
	text := tool.Visible(string(text.Truncate(line[start:], grepLine)))
	if start > 0 {
		text = "…" + text
	}
	if start+grepLine < len(line) {
		text += "…"
	}
	return text
}

func (s *search) summary(complete bool) {
	if s.matches == 0 {
		fmt.Fprintln(s.out, "[no match]")
	}
	if s.full() {
		fmt.Fprintf(s.out, "[stopped at the limit of %d; narrow the search to see others]\n", s.limit)
	}
	if s.skipped > 0 {
		fmt.Fprintf(s.out, "[%s left out: too large, or not readable]\n", text.Count(s.skipped, "file"))
	}
	if !complete && !s.full() {
		fmt.Fprintln(s.out, "[not everything could be searched; set path to a smaller directory]")
	}
}
