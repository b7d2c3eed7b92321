package text_test

import (
	"testing"
	"unicode/utf8"

	"lilac/internal/foundation/text"
)

func TestTruncationKeepsCharactersWhole(t *testing.T) {
	for _, c := range []struct {
		name, got, want string
	}{
		{"a text that fits", text.Truncate("lilac", 5), "lilac"},
		{"the beginning", text.Truncate("lilac", 2), "li"},
		{"limit zero", text.Truncate("lilac", 0), ""},
		{"negative limit", text.Truncate("lilac", -1), ""},
		{"limit inside a character", text.Truncate("a€b", 3), "a"},
		{"limit after a character", text.Truncate("a€b", 4), "a€"},
		{"bytes", string(text.Truncate([]byte("a€b"), 2)), "a"},
		{"mark: a text that fits", text.TruncateWith("a€", 4, "…"), "a€"},
		{"mark", text.TruncateWith("a€", 3, "…"), "a…"},
		{"characters: a text that fits", text.TruncateRunes("a€b", 3), "a€b"},
		{"characters", text.TruncateRunes("a€bc", 3), "a€…"},
		{"one character", text.TruncateRunes("a€bc", 1), "…"},
		{"a marked name", text.Marked("files_read", "files/read", 20), "files_read_2b733164"},
		{"a marked name that is cut", text.Marked("files_read", "files/read", 14), "files_2b733164"},
		{"characters of an empty text", text.TruncateRunes("", 3), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
	for index, want := range []int{0, 1, 4, 4, 4, 5} {
		if got := text.NextRune("a€b", index); got != want {
			t.Errorf("NextRune from %d = %d, want %d", index, got, want)
		}
	}
}

func FuzzTruncate(f *testing.F) {
	f.Add("a€b", 2)
	f.Add("\xff\x80", 1)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit %= 100
		short := text.Truncate(s, limit)
		if len(short) > max(limit, 0) && len(short) != len(s) || short != s[:len(short)] {
			t.Errorf("Truncate(%q, %d) = %q, want a prefix within the limit", s, limit, short)
		}
		if utf8.ValidString(s) && !utf8.ValidString(short) {
			t.Errorf("Truncate(%q, %d) = %q, want valid UTF-8", s, limit, short)
		}
		few := text.TruncateRunes(s, max(limit, 1))
		if n := utf8.RuneCountInString(few); n > max(limit, 1) {
			t.Errorf("TruncateRunes(%q, %d) = %q, want at most that many characters", s, max(limit, 1), few)
		}
	})
}
