package markdown

import (
	"strings"

	"charm.land/lipgloss/v2"

	"lilac/internal/foundation/highlight"
	"lilac/internal/foundation/text"
)

// highlighted returns the styled lines of code. Code in an unknown language has one style.
func highlighted(code, info string, styles Styles) (out []line) {
	code = strings.ReplaceAll(text.Sanitize(code), "\t", "    ")
	var current line
	for _, t := range highlight.Tokens(code, highlight.Language(info)) {
		style := styles.of(t.Kind)
		for i, part := range strings.Split(t.Text, "\n") {
			if i > 0 {
				out, current = append(out, current), nil
			}
			if part != "" {
				current = append(current, span{part, style})
			}
		}
	}
	return append(out, current)
}

func (s Styles) of(k highlight.Kind) lipgloss.Style {
	switch k {
	case highlight.Comment:
		return s.Comment
	case highlight.Literal:
		return s.Literal
	case highlight.Number:
		return s.Number
	case highlight.Keyword:
		return s.Keyword
	case highlight.Function:
		return s.Function
	case highlight.Added:
		return s.Added
	case highlight.Removed:
		return s.Removed
	case highlight.Marked:
		return s.Text.Bold(true)
	}
	return s.Text
}
