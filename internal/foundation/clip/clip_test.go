package clip_test

import (
	"testing"
	"unicode/utf8"

	"lilac/internal/foundation/clip"
)

func TestTextsAreShortened(t *testing.T) {
	for _, c := range []struct {
		what, got, want string
	}{
		{"what fits is whole", clip.Bytes("lilac", 5), "lilac"},
		{"the beginning", clip.Bytes("lilac", 2), "li"},
		{"nothing", clip.Bytes("lilac", 0), ""},
		{"less than nothing", clip.Bytes("lilac", -1), ""},
		{"a character is whole or not there", clip.Bytes("a€b", 3), "a"},
		{"its last byte fits", clip.Bytes("a€b", 4), "a€"},
		{"bytes", string(clip.Bytes([]byte("a€b"), 2)), "a"},
		{"marked: what fits is whole", clip.Marked("a€", 4, "…"), "a€"},
		{"marked", clip.Marked("a€", 3, "…"), "a…"},
		{"characters: what fits is whole", clip.Characters("a€b", 3), "a€b"},
		{"characters", clip.Characters("a€bc", 3), "a€…"},
		{"one character", clip.Characters("a€bc", 1), "…"},
		{"no characters", clip.Characters("", 3), ""},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, want %q", c.what, c.got, c.want)
		}
	}
	for at, want := range []int{0, 1, 4, 4, 4, 5} {
		if got := clip.Start("a€b", at); got != want {
			t.Errorf("from %d on a character begins at %d, want %d", at, got, want)
		}
	}
}

func FuzzShortened(f *testing.F) {
	f.Add("a€b", 2)
	f.Add("\xff\x80", 1)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit %= 100
		short := clip.Bytes(s, limit)
		if len(short) > max(limit, 0) && len(short) != len(s) || short != s[:len(short)] {
			t.Errorf("at most %d bytes of %q: %q", limit, s, short)
		}
		if utf8.ValidString(s) && !utf8.ValidString(short) {
			t.Errorf("at most %d bytes of %q: %q is no text", limit, s, short)
		}
		few := clip.Characters(s, max(limit, 1))
		if n := utf8.RuneCountInString(few); n > max(limit, 1) {
			t.Errorf("at most %d characters of %q: %q", max(limit, 1), s, few)
		}
	})
}
