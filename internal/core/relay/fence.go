package relay

import (
	"strings"
	"unicode"
)

const (
	quoteMark = "> "
	// blockMark begins a quote that ends with the message.
	blockMark = ">>> "
	spoiler   = "||"
)

// fence is an open fenced block, or none if length is 0. Start and body are the
// offsets of its line and its content in the text that [fence.through] read, or -1
// if it was open before.
//
// A block may be in a quote, whose lines begin with "> ", or begin inside a spoiler
// ("||```") or a quote of many lines (">>> ```").
type fence struct {
	char        byte
	length      int
	info        string
	quoted      bool
	start, body int
}

// through returns the fence that is open after text, given the one before it
// (CommonMark, "Fenced code blocks"). The text begins at the start of a line
// unless a fence was cut.
func (f fence) through(text string) fence {
	f.start, f.body = -1, -1
	for at := 0; at < len(text); {
		line, next := text[at:], len(text)
		if n := strings.IndexByte(line, '\n'); n >= 0 {
			line, next = line[:n], at+n+1
		}
		line, quoted := unquoted(line)
		if f.length > 0 && f.quoted && !quoted {
			f = fence{start: -1, body: -1} // the quote has ended, and the block with it
		}
		if f.length == 0 {
			line = strings.TrimPrefix(strings.TrimPrefix(line, blockMark), spoiler)
		} else if f.quoted != quoted {
			line = "" // in code, a mark of a quote is text
		}
		char, length, rest := fenceLine(line)
		switch {
		case length == 0:
		case f.length == 0:
			if char != '`' || !strings.Contains(rest, "`") {
				f = fence{char: char, length: length, info: language(rest), quoted: quoted, start: at, body: next}
			}
		case char == f.char && length >= f.length && (strings.TrimSpace(rest) == "" || strings.HasPrefix(strings.TrimSpace(rest), spoiler)):
			f = fence{start: -1, body: -1}
		}
		at = next
	}
	if f.length > maxFence {
		return fence{start: -1, body: -1}
	}
	if f.length+len(f.info) > maxFence {
		f.info = ""
	}
	return f
}

// language returns the first word of an info string. Platforms show the others as code, or
// ignore them.
func language(info string) string {
	words := strings.Fields(info)
	if len(words) == 0 {
		return ""
	}
	return words[0]
}

// unquoted returns a line without the mark of a quote at its start, and whether it
// had one.
func unquoted(line string) (rest string, quoted bool) {
	if rest, quoted = strings.CutPrefix(line, quoteMark); !quoted && line == ">" {
		return "", true
	}
	return rest, quoted
}

// fenceLine parses a line: the fence's character, its length (0 if there is none),
// and the rest of the line.
func fenceLine(line string) (char byte, length int, rest string) {
	trimmed := strings.TrimLeft(line, " ")
	if len(line)-len(trimmed) > 3 || trimmed == "" || trimmed[0] != '`' && trimmed[0] != '~' {
		return 0, 0, ""
	}
	for length < len(trimmed) && trimmed[length] == trimmed[0] {
		length++
	}
	if length < 3 {
		return 0, 0, ""
	}
	return trimmed[0], length, trimmed[length:]
}

// reopen returns the prefix of a message that continues inside the block.
func (f fence) reopen() string {
	if f.length == 0 {
		return ""
	}
	return f.mark() + strings.Repeat(string(f.char), f.length) + f.info + "\n"
}

// close returns the suffix of a message that ends inside the block.
func (f fence) close() string {
	if f.length == 0 {
		return ""
	}
	return "\n" + f.mark() + strings.Repeat(string(f.char), f.length)
}

// mark returns what begins each line of the block.
func (f fence) mark() string {
	if f.quoted {
		return quoteMark
	}
	return ""
}

// fits reports whether a message that ends inside the block has room for the
// line that closes it.
func (f fence) fits(text string, room int) bool {
	return f.length == 0 || units(strings.TrimRightFunc(text, unicode.IsSpace))+units(f.close()) <= room
}
