package markdown

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"

	"lilac/internal/serve/httpapi"
)

// Styles are the styles of a document.
type Styles struct {
	Text, Heading, Faint, Link, Code, Marker    lipgloss.Style
	Comment, Keyword, Literal, Number, Function lipgloss.Style
	Added, Removed                              lipgloss.Style
}

// minWidth is the width, in cells, below which nested blocks are not indented further.
const minWidth = 16

// Render returns source as styled lines that are at most width cells wide. Each line sets
// its own styles and resets them at its end.
func Render(source string, width int, styles Styles) []string {
	r := &renderer{source: []byte(source), styles: styles}
	var lines []line
	if tree, ok := httpapi.ParseMarkdown(r.source); ok {
		lines = r.blocks(tree, width, true)
	} else {
		lines = r.plain(source, width)
	}
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l.String()
	}
	return out
}

type renderer struct {
	source []byte
	styles Styles
}

// plain returns the lines of text without any markup.
func (r *renderer) plain(source string, width int) (out []line) {
	for l := range strings.SplitSeq(source, "\n") {
		out = append(out, wrap(line{{clean(l), r.styles.Text}}, width)...)
	}
	return out
}

// blocks renders the children of a node. If loose is set, an empty line separates them.
func (r *renderer) blocks(parent ast.Node, width int, loose bool) (out []line) {
	for c := parent.FirstChild(); c != nil; c = c.NextSibling() {
		if loose && len(out) > 0 {
			out = append(out, nil)
		}
		out = append(out, r.block(c, width)...)
	}
	return out
}

func (r *renderer) block(n ast.Node, width int) []line {
	switch n := n.(type) {
	case *ast.Heading:
		style := r.styles.Heading
		if n.Level == 1 {
			style = style.Underline(true)
		}
		return r.paragraph(n, width, style)
	case *ast.ThematicBreak:
		return []line{{{strings.Repeat("─", min(width, 24)), r.styles.Faint}}}
	case *ast.FencedCodeBlock:
		return r.code(n, string(n.Language(r.source)), width)
	case *ast.CodeBlock:
		return r.code(n, "", width)
	case *ast.Blockquote:
		return prefix(r.blocks(n, narrower(width, 2), true), span{"▎ ", r.styles.Faint}, span{"▎ ", r.styles.Faint})
	case *ast.List:
		return r.list(n, width)
	case *extast.Table:
		return r.table(n, width)
	case *httpapi.FormulaBlock:
		return r.indented(string(n.Source(r.source)), "", width)
	case *extast.FootnoteList:
		return r.footnotes(n, width)
	}
	if n.Type() == ast.TypeBlock && n.FirstChild() != nil && n.FirstChild().Type() == ast.TypeBlock {
		return r.blocks(n, width, true)
	}
	return r.paragraph(n, width, r.styles.Text)
}

// narrower is the width inside of an indentation of n cells.
func narrower(width, n int) int { return max(width-n, min(width, minWidth)) }

func (r *renderer) paragraph(n ast.Node, width int, style lipgloss.Style) (out []line) {
	for _, l := range r.inline(n, style) {
		out = append(out, wrap(l, width)...)
	}
	return out
}

// prefix puts first before the first line, and rest before the others.
func prefix(lines []line, first, rest span) []line {
	for i, l := range lines {
		mark := rest
		if i == 0 {
			mark = first
		}
		lines[i] = append(line{mark}, l...)
	}
	return lines
}

func (r *renderer) list(n *ast.List, width int) (out []line) {
	number := n.Start
	for item := n.FirstChild(); item != nil; item = item.NextSibling() {
		marker := "• "
		if n.IsOrdered() {
			marker = fmt.Sprintf("%d%c ", number, n.Marker)
			number++
		} else if isTask(item) {
			marker = ""
		}
		indent := max(ansi.StringWidth(marker), 2)
		lines := r.blocks(item, narrower(width, indent), !n.IsTight)
		if len(lines) == 0 {
			lines = []line{nil}
		}
		if !n.IsTight && len(out) > 0 {
			out = append(out, nil)
		}
		if marker == "" { // the check box is the marker
			out = append(out, lines...)
			continue
		}
		out = append(out, prefix(lines, span{marker, r.styles.Marker}, span{strings.Repeat(" ", indent), r.styles.Text})...)
	}
	return out
}

// footnotes renders the footnotes at the end of a text with their numbers.
func (r *renderer) footnotes(list ast.Node, width int) (out []line) {
	for c := list.FirstChild(); c != nil; c = c.NextSibling() {
		note, ok := c.(*extast.Footnote)
		if !ok {
			continue
		}
		marker := fmt.Sprintf("[%d] ", note.Index)
		indent := ansi.StringWidth(marker)
		lines := r.blocks(note, narrower(width, indent), true)
		for len(lines) > 0 && lines[len(lines)-1].width() == 0 { // the link back has no text
			lines = lines[:len(lines)-1]
		}
		if len(lines) == 0 {
			lines = []line{nil}
		}
		out = append(out, prefix(lines, span{marker, r.styles.Faint}, span{strings.Repeat(" ", indent), r.styles.Text})...)
	}
	return out
}

// isTask reports whether a list item begins with a check box.
func isTask(item ast.Node) bool {
	if item.FirstChild() == nil {
		return false
	}
	_, ok := item.FirstChild().FirstChild().(*extast.TaskCheckBox)
	return ok
}

// code renders a code block, indented by two cells. Long lines are broken.
func (r *renderer) code(n ast.Node, language string, width int) (out []line) {
	var source strings.Builder
	for i := range n.Lines().Len() {
		segment := n.Lines().At(i)
		source.Write(segment.Value(r.source))
	}
	return r.indented(strings.TrimRight(source.String(), "\n"), language, width)
}

func (r *renderer) indented(source, language string, width int) (out []line) {
	for _, l := range highlighted(source, language, r.styles) {
		for _, part := range breakAt(l, narrower(width, 2)) {
			out = append(out, append(line{{"  ", r.styles.Text}}, part...))
		}
	}
	return out
}

// breakAt breaks a line of code at a width and keeps all spaces.
func breakAt(l line, width int) (out []line) {
	var current line
	used := 0
	for _, s := range l {
		for s.text != "" {
			part := ansi.Truncate(s.text, width-used, "")
			if part == "" && used == 0 {
				part = s.text
			}
			if part != "" {
				current, used = append(current, span{part, s.style}), used+ansi.StringWidth(part)
			}
			if s.text = s.text[len(part):]; s.text != "" {
				out, current, used = append(out, current), nil, 0
			}
		}
	}
	return append(out, current)
}
