package text

import (
	"bytes"
	"fmt"
	"strings"
	"unicode"
)

// isControl reports whether a terminal would act on r instead of printing it, or
// whether r changes the direction of the text around it.
func isControl(r rune) bool {
	return r != '\n' && r != '\t' && unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
}

// Sanitize removes control characters other than newline and tab, and marks that
// change the text direction, so that the output of a model or of a tool cannot
// control the user's terminal.
func Sanitize(s string) string {
	return strings.Map(func(r rune) rune {
		if isControl(r) {
			return -1
		}
		return r
	}, s)
}

// SanitizeJSON escapes the characters that [Sanitize] would remove. The value
// stays the same. It is needed because JSON encoders escape only the control
// characters below U+0020.
func SanitizeJSON(data []byte) []byte {
	if !bytes.ContainsFunc(data, isControl) {
		return data
	}
	out := make([]byte, 0, len(data)+64)
	for _, r := range string(data) {
		if isControl(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = append(out, string(r)...)
		}
	}
	return out
}

// SingleLine replaces each run of white space in s by one space and removes the
// characters that cannot be seen.
func SingleLine(s string) string {
	visible := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.IsGraphic(r) || r == zeroWidthJoiner:
			return r
		}
		return -1
	}, s)
	return strings.Join(strings.Fields(visible), " ")
}

// zeroWidthJoiner joins emoji, so it must stay although it is not graphic.
const zeroWidthJoiner = '\u200d'
