package setup

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"lilac/internal/foundation/fault"
)

// A Change sets the value at a path, or removes the key if Value is nil.
type Change struct {
	Path  []string
	Value any
}

// set sets the value at a path such as "surface.discord.token".
func set(path string, value any) Change { return Change{strings.Split(path, "."), value} }

// Edit makes the changes in the text of a YAML file. It rewrites only the lines of the keys that
// change, and adds new keys at the end of their sections.
func Edit(text string, changes ...Change) (string, error) {
	bom, newline := "", "\n"
	if rest, ok := strings.CutPrefix(text, "\ufeff"); ok {
		bom, text = "\ufeff", rest
	}
	if strings.Contains(text, "\r\n") {
		newline, text = "\r\n", strings.ReplaceAll(text, "\r\n", "\n")
	}
	for _, c := range changes {
		after, err := edit(text, c)
		if err != nil {
			return "", err
		}
		if err := verify(text, after, c); err != nil {
			return "", err
		}
		text = after
	}
	return bom + strings.ReplaceAll(text, "\n", newline), nil
}

// tooUnusual is the error for a layout that Edit does not understand.
func tooUnusual(c Change) error {
	return fault.New(fault.Invalid, "The configuration file has a layout that cannot be edited safely at %s. Change it by hand:\n%s", strings.Join(c.Path, "."), render(c.Path, c.Value, 0))
}

// verify checks that after is text with the change and nothing else.
func verify(text, after string, c Change) error {
	var want, got map[string]any
	if err := yaml.Unmarshal([]byte(text), &want); err != nil {
		return fault.Wrap(fault.Invalid, err, "The configuration file has a mistake. \"lilac config check\" says where")
	}
	var value any
	if c.Value != nil {
		data, err := yaml.Marshal(c.Value)
		if err == nil {
			err = yaml.Unmarshal(data, &value)
		}
		if err != nil {
			return fmt.Errorf("encode %s: %w", strings.Join(c.Path, "."), err)
		}
	}
	if err := yaml.Unmarshal([]byte(after), &got); err != nil || !reflect.DeepEqual(put(want, c.Path, value), pruned(got)) {
		return tooUnusual(c)
	}
	return nil
}

// put returns a copy of tree with a value at a path; nil removes it. Sections that become empty are
// removed, as pruned does.
func put(tree map[string]any, path []string, value any) map[string]any {
	out := maps.Clone(tree)
	if out == nil {
		out = map[string]any{}
	}
	if len(path) > 1 {
		below, _ := out[path[0]].(map[string]any)
		value = put(below, path[1:], value)
	}
	out[path[0]] = value
	return pruned(out)
}

// pruned removes null values and empty sections.
func pruned(tree map[string]any) map[string]any {
	out := map[string]any{}
	for key, value := range tree {
		if below, ok := value.(map[string]any); ok {
			below = pruned(below)
			if value = below; len(below) == 0 {
				value = nil
			}
		}
		if value != nil {
			out[key] = value
		}
	}
	return out
}

// edit makes one change.
func edit(text string, c Change) (string, error) {
	body, err := parse(text)
	if err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if text == "" {
		lines = nil
	}
	in := entries(body)
	if in == nil && body != nil {
		return "", tooUnusual(c)
	}
	for i, key := range c.Path {
		at := slices.IndexFunc(in, func(v *ast.MappingValueNode) bool { return v.Key.GetToken().Value == key })
		if at < 0 {
			if c.Value == nil {
				return text, nil
			}
			return insert(lines, in, c.Path[i:], c.Value), nil
		}
		entry := in[at]
		if i == len(c.Path)-1 {
			return replace(lines, entry, c.Value), nil
		}
		switch below := entry.Value.(type) {
		case *ast.MappingNode, *ast.MappingValueNode:
			if in = entries(below); in != nil {
				continue
			}
			// A section in braces is written anew.
			var tree yaml.MapSlice
			if err := yaml.NodeToValue(below, &tree, yaml.UseOrderedMap()); err != nil {
				return "", tooUnusual(c)
			}
			return replace(lines, entry, putOrdered(tree, c.Path[i+1:], c.Value)), nil
		case *ast.NullNode:
			return replace(lines, entry, nested(c.Path[i+1:], c.Value)), nil
		default:
			return "", tooUnusual(c)
		}
	}
	return "", tooUnusual(c)
}

// parse returns the body of the only document, nil if the file has no keys.
func parse(text string) (ast.Node, error) {
	file, err := parser.ParseBytes([]byte(text), 0)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "The configuration file has a mistake. \"lilac config check\" says where")
	}
	var body ast.Node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		switch doc.Body.Type() {
		case ast.NullType, ast.CommentType, ast.CommentGroupType:
			continue
		}
		if body != nil {
			return nil, fault.New(fault.Invalid, "The configuration file contains several documents.")
		}
		body = doc.Body
	}
	return body, nil
}

// entries returns the entries of a mapping in block style, else nil.
func entries(n ast.Node) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle {
			return n.Values
		}
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	return nil
}

// putOrdered is like put and keeps the order of the keys.
func putOrdered(tree yaml.MapSlice, path []string, value any) yaml.MapSlice {
	at := slices.IndexFunc(tree, func(item yaml.MapItem) bool { return item.Key == path[0] })
	if len(path) > 1 {
		var below yaml.MapSlice
		if at >= 0 {
			below, _ = tree[at].Value.(yaml.MapSlice)
		}
		value = putOrdered(below, path[1:], value)
	}
	if value == nil {
		return slices.DeleteFunc(slices.Clone(tree), func(item yaml.MapItem) bool { return item.Key == path[0] })
	}
	if at < 0 {
		return append(slices.Clone(tree), yaml.MapItem{Key: path[0], Value: value})
	}
	out := slices.Clone(tree)
	out[at].Value = value
	return out
}

func nested(path []string, value any) any {
	for _, key := range slices.Backward(path) {
		if value == nil {
			return nil
		}
		value = yaml.MapSlice{{Key: key, Value: value}}
	}
	return value
}

// render returns the lines of a key and its value, without the last line break.
func render(path []string, value any, indent int) string {
	data, err := yaml.MarshalWithOptions(nested(path, value), yaml.Indent(2), yaml.IndentSequence(true))
	if err != nil || value == nil {
		return ""
	}
	margin := strings.Repeat(" ", indent)
	lines := strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	for i, line := range lines {
		if line != "" {
			lines[i] = margin + line
		}
	}
	return strings.Join(lines, "\n")
}

// insert adds a key after the last one of its section.
func insert(lines []string, in []*ast.MappingValueNode, path []string, value any) string {
	indent, after := 0, len(lines)
	for i, entry := range in {
		start, column := position(entry)
		if i == 0 {
			indent, after = column-1, 0
		}
		after = max(after, last(lines, start, column))
	}
	added := []string{render(path, value, indent)}
	if indent == 0 && after > 0 && strings.TrimSpace(lines[after-1]) != "" {
		added = slices.Insert(added, 0, "")
	}
	return join(slices.Insert(slices.Clone(lines), after, added...))
}

// replace writes the entry anew, or removes it. It keeps a comment on the line of its key.
func replace(lines []string, entry *ast.MappingValueNode, value any) string {
	start, column := position(entry)
	end := last(lines, start, column)
	var written []string
	if value != nil {
		written = strings.Split(render([]string{entry.Key.GetToken().Value}, value, column-1), "\n")
		if comment := commentOn(lines, start); comment != "" {
			written[0] += "  " + comment
		}
	}
	return join(slices.Replace(slices.Clone(lines), start-1, end, written...))
}

func join(lines []string) string {
	if len(lines) == 0 {
		return ""
	}
	return strings.Join(lines, "\n") + "\n"
}

// position returns the line and the column of a key, both from 1.
func position(entry *ast.MappingValueNode) (line, column int) {
	at := entry.Key.GetToken().Position
	return at.Line, at.Column
}

// last returns the last line of an entry: lines that are indented more than its key belong to it,
// and so do the items of a list at the indentation of the key.
func last(lines []string, start, column int) int {
	end := start
	for i := start; i < len(lines); i++ {
		text := strings.TrimLeft(lines[i], " ")
		indent := len(lines[i]) - len(text)
		switch {
		case text == "" || strings.HasPrefix(text, "#") && indent < column:
		case indent >= column || indent == column-1 && (text == "-" || strings.HasPrefix(text, "- ")):
			end = i + 1
		default:
			return end
		}
	}
	return end
}

// commentOn returns the comment at the end of a line, with its #.
func commentOn(lines []string, line int) string {
	for _, t := range lexer.Tokenize(strings.Join(lines, "\n")) {
		if t.Type == token.CommentType && t.Position.Line == line {
			return "#" + strings.TrimRight(t.Value, " ")
		}
	}
	return ""
}
