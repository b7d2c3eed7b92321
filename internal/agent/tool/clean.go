package tool

import (
	"io"
	"strings"
	"unicode/utf8"
)

// Clean returns s as valid UTF-8 without control characters (except tab and newline)
// and terminal sequences, with every line end as a newline.
func Clean(s string) string {
	var c cleaner
	out := c.append(make([]byte, 0, len(s)), []byte(s))
	return string(c.flush(out))
}

// Visible is like Clean, for text whose bytes matter: it replaces control characters
// except tab and newline by Unicode's pictures of them (␀, ␛).
func Visible(s string) string {
	plain := true
	for i := 0; i < len(s); i++ {
		if b := s[i]; b >= utf8.RuneSelf || b == 0x7f || b < 0x20 && b != '\t' && b != '\n' {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s { // an invalid byte becomes U+FFFD
		switch {
		case r == '\t' || r == '\n':
			b.WriteRune(r)
		case r < 0x20:
			b.WriteRune(0x2400 + r)
		case r == 0x7f:
			b.WriteRune(0x2421)
		case r >= 0x80 && r < 0xa0:
			b.WriteRune(utf8.RuneError)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Line returns s as one clean line of at most limit runes.
func Line(s string, limit int) string {
	s = strings.Join(strings.Fields(Clean(s)), " ")
	if utf8.RuneCountInString(s) <= limit {
		return s
	}
	n := 0
	for i := range s {
		if n == limit-1 {
			return s[:i] + "…"
		}
		n++
	}
	return s
}

// CleanWriter cleans a stream as [Clean] would clean the whole text, wherever the writes
// split it. It is for one goroutine.
type CleanWriter struct {
	w io.Writer
	c cleaner
}

// NewCleanWriter returns a writer that writes the clean text to w.
func NewCleanWriter(w io.Writer) *CleanWriter { return &CleanWriter{w: w} }

// Write implements [io.Writer].
func (c *CleanWriter) Write(p []byte) (int, error) {
	if out := c.c.append(make([]byte, 0, len(p)), p); len(out) > 0 {
		if _, err := c.w.Write(out); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Flush ends the stream. An incomplete character at the end becomes U+FFFD.
func (c *CleanWriter) Flush() error {
	if out := c.c.flush(nil); len(out) > 0 {
		_, err := c.w.Write(out)
		return err
	}
	return nil
}

// The states of a cleaner: in text, or in a part of a terminal sequence.
const (
	inText = iota
	inEscape
	inControl      // after ESC [
	inString       // after ESC ], P, X, ^ or _: runs to BEL or ESC \
	inStringEscape // an ESC within such a string
)

// cleaner cleans a stream that arrives in pieces of any size.
type cleaner struct {
	state   int
	afterCR bool
	partial []byte // the beginning of a rune whose end has not arrived
}

// append appends the clean form of p to out.
func (c *cleaner) append(out, p []byte) []byte {
	if len(c.partial) > 0 {
		p = append(c.partial, p...)
		c.partial = nil
	}
	for len(p) > 0 {
		if p[0] < utf8.RuneSelf {
			out = c.ascii(out, p[0])
			p = p[1:]
			continue
		}
		if !utf8.FullRune(p) {
			c.partial = append([]byte(nil), p...)
			return out
		}
		r, size := utf8.DecodeRune(p)
		p = p[size:]
		c.afterCR = false
		switch c.state {
		case inString:
			continue
		case inStringEscape:
			c.state = inString
			continue
		}
		c.state = inText
		if r >= 0x80 && r < 0xa0 {
			continue // terminals also obey the control characters of Latin-1
		}
		out = utf8.AppendRune(out, r)
	}
	return out
}

func (c *cleaner) ascii(out []byte, b byte) []byte {
	// A line end closes every sequence: otherwise, a missing terminator would swallow
	// the rest.
	if b == '\n' || b == '\r' {
		c.state = inText
	}
	switch c.state {
	case inEscape:
		switch {
		case b == '[':
			c.state = inControl
		case b == ']' || b == 'P' || b == 'X' || b == '^' || b == '_':
			c.state = inString
		case b >= 0x20 && b < 0x30: // intermediate byte: the sequence goes on
		default:
			c.state = inText
		}
		return out
	case inControl:
		if b < 0x20 || b > 0x3f {
			c.state = inText
		}
		return out
	case inString:
		switch b {
		case 0x07:
			c.state = inText
		case 0x1b:
			c.state = inStringEscape
		}
		return out
	case inStringEscape:
		c.state = inString
		if b == '\\' {
			c.state = inText
		}
		return out
	}
	wasCR := c.afterCR
	c.afterCR = b == '\r'
	switch {
	case b == 0x1b:
		c.state = inEscape
	case b == '\r':
		out = append(out, '\n')
	case b == '\n' && wasCR: // the newline was written for the carriage return
	case b == '\n' || b == '\t' || b >= 0x20 && b != 0x7f:
		out = append(out, b)
	}
	return out
}

// flush ends the stream: an incomplete rune becomes the replacement character.
func (c *cleaner) flush(out []byte) []byte {
	if len(c.partial) > 0 {
		c.partial = nil
		out = utf8.AppendRune(out, utf8.RuneError)
	}
	return out
}
