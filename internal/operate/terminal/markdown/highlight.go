package markdown

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"charm.land/lipgloss/v2"

	"lilac/internal/foundation/text"
)

// highlight returns the styled lines of code. Code in an unknown language has one style.
func highlight(code, name string, styles Styles) []line {
	code = strings.ReplaceAll(text.Sanitize(code), "\t", "    ")
	name, _, _ = strings.Cut(strings.ToLower(strings.TrimSpace(name)), " ")
	if name == "diff" || name == "patch" {
		return diff(code, styles)
	}
	l, ok := languageOf(name)
	if !ok {
		return split([]span{{code, styles.Text}})
	}
	return split(l.tokens(code, styles))
}

// diff styles added and removed lines.
func diff(code string, styles Styles) (out []line) {
	for l := range strings.SplitSeq(code, "\n") {
		style := styles.Text
		switch {
		case strings.HasPrefix(l, "+++"), strings.HasPrefix(l, "---"), strings.HasPrefix(l, "diff "), strings.HasPrefix(l, "index "):
			style = styles.Text.Bold(true)
		case strings.HasPrefix(l, "+"):
			style = styles.Added
		case strings.HasPrefix(l, "-"):
			style = styles.Removed
		case strings.HasPrefix(l, "@@"):
			style = styles.Keyword
		}
		out = append(out, line{{l, style}})
	}
	return out
}

// split breaks tokens into lines.
func split(tokens []span) (out []line) {
	var current line
	for _, t := range tokens {
		for i, part := range strings.Split(t.text, "\n") {
			if i > 0 {
				out, current = append(out, current), nil
			}
			if part != "" {
				current = append(current, span{part, t.style})
			}
		}
	}
	return append(out, current)
}

// tokens splits code into comments, strings, numbers, words, and the rest. It never fails:
// an unclosed comment or string ends with the code or, for a string of one line, with its
// line.
func (l language) tokens(code string, styles Styles) (out []span) {
	plain := 0
	emit := func(at, end int, style lipgloss.Style) {
		if at > plain {
			out = append(out, span{code[plain:at], styles.Text})
		}
		out = append(out, span{code[at:end], style})
		plain = end
	}
	for at := 0; at < len(code); {
		rest := code[at:]
		if end, ok := l.comment(code, at); ok {
			emit(at, end, styles.Comment)
			at = end
			continue
		}
		if end, ok := l.quoted(code, at); ok {
			emit(at, end, styles.Literal)
			at = end
			continue
		}
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case unicode.IsDigit(r):
			end := at + wordLen(rest, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.' || r == '_' })
			emit(at, end, styles.Number)
			at = end
		case isWord(r):
			end := at + wordLen(rest, func(r rune) bool { return isWord(r) || unicode.IsDigit(r) || l.hyphens && r == '-' })
			word := code[at:end]
			switch {
			case l.keyword(word):
				emit(at, end, styles.Keyword)
			case end < len(code) && code[end] == '(', l.keys && end < len(code) && code[end] == ':':
				emit(at, end, styles.Function)
			}
			at = end
		default:
			at += size
		}
	}
	if plain < len(code) {
		out = append(out, span{code[plain:], styles.Text})
	}
	return out
}

func isWord(r rune) bool { return unicode.IsLetter(r) || r == '_' || r == '$' || r == '@' }

func wordLen(s string, in func(rune) bool) int {
	if end := strings.IndexFunc(s, func(r rune) bool { return !in(r) }); end >= 0 {
		return end
	}
	return len(s)
}

// comment returns the end of the comment that begins at a position.
func (l language) comment(code string, at int) (end int, ok bool) {
	rest := code[at:]
	for _, mark := range l.lineComments {
		if !strings.HasPrefix(rest, mark) {
			continue
		}
		if mark == "#" && at > 0 && !strings.ContainsRune(" \n;(", rune(code[at-1])) {
			continue // part of a word, such as $# in a shell
		}
		if n := strings.IndexByte(rest, '\n'); n >= 0 {
			return at + n, true
		}
		return len(code), true
	}
	if l.blockComment[0] != "" && strings.HasPrefix(rest, l.blockComment[0]) {
		if n := strings.Index(rest[len(l.blockComment[0]):], l.blockComment[1]); n >= 0 {
			return at + len(l.blockComment[0]) + n + len(l.blockComment[1]), true
		}
		return len(code), true
	}
	return 0, false
}

// quoted returns the end of the string that begins at a position.
func (l language) quoted(code string, at int) (end int, ok bool) {
	for _, mark := range l.quotes {
		if !strings.HasPrefix(code[at:], mark) {
			continue
		}
		if mark == "'" && l.lifetimes && !closesSoon(code[at+1:]) {
			continue
		}
		lines := len(mark) > 1 || mark == "`"
		for i := at + len(mark); i < len(code); i++ {
			switch {
			case code[i] == '\\' && mark != "`":
				i++
			case code[i] == '\n' && !lines:
				return i, true
			case strings.HasPrefix(code[i:], mark):
				return i + len(mark), true
			}
		}
		return len(code), true
	}
	return 0, false
}

// closesSoon reports whether a single quote closes after one character, as opposed to a
// lifetime of Rust.
func closesSoon(rest string) bool {
	if strings.HasPrefix(rest, `\`) {
		return true
	}
	_, size := utf8.DecodeRuneInString(rest)
	return strings.HasPrefix(rest[size:], "'")
}
