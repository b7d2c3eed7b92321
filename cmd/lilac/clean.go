package main

import (
	"strings"
	"unicode"
)

// clean removes what a terminal would obey or what hides text: control
// characters but newline and tab, and marks that change the direction. The
// text of a model or of a tool must not steer the user's terminal.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return r
		case unicode.IsControl(r), unicode.Is(unicode.Bidi_Control, r):
			return -1
		}
		return r
	}, s)
}
