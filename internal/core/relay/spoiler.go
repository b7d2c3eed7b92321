package relay

import "strings"

// span is a part of a text, from the first byte to the one behind the last.
type span struct{ from, to int }

// spoilers returns the spoilers of a text, with their marks: text between two "||"
// that are not in code. A mark without a second one is text.
func spoilers(text string) (found []span) {
	if strings.Count(text, spoiler) < 2 {
		return nil
	}
	open := -1
	for _, mark := range spoilerMarks(text) {
		switch end := mark + len(spoiler); {
		case open < 0:
			open = mark
		case end-open == 2*len(spoiler): // nothing is between them
			open = -1
		default:
			found = append(found, span{open, end})
			open = -1
		}
	}
	return found
}

// spoilerMarks returns the offsets of all "||" that are not in code.
func spoilerMarks(text string) (marks []int) {
	var open fence
	start := 0
	for line := range strings.Lines(text) {
		before := open
		open = open.through(line)
		from, to := start, start+len(line)
		switch {
		case before.length == 0 && open.length == 0:
			marks = append(marks, marksInLine(text, from, to)...)
		case before.length == 0: // a block begins, possibly behind a mark
			content, _ := unquoted(line)
			if strings.HasPrefix(content, spoiler) {
				marks = append(marks, from+len(line)-len(content))
			}
		case open.length == 0: // a block ends, possibly before a mark
			if i := strings.Index(line, spoiler); i >= 0 {
				marks = append(marks, marksInLine(text, from+i, to)...)
			}
		}
		start = to
	}
	return marks
}

// marksInLine returns the marks of spoilers in a part of a line that is not in a
// block.
func marksInLine(text string, from, to int) (marks []int) {
	for i := from; i < to; {
		switch {
		case text[i] == '\\':
			i += 2
		case text[i] == '`':
			i += codeSpan(text[i:to])
		case strings.HasPrefix(text[i:to], spoiler):
			marks = append(marks, i)
			i += len(spoiler)
		default:
			i++
		}
	}
	return marks
}

// at returns the span that an offset divides, if there is one.
func at(spans []span, offset int) (s span, inside bool) {
	for _, s := range spans {
		if offset > s.from && offset < s.to {
			return s, true
		}
	}
	return span{}, false
}
