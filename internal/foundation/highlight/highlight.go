package highlight

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Kind is what a piece of code is.
type Kind string

// The kinds. Added to Marked are those of a diff.
const (
	Plain    Kind = ""
	Comment  Kind = "comment"
	Literal  Kind = "literal" // a string
	Number   Kind = "number"
	Keyword  Kind = "keyword"
	Function Kind = "function" // the name of a call, or a key
	Added    Kind = "added"
	Removed  Kind = "removed"
	Marked   Kind = "marked" // the head of a file
)

// Token is a piece of code. It may have several lines.
type Token struct {
	Text string
	Kind Kind
}

// Language returns the name of a language in the info string of a code block ("go title=x"), or "".
func Language(info string) string {
	name, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(info)), " ")
	return name
}

// Tokens splits code in a language; the texts of the tokens join to the code. It never fails: code
// in an unknown language is plain, and an unclosed comment or string ends with the code or, for a
// string of one line, with its line.
func Tokens(code, name string) []Token {
	if name == "diff" || name == "patch" {
		return diff(code)
	}
	l, ok := languageOf(name)
	if !ok {
		return []Token{{code, Plain}}
	}
	return l.tokens(code)
}

// diff tells added and removed lines apart.
func diff(code string) (out []Token) {
	for l := range strings.Lines(code) {
		kind := Plain
		switch {
		case strings.HasPrefix(l, "+++"), strings.HasPrefix(l, "---"), strings.HasPrefix(l, "diff "), strings.HasPrefix(l, "index "):
			kind = Marked
		case strings.HasPrefix(l, "+"):
			kind = Added
		case strings.HasPrefix(l, "-"):
			kind = Removed
		case strings.HasPrefix(l, "@@"):
			kind = Keyword
		}
		out = append(out, Token{l, kind})
	}
	return out
}

// tokens splits code into comments, strings, numbers, words, and the rest.
func (l language) tokens(code string) (out []Token) {
	plain := 0
	emit := func(at, end int, kind Kind) {
		if at > plain {
			out = append(out, Token{code[plain:at], Plain})
		}
		out = append(out, Token{code[at:end], kind})
		plain = end
	}
	for at := 0; at < len(code); {
		rest := code[at:]
		if end, ok := l.comment(code, at); ok {
			emit(at, end, Comment)
			at = end
			continue
		}
		if end, ok := l.quoted(code, at); ok {
			emit(at, end, Literal)
			at = end
			continue
		}
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case unicode.IsDigit(r):
			end := at + wordLen(rest, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) || r == '.' || r == '_' })
			emit(at, end, Number)
			at = end
		case isWord(r):
			end := at + wordLen(rest, func(r rune) bool { return isWord(r) || unicode.IsDigit(r) || l.hyphens && r == '-' })
			word := code[at:end]
			switch {
			case l.keyword(word):
				emit(at, end, Keyword)
			case end < len(code) && code[end] == '(', l.keys && end < len(code) && code[end] == ':':
				emit(at, end, Function)
			}
			at = end
		default:
			at += size
		}
	}
	if plain < len(code) {
		out = append(out, Token{code[plain:], Plain})
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
