package markdown

import (
	"fmt"
	"strings"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
	"github.com/yuin/goldmark/ast"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/util"

	"lilac/internal/foundation/text"
	"lilac/internal/serve/httpapi"
)

// span is text in one style, without line breaks.
type span struct {
	text  string
	style lipgloss.Style
}

// line is one line of the terminal.
type line []span

func (l line) width() (n int) {
	for _, s := range l {
		n += ansi.StringWidth(s.text)
	}
	return n
}

func (l line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.style.Render(s.text))
	}
	return b.String()
}

// inline returns the inline content of a block as lines that are not wrapped yet; a hard
// line break begins a new one.
func (r *renderer) inline(parent ast.Node, style lipgloss.Style) []line {
	lines := []line{nil}
	add := func(s string, style lipgloss.Style) {
		if s = clean(s); s != "" {
			lines[len(lines)-1] = append(lines[len(lines)-1], span{s, style})
		}
	}
	var walk func(n ast.Node, style lipgloss.Style)
	walk = func(n ast.Node, style lipgloss.Style) {
		for c := n.FirstChild(); c != nil; c = c.NextSibling() {
			switch c := c.(type) {
			case *ast.Text:
				raw := c.Segment.Value(r.source)
				if !c.IsRaw() {
					raw = resolve(raw)
				}
				add(string(raw), style)
				switch {
				case c.HardLineBreak():
					lines = append(lines, nil)
				case c.SoftLineBreak():
					add(" ", style)
				}
			case *ast.String:
				add(string(c.Value), style)
			case *ast.CodeSpan:
				add(r.label(c), r.styles.Code)
			case *ast.Emphasis:
				if c.Level >= 2 {
					walk(c, style.Bold(true))
				} else {
					walk(c, style.Italic(true))
				}
			case *extast.Strikethrough:
				walk(c, style.Strikethrough(true))
			case *extast.TaskCheckBox:
				if c.IsChecked {
					add("☑ ", style)
				} else {
					add("☐ ", style)
				}
			case *httpapi.Formula:
				for i, l := range strings.Split(string(c.Source), "\n") {
					if i > 0 {
						add(" ", style)
					}
					add(l, r.styles.Code)
				}
			case *extast.FootnoteLink:
				add(fmt.Sprintf("[%d]", c.Index), r.styles.Faint)
			case *ast.AutoLink:
				add(string(c.Label(r.source)), r.styles.Link)
			case *ast.Link:
				walk(c, r.styles.Link)
				r.target(c, string(resolve(c.Destination)), add)
			case *ast.Image:
				walk(c, r.styles.Link)
				r.target(c, string(resolve(c.Destination)), add)
			default:
				walk(c, style)
			}
		}
	}
	walk(parent, style)
	return lines
}

// target adds the address of a link unless its text is the address.
func (r *renderer) target(link ast.Node, address string, add func(string, lipgloss.Style)) {
	if strings.TrimPrefix(address, "mailto:") != r.label(link) {
		add(" ("+address+")", r.styles.Faint)
	}
}

// label returns the text of an inline node as it is written.
func (r *renderer) label(n ast.Node) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Segment.Value(r.source))
		} else {
			b.WriteString(r.label(c))
		}
	}
	return strings.ReplaceAll(b.String(), "\n", " ")
}

// resolve replaces entities and backslash escapes.
func resolve(raw []byte) []byte {
	return util.ResolveEntityNames(util.ResolveNumericReferences(util.UnescapePunctuations(raw)))
}

// clean removes what a terminal would act on, and line breaks.
func clean(s string) string {
	return strings.NewReplacer("\n", " ", "\t", "    ").Replace(text.Sanitize(s))
}

// wrap breaks a line at spaces so that no part is wider than width. Words that do not
// fit on one line are broken.
func wrap(l line, width int) (out []line) {
	width = max(width, 1)
	var current, word line
	used, wordWidth, gap := 0, 0, 0
	var gapStyle lipgloss.Style
	flush := func() {
		if len(word) == 0 {
			return
		}
		if used > 0 && used+gap+wordWidth > width && wordWidth <= width {
			out, current, used = append(out, current), nil, 0
		} else if used > 0 && gap > 0 {
			current, used = append(current, span{strings.Repeat(" ", gap), gapStyle}), used+gap
		}
		for _, s := range word {
			for s.text != "" {
				part := ansi.Truncate(s.text, max(width-used, 0), "")
				if part == "" && used == 0 { // a character wider than the terminal
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
		word, wordWidth, gap = nil, 0, 0
	}
	for _, s := range l {
		for rest := s.text; rest != ""; {
			if n := len(rest) - len(strings.TrimLeft(rest, " ")); n > 0 {
				flush()
				gap, gapStyle, rest = 1, s.style, rest[n:]
				continue
			}
			end := strings.IndexByte(rest, ' ')
			if end < 0 {
				end = len(rest)
			}
			word, wordWidth, rest = append(word, span{rest[:end], s.style}), wordWidth+ansi.StringWidth(rest[:end]), rest[end:]
		}
	}
	flush()
	return append(out, current)
}
