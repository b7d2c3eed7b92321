package entity

import "strings"

// prose replaces each part of a text outside of code with the result of f. Code is
// a fenced block or a code span (CommonMark, "Fenced code blocks", "Code spans").
func prose(text string, f func(string) string) string {
	var out strings.Builder
	from := 0
	code := func(start, end int) {
		out.WriteString(f(text[from:start]))
		out.WriteString(text[start:end])
		from = end
	}
	for i := 0; i < len(text); {
		if atLineStart(text, i) {
			if end, ok := fencedBlock(text, i); ok {
				code(i, end)
				i = end
				continue
			}
		}
		if text[i] != '`' {
			i++
			continue
		}
		n := run(text[i:], '`')
		if end, ok := spanEnd(text, i+n, n); ok {
			code(i, end)
			i = end
		} else {
			i += n
		}
	}
	out.WriteString(f(text[from:]))
	return out.String()
}

func atLineStart(text string, i int) bool { return i == 0 || text[i-1] == '\n' }

// run returns the number of times that s begins with c.
func run(s string, c byte) int {
	n := 0
	for n < len(s) && s[n] == c {
		n++
	}
	return n
}

// fencedBlock returns the end of the fenced block that begins at the line start i.
// An unclosed block ends at the end of the text.
func fencedBlock(text string, i int) (end int, ok bool) {
	line, next := lineAt(text, i)
	fence, length, info := openingFence(line)
	if length == 0 || fence == '`' && strings.Contains(info, "`") {
		return 0, false
	}
	for next < len(text) {
		line, after := lineAt(text, next)
		c, n, rest := openingFence(line)
		if c == fence && n >= length && strings.TrimSpace(rest) == "" {
			return after, true
		}
		next = after
	}
	return len(text), true
}

// lineAt returns the line at i without its newline, and the start of the next.
func lineAt(text string, i int) (line string, next int) {
	if n := strings.IndexByte(text[i:], '\n'); n >= 0 {
		return text[i : i+n], i + n + 1
	}
	return text[i:], len(text)
}

// openingFence parses a line: the fence's character, its length (0 if there is
// none), and the rest of the line.
func openingFence(line string) (c byte, length int, rest string) {
	indent := run(line, ' ')
	if indent > 3 || indent == len(line) {
		return 0, 0, ""
	}
	line = line[indent:]
	if line[0] != '`' && line[0] != '~' {
		return 0, 0, ""
	}
	if length = run(line, line[0]); length < 3 {
		return 0, 0, ""
	}
	return line[0], length, line[length:]
}

// spanEnd finds the run of exactly n backticks that closes a code span whose
// content begins at i. A span cannot contain an empty line.
func spanEnd(text string, i, n int) (end int, ok bool) {
	for i < len(text) {
		switch text[i] {
		case '\n':
			if line, _ := lineAt(text, i+1); strings.TrimSpace(line) == "" {
				return 0, false
			}
			i++
		case '`':
			m := run(text[i:], '`')
			i += m
			if m == n {
				return i, true
			}
		default:
			i++
		}
	}
	return 0, false
}
