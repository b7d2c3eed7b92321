package markdown

import "strings"

// Complete returns how many bytes at the beginning of a growing text are complete: they
// end at an empty line outside of code, followed by a line that cannot continue the block
// before it. Rendering this part and the rest one after the other, separated by an empty
// line, gives the same result as rendering the text as a whole.
func Complete(source string) int {
	complete, at := 0, 0
	fence := ""
	empty := false // the line before is empty
	for at < len(source) {
		end := strings.IndexByte(source[at:], '\n')
		if end < 0 {
			end = len(source) - at
		}
		l := source[at : at+end]
		trimmed := strings.TrimLeft(l, " ")
		switch {
		case fence != "":
			if strings.HasPrefix(trimmed, fence) && strings.Trim(trimmed, fence[:1]+" \t\r") == "" {
				fence = ""
			}
		case strings.TrimSpace(l) == "":
			empty = true
			at += end + 1
			continue
		default:
			if empty && at+end < len(source) && !continues(l) {
				complete = at
			}
			// A footnote may follow at the end of the text.
			if strings.Contains(l, "[^") {
				return complete
			}
			if f := fenceOf(trimmed); f != "" {
				fence = f
			}
		}
		empty = false
		at += end + 1
	}
	return complete
}

// continues reports whether a line after an empty one may belong to the block before it:
// list items and what is indented. Their numbers and spacing depend on the whole list.
func continues(l string) bool {
	if l[0] == ' ' || l[0] == '\t' {
		return true
	}
	digits := len(l) - len(strings.TrimLeft(l, "0123456789"))
	rest := l[digits:]
	if digits > 0 {
		return strings.HasPrefix(rest, ". ") || strings.HasPrefix(rest, ") ")
	}
	return strings.HasPrefix(l, "- ") || strings.HasPrefix(l, "* ") || strings.HasPrefix(l, "+ ")
}

// fenceOf returns the fence that a line begins, or "".
func fenceOf(trimmed string) string {
	for _, mark := range []string{"`", "~"} {
		n := len(trimmed) - len(strings.TrimLeft(trimmed, mark))
		if n >= 3 && (mark == "~" || !strings.Contains(trimmed[n:], "`")) {
			return strings.Repeat(mark, n)
		}
	}
	return ""
}
