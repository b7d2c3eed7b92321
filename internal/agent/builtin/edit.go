package builtin

import (
	"context"
	_ "embed"
	"fmt"
	"strings"

	"lilac/internal/agent/tool"
	"lilac/internal/foundation/fault"
)

//go:embed edit.md
var editText string

func newEdit(ws *workspace) tool.Tool {
	return define(
		tool.Spec{Name: "edit", Description: editText},
		func(in editInput) string { return in.Path },
		func(ctx context.Context, call tool.Call, in editInput) (tool.Result, error) {
			return ws.in(call.Workspace).edit(ctx, in)
		})
}

type editInput struct {
	Path       string `json:"path" blank:"no" jsonschema:"The file: absolute, or relative to the workspace."`
	OldString  string `json:"old_string" jsonschema:"The text to replace, exactly as it is in the file."`
	NewString  string `json:"new_string" jsonschema:"What stands there afterwards."`
	ReplaceAll bool   `json:"replace_all,omitempty" jsonschema:"Replace every occurrence; false when left out."`
}

func (w *workspace) edit(ctx context.Context, in editInput) (tool.Result, error) {
	name, from, to := in.Path, in.OldString, in.NewString
	switch {
	case from == "":
		return tool.Result{}, fault.InvalidField("old_string", "\"old_string\" must not be empty; use write to make a file or to replace all of it.")
	case from == to:
		return tool.Result{}, fault.InvalidField("new_string", "\"new_string\" is the same as \"old_string\"; nothing would change.")
	}
	rel, err := w.rel(name)
	if err != nil {
		return tool.Result{}, err
	}
	root, err := w.open()
	if err != nil {
		return tool.Result{}, err
	}
	defer func() { _ = root.Close() }()
	if rel, err = followLinks(root, rel); err != nil {
		return tool.Result{}, w.explain(err, name)
	}
	data, info, err := readWhole(ctx, root, rel)
	if err != nil {
		return tool.Result{}, w.explain(err, name)
	}
	if isBinary(data) {
		return tool.Result{}, fault.New(fault.Invalid, "%s is not text; use bash to change it.", rel)
	}
	old := string(data)
	if !strings.Contains(old, from) && strings.Contains(old, "\r\n") || allCRLF(old) {
		// Models write newlines; a file with CRLF keeps its line ends.
		from, to = withCRLF(from), withCRLF(to)
		if from == to {
			return tool.Result{}, fault.InvalidField("new_string", "\"new_string\" differs from \"old_string\" in line ends only, and edit keeps those of the file; use bash to change them.")
		}
	}
	found := occurrences(old, from)
	switch {
	case len(found) == 0:
		return tool.Result{}, notFound(rel, old, from)
	case len(found) > 1 && !in.ReplaceAll:
		return tool.Result{}, fault.New(fault.Conflict, "\"old_string\" occurs %d times in %s (lines %s). Add lines around it until it is unique, or set replace_all.", len(found), rel, lineNumbers(old, found))
	}
	changed := splice(old, found, len(from), to)
	if len(changed) > maxFileBytes {
		return tool.Result{}, fault.New(fault.TooLarge, "%s would have %d bytes, the limit is %d.", rel, len(changed), maxFileBytes)
	}
	if err := replaceFile(ctx, root, rel, []byte(changed), info.Mode()); err != nil {
		return tool.Result{}, w.explain(err, name)
	}
	what := "1 replacement"
	if len(found) > 1 {
		what = fmt.Sprintf("%d replacements", len(found))
	}
	return tool.Result{Text: fmt.Sprintf("Edited %s (%s).\n%s", rel, what, diff(old, found, len(from), to))}, nil
}

// allCRLF reports whether every line ends with CRLF.
func allCRLF(s string) bool {
	n := strings.Count(s, "\n")
	return n > 0 && n == strings.Count(s, "\r\n")
}

func withCRLF(s string) string {
	return strings.ReplaceAll(strings.ReplaceAll(s, "\r\n", "\n"), "\n", "\r\n")
}

// occurrences returns the indexes of part in s, without overlaps.
func occurrences(s, part string) []int {
	var at []int
	for from := 0; ; {
		i := strings.Index(s[from:], part)
		if i < 0 {
			return at
		}
		at = append(at, from+i)
		from += i + len(part)
	}
}

// splice replaces length bytes at each of the indexes.
func splice(s string, at []int, length int, to string) string {
	var b strings.Builder
	from := 0
	for _, i := range at {
		b.WriteString(s[from:i])
		b.WriteString(to)
		from = i + length
	}
	b.WriteString(s[from:])
	return b.String()
}

func lineOf(s string, offset int) int { return strings.Count(s[:offset], "\n") + 1 }

func lineNumbers(s string, at []int) string {
	const shown = 10
	var b strings.Builder
	for i, offset := range at {
		if i == shown {
			b.WriteString(", …")
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%d", lineOf(s, offset))
	}
	return b.String()
}

// notFound returns the error for a text that does not occur. It points at lines that
// differ only in white space, which is the usual mistake.
func notFound(rel, old, from string) error {
	wanted := squeezedLines(from)
	if len(wanted) > 0 {
		lines := strings.Split(old, "\n")
		for i := 0; i+len(wanted) <= len(lines); i++ {
			same := true
			for j, want := range wanted {
				if squeeze(lines[i+j]) != want {
					same = false
					break
				}
			}
			if same {
				return fault.New(fault.NotFound, "\"old_string\" does not occur in %s as it is given; lines %d to %d differ from it in white space only. Read them and copy the text exactly, without the line numbers.", rel, i+1, i+len(wanted))
			}
		}
	}
	return fault.New(fault.NotFound, "\"old_string\" does not occur in %s. Read the file again and copy the text exactly, without the line numbers.", rel)
}

func squeeze(line string) string { return strings.Join(strings.Fields(line), " ") }

func squeezedLines(s string) []string {
	s = strings.Trim(s, "\r\n")
	if strings.TrimSpace(s) == "" {
		return nil
	}
	lines := strings.Split(s, "\n")
	for i, line := range lines {
		lines[i] = squeeze(line)
	}
	return lines
}
