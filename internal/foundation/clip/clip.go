// Package clip shortens texts, and leaves no half of a character.
package clip

import "unicode/utf8"

// text is UTF-8, or is taken for it.
type text interface{ ~string | ~[]byte }

// Bytes returns the beginning of s: at most limit bytes.
func Bytes[T text](s T, limit int) T {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:max(limit, 0)]
}

// Marked returns s, or when it is longer than limit bytes the beginning of it and
// a mark behind.
func Marked(s string, limit int, mark string) string {
	if len(s) <= limit {
		return s
	}
	return Bytes(s, limit) + mark
}

// Characters returns s, or when it has more than limit characters the beginning of
// it, with an ellipsis as the last of limit characters.
func Characters(s string, limit int) string {
	n, last := 0, 0
	for i := range s {
		if n++; n == limit {
			last = i
		}
		if n > limit {
			return s[:last] + "…"
		}
	}
	return s
}

// Start returns the first place in s, from at on, where a character begins, or
// the length of s.
func Start[T text](s T, at int) int {
	for at < len(s) && !utf8.RuneStart(s[at]) {
		at++
	}
	return at
}
