// Package plain takes out of what others wrote what would be obeyed instead of
// seen: by a terminal that prints it, or by what lays out a line.
package plain

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
)

// obeyed says that a terminal would obey r, or that it hides or turns text.
func obeyed(r rune) bool {
	return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// Text removes control characters but newline and tab, and marks that change the
// direction. The text of a model or of a tool must not steer the user's terminal.
func Text(s string) string {
	return strings.Map(func(r rune) rune {
		if obeyed(r) {
			return -1
		}
		return r
	}, s)
}

// JSON writes in another way, as the same JSON, what [Text] would remove: encoders
// leave as it is what is beyond the first control characters.
func JSON(data []byte) []byte {
	if !bytes.ContainsFunc(data, obeyed) {
		return data
	}
	out := make([]byte, 0, len(data)+64)
	for _, r := range string(data) {
		if obeyed(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = append(out, string(r)...)
		}
	}
	return out
}

// Line makes one line of a text, of what can be seen.
func Line(s string) string {
	seen := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsGraphic(r) || r == zeroWidthJoiner: // which joins emoji
			return r
		}
		return -1
	}, s)
	return strings.Join(strings.Fields(seen), " ")
}

const zeroWidthJoiner = '\u200d'
