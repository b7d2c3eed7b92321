package relay

import (
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Piece is the part of a text that one message shows. The Sources of all pieces,
// joined, are the text. Prefix reopens a fenced block that was cut in two, and
// Suffix closes it.
type Piece struct {
	Prefix, Source, Suffix string
	// unseen is the length of the white space at the start of Source that is not
	// shown.
	unseen int
}

// String returns the text of the message, without empty lines at its start and
// white space at its end, which platforms drop anyway.
func (p Piece) String() string {
	return p.Prefix + strings.TrimRightFunc(p.Source[p.unseen:], unicode.IsSpace) + p.Suffix
}

const (
	// maxFence bounds a fence, with its language, that is closed and opened again. If they
	// are longer together, it is opened without the language; a longer fence is cut like any
	// text.
	maxFence = 24
	// minFill is the percentage of a message that is filled before a better place
	// to cut is accepted.
	minFill = 50
)

// Split cuts a text into messages of at most limit UTF-16 units (Discord's
// measure), but at least 100. It prefers to cut between paragraphs, then lines,
// sentences, words, and finally grapheme clusters, and never cuts a link that fits
// into a message. Every message closes its fenced block. White space alone makes
// no message.
func Split(text string, limit int) []Piece { return split(text, limit, math.MaxInt) }

// split is like Split but stops after most messages.
func split(text string, limit, most int) []Piece {
	limit = max(limit, 100)
	hidden, block := spoilers(text), blockQuote(text)
	if len(hidden) > 0 {
		limit -= 2 * len(spoiler) // a message may begin and end inside of one
	}
	var pieces []Piece
	var open fence
	done, covered, quoted := 0, false, false
	for !blank(text) && len(pieces) < most {
		if open.quoted && !quoted && !strings.HasPrefix(text, ">") {
			open = fence{start: -1, body: -1} // the quote ended where the text was cut
		}
		prefix := open.reopen()
		inBlock := block >= 0 && done > block
		switch {
		case inBlock:
			prefix = blockMark + prefix
		case quoted:
			prefix += quoteMark
		}
		room := limit - units(prefix)
		unseen := leading(text, room, open)
		end, after := cut(text[unseen:], room, open)
		if end += unseen; blank(text[end:]) {
			end = len(text)
		}
		s, inside := at(hidden, done+end)
		if inside {
			end, after, inside = aroundMarks(text, end, s, done, open, after)
		}
		p := Piece{Prefix: prefix, Source: text[:end], Suffix: after.close(), unseen: unseen}
		if covered {
			p.Prefix = spoiler + p.Prefix
			if inBlock { // the mark must be the first of a line
				p.Prefix = blockMark + spoiler + strings.TrimPrefix(prefix, blockMark)
			}
		}
		if inside {
			p.Suffix += spoiler
		}
		pieces = append(pieces, p)
		quoted = dividesQuote(text, end, quoted)
		text, open, done, covered = text[end:], after, done+end, inside
	}
	return pieces
}

// blockQuote returns the offset of the line from which on everything is a quote (">>> "), or
// -1. In code, the mark is text.
func blockQuote(text string) int {
	var open fence
	for at := 0; at < len(text); {
		line := text[at:]
		if n := strings.IndexByte(line, '\n'); n >= 0 {
			line = line[:n+1]
		}
		if open.length == 0 && strings.HasPrefix(line, blockMark) {
			return at
		}
		open = open.through(line)
		at += len(line)
	}
	return -1
}

// dividesQuote reports whether a cut divides a line of a quote. begun reports that
// the text begins inside of such a line.
func dividesQuote(text string, end int, begun bool) bool {
	seen := len(strings.TrimRightFunc(text[:end], unicode.IsSpace))
	if end == len(text) || strings.Contains(text[seen:end], "\n") {
		return false
	}
	line := strings.LastIndexByte(text[:seen], '\n') + 1
	return line == 0 && begun || strings.HasPrefix(text[line:], quoteMark)
}

// aroundMarks moves a cut that is at a mark of a spoiler to the outer side of the
// mark: no message shows an empty spoiler. inside reports that the cut divides the
// spoiler.
func aroundMarks(text string, end int, s span, done int, open, after fence) (int, fence, bool) {
	first, last := s.from-done, s.to-done
	switch {
	case end <= first+len(spoiler) && first > 0 && !blank(text[:first]):
		return first, open.through(text[:first]), false
	case strings.TrimSpace(text[end:last-min(len(spoiler), last-end)]) == "":
		return last, open.through(text[:last]), false
	}
	return end, after, true
}

// blank reports whether a text is white space. It stops at the first other
// character, because split calls it for the rest of the text after each message.
func blank(text string) bool {
	return strings.IndexFunc(text, func(r rune) bool { return !unicode.IsSpace(r) }) < 0
}

// units returns the length of s in UTF-16 units.
func units(s string) int {
	n := 0
	for _, r := range s {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// cut returns the end of a message that begins with text, including the white
// space behind it, and the fence that is open there.
func cut(text string, room int, open fence) (end int, after fence) {
	window := prefixOf(text, room)
	if window == len(text) {
		if after = open.through(text); after.fits(text, room) {
			return len(text), after
		}
	}
	for {
		end = bestCut(text, window)
		if after = open.through(text[:end]); after.fits(text[:end], room) {
			break
		}
		// Make room for the line that closes the fence.
		window = prefixOf(text, units(text[:window])-max(1, units(after.close())))
	}
	if after.length > 0 && after.start > 0 && strings.TrimSpace(text[after.body:end]) == "" && strings.TrimSpace(text[:after.start]) != "" {
		// None of the block would be visible: move it to the next message.
		end, after = after.start, open.through(text[:after.start])
	}
	if after.length == 0 {
		end = len(text) - len(strings.TrimLeftFunc(text[end:], unicode.IsSpace))
	} else if end < len(text) && text[end] == '\n' {
		end++ // keep the indentation of code for the next message
	}
	return end, after
}

// leading returns the length of the white space at the start that is not shown:
// all of it in prose, empty lines in code, and any that would fill a message.
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

// prefixOf returns the length in bytes of the longest prefix of at most n units.
func prefixOf(text string, n int) int {
	for i, r := range text {
		if n -= max(utf16.RuneLen(r), 1); n < 0 {
			return i
		}
	}
	return len(text)
}

// links matches links, which are not cut if possible.
var links = regexp.MustCompile(`\[[^\]\n]*\]\([^)\s]*\)|<?https?://[^\s>)]+[>)]?`)

// kept returns the links and code spans of a text that have at most room UTF-16 units. Longer
// ones are cut like any text.
func kept(text string, room int) (parts []span) {
	for _, link := range links.FindAllStringIndex(text, -1) {
		parts = append(parts, span{link[0], link[1]})
	}
	start := 0
	for line := range strings.Lines(text) {
		for i := 0; i < len(line); {
			switch line[i] {
			case '\\':
				i += 2
			case '`':
				n := codeSpan(line[i:])
				parts = append(parts, span{start + i, start + i + n})
				i += n
			default:
				i++
			}
		}
		start += len(line)
	}
	return slices.DeleteFunc(parts, func(p span) bool { return units(text[p.from:p.to]) > room })
}

// bestCut returns the best place to cut in text[:window].
func bestCut(text string, window int) int {
	room := units(text[:window])
	least := prefixOf(text, room*minFill/100)
	// A link may cross the end of the window.
	whole := kept(text[:min(len(text), window+2048)], room)
	inside := func(i int) bool {
		_, inside := at(whole, i)
		return inside
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
	if part, divided := at(whole, window); divided && strings.TrimSpace(text[:part.from]) != "" {
		return part.from // it begins early and is long
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

// boundary reports whether i is between two grapheme clusters. It implements the
// common rules of UAX #29: marks, joiners, emoji with modifiers, flags, and CR LF.
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

// flag reports whether r is a regional indicator; two of them are a flag.
func flag(r rune) bool { return r >= 0x1F1E6 && r <= 0x1F1FF }
