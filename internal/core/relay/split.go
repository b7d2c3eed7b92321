package relay

import (
	"math"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Piece is what one message shows of a text. The Sources of all pieces, one
// after the other, are the text; Prefix reopens a fenced block that was cut in
// two, Suffix closes it.
type Piece struct {
	Prefix, Source, Suffix string
	// unseen is how much white space at the beginning of Source is not shown.
	unseen int
}

// String is what the message shows: without empty lines at its beginning and
// white space at its end, which platforms drop anyway.
func (p Piece) String() string {
	return p.Prefix + strings.TrimRightFunc(p.Source[p.unseen:], unicode.IsSpace) + p.Suffix
}

const (
	// maxFence bounds a fence that is closed and opened again, with what
	// follows it on its line; a longer one is cut like any text.
	maxFence = 24
	// minFill is the part of a message that is filled, in percent, before a
	// nicer place to cut is looked for.
	minFill = 50
)

// Split cuts a text into messages of at most limit UTF-16 units (Discord's
// measure). It cuts where it is seen least: between paragraphs, lines,
// sentences, words, and at last between characters as people see them; never
// inside a link unless that alone is too long. A fenced block is closed in each
// message, also where the text ends in it. White space alone makes no message.
// The limit is at least 100.
func Split(text string, limit int) []Piece { return split(text, limit, math.MaxInt) }

// split stops after so many messages.
func split(text string, limit, most int) []Piece {
	limit = max(limit, 100)
	var pieces []Piece
	var open fence
	for !blank(text) && len(pieces) < most {
		prefix := open.reopen()
		room := limit - units(prefix)
		unseen := leading(text, room, open)
		end, after := cut(text[unseen:], room, open)
		if end += unseen; blank(text[end:]) {
			end = len(text)
		}
		pieces = append(pieces, Piece{Prefix: prefix, Source: text[:end], Suffix: after.close(), unseen: unseen})
		text, open = text[end:], after
	}
	return pieces
}

// blank looks no further than it must: the rest of a text is asked for each
// message.
func blank(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !unicode.IsSpace(r) }) < 0
}

// units is the length of s in UTF-16 units.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// cut finds where a message that begins with text ends, and the fence that is
// open there. It takes white space that follows with it.
func cut(text string, room int, open fence) (end int, after fence) {
	window := prefixOf(text, room)
	if window == len(text) {
		if after = open.through(text); after.fits(text, room) {
			return len(text), after
		}
	}
	for {
		end = place(text, window)
		if after = open.through(text[:end]); after.fits(text[:end], room) {
			break
		}
		// Make room for the line that closes the fence.
		window = prefixOf(text, units(text[:window])-max(1, units(after.close())))
	}
	if after.length > 0 && after.start > 0 && strings.TrimSpace(text[after.body:end]) == "" && strings.TrimSpace(text[:after.start]) != "" {
		// Nothing of the block would be seen: it begins in the next message.
		end, after = after.start, open.through(text[:after.start])
	}
	if after.length == 0 {
		end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
	} else if end < len(text) && text[end] == '\n' {
		end++ // the indentation of code is the next message's
	}
	return end, after
}

// leading is how much white space at the beginning is not shown: all of it in
// prose, empty lines in code, and whatever would fill a message alone.
func leading(text string, room int, open fence) int {
	all := len(text) - len(strings.TrimLeftFunc(text, unicode.IsSpace))
	if open.length == 0 {
		return all
	}
	lines := strings.LastIndexByte(text[:all], '\n') + 1
	if units(text[lines:all]) > room/2 {
		return all
	}
	return lines
}

// prefixOf is the length in bytes of the longest prefix of at most n units.
func prefixOf(text string, n int) int {
	for i, r := range text {
		if n -= max(utf16.RuneLen(r), 1); n < 0 {
			return i
		}
	}
	return len(text)
}

// whole matches what is not cut if it can be helped: links and code spans.
var whole = regexp.MustCompile("\\[[^\\]\\n]*\\]\\([^)\\s]*\\)|<?https?://[^\\s>)]+[>)]?|`[^`\\n]+`")

// place is the best place to cut in text[:window].
func place(text string, window int) int {
	least := prefixOf(text, units(text[:window])*minFill/100)
	// A link may reach over the end of the window.
	reach := min(len(text), window+2048)
	kept := whole.FindAllStringIndex(strings.ToValidUTF8(text[:reach], "?"), -1)
	inside := func(i int) bool {
		for _, k := range kept {
			if i > k[0] && i < k[1] {
				return true
			}
		}
		return false
	}
	for _, separator := range []string{"\n\n", "\n", ". ", " "} {
		for i := window; i > least; {
			at := strings.LastIndex(text[:i], separator)
			if at < least {
				break
			}
			if end := at + len(separator); !inside(end) && end <= window && strings.TrimSpace(text[:end]) != "" {
				return end
			}
			i = at + len(separator) - 1
		}
	}
	for i := window; i > least; i = before(text, i) {
		if !inside(i) && boundary(text, i) {
			return i
		}
	}
	for _, k := range kept { // a link that begins early and is too long
		if window > k[0] && window < k[1] && strings.TrimSpace(text[:k[0]]) != "" && units(text[k[0]:k[1]]) <= units(text[:window]) {
			return k[0]
		}
	}
	for i := window; i > 0; i = before(text, i) {
		if boundary(text, i) {
			return i
		}
	}
	return max(window, before(text, window), 1)
}

func before(text string, i int) int {
	_, size := utf8.DecodeLastRuneInString(text[:i])
	return i - size
}

// boundary reports whether two characters, as people see them, meet at i. It
// is a good part of Unicode's rules (UAX #29): marks, joiners, emoji with
// their modifiers, flags, and the two parts of a line's end.
func boundary(text string, i int) bool {
	last, _ := utf8.DecodeLastRuneInString(text[:i])
	next, _ := utf8.DecodeRuneInString(text[i:])
	const joiner = '\u200d'
	switch {
	case unicode.Is(unicode.M, next) || next == joiner || last == joiner:
		return false
	case next >= 0x1F3FB && next <= 0x1F3FF: // skin tones
		return false
	case next >= 0xE0020 && next <= 0xE007F: // tags of flags
		return false
	case last == '\r' && next == '\n':
		return false
	case flag(last) && flag(next):
		n := 0
		for rest := text[:i]; ; n++ {
			r, size := utf8.DecodeLastRuneInString(rest)
			if !flag(r) {
				break
			}
			rest = rest[:len(rest)-size]
		}
		return n%2 == 0
	}
	return true
}

// flag reports whether r is one of the letters that make flags in pairs.
func flag(r rune) bool { return r >= 0x1F1E6 && r <= 0x1F1FF }
