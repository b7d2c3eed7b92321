package text

import "unicode/utf8"

// utf8Text is a value that holds UTF-8.
type utf8Text interface{ ~string | ~[]byte }

// Truncate returns the beginning of s: at most limit bytes.
func Truncate[T utf8Text](s T, limit int) T {
	if len(s) <= limit {
		return s
	}
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:max(limit, 0)]
}

// TruncateWith returns s if it has at most limit bytes. Otherwise, it returns the
// first limit bytes, followed by mark, which does not count towards limit.
func TruncateWith(s string, limit int, mark string) string {
	if len(s) <= limit {
		return s
	}
	return Truncate(s, limit) + mark
}

// TruncateRunes returns s if it has at most limit characters. Otherwise, it
// returns limit characters, of which the last is an ellipsis.
func TruncateRunes(s string, limit int) string {
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

// NextRune returns the first index in s, from index on, at which a character
// begins, or the length of s if there is none.
func NextRune[T utf8Text](s T, index int) int {
	for index < len(s) && !utf8.RuneStart(s[index]) {
		index++
	}
	return index
}
