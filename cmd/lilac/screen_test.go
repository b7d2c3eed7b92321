package main

import (
	"testing"
)

func TestScreenShowsWhatIsSaidAgainOnce(t *testing.T) {
	type delta struct {
		offset int
		text   string
	}
	for _, tt := range []struct {
		name   string
		deltas []delta
		final  string
		want   string
	}{
		{"one after the other", []delta{{0, "Hel"}, {3, "lo"}}, "Hello", "Hello"},
		{"a delta comes twice", []delta{{0, "Hel"}, {0, "Hel"}, {3, "lo"}}, "Hello", "Hello"},
		{"cut and said again", []delta{{0, "Hello wor"}, {6, ""}, {6, "world"}}, "Hello world", "Hello world"},
		{"cut and said otherwise", []delta{{0, "one\ntwo thr"}, {8, ""}, {8, "four"}}, "one\ntwo four", "one\ntwo thr" + retake + "two four"},
		{"cut and ended", []delta{{0, "Hello wor"}, {5, ""}}, "Hello", "Hello wor"},
		{"the end brings what was missed", []delta{{0, "Hel"}}, "Hello", "Hello"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var s screen
			got := ""
			for _, d := range tt.deltas {
				got += s.Delta(d.offset, d.text)
			}
			got += s.End(tt.final)
			if got != tt.want {
				t.Errorf("shown %q, want %q", got, tt.want)
			}
		})
	}
}

func FuzzScreenNeverFails(f *testing.F) {
	f.Add(3, "abc", -1, "d", "x")
	f.Fuzz(func(t *testing.T, a int, first string, b int, second, final string) {
		var s screen
		s.Delta(a, first)
		s.Delta(b, second)
		s.End(final)
		if s.text != final {
			t.Errorf("the text is %q, not %q", s.text, final)
		}
	})
}

func TestTerminalDoesNotObeyTheModel(t *testing.T) {
	for in, want := range map[string]string{
		"plain\n\ttext":         "plain\n\ttext",
		"\x1b[2J\x1b]0;x\x07ok": "[2J]0;xok",
		"a\rb\x00c\u009bd":      "abcd",
		"evil\u202etxt":         "eviltxt",
		"grüße 🌸":               "grüße 🌸",
	} {
		if got := clean(in); got != want {
			t.Errorf("clean(%q) is %q, want %q", in, got, want)
		}
	}
}
