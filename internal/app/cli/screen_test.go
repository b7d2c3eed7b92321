package cli

import (
	"bytes"
	"strings"
	"testing"

	"lilac/internal/foundation/event"
	"lilac/internal/foundation/text"
)

func TestScreenPrintsRepeatedTextOnce(t *testing.T) {
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
		{"cut and said otherwise", []delta{{0, "one\ntwo thr"}, {8, ""}, {8, "four"}}, "one\ntwo four", "one\ntwo thr" + resetMark + "two four"},
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

func TestModelCannotControlTheTerminal(t *testing.T) {
	for in, want := range map[string]string{
		"plain\n\ttext":         "plain\n\ttext",
		"\x1b[2J\x1b]0;x\x07ok": "[2J]0;xok",
		"a\rb\x00c\u009bd":      "abcd",
		"evil\u202etxt":         "eviltxt",
		"grüße 🌸":               "grüße 🌸",
	} {
		if got := text.Sanitize(in); got != want {
			t.Errorf("text.Sanitize(%q) is %q, want %q", in, got, want)
		}
	}
}

func TestJSONCannotControlTheTerminal(t *testing.T) {
	var out bytes.Buffer
	c := printer{out: &out}
	if err := c.printJSON(map[string]string{"title": "a\u009b31m\u202eb\x1b\x7f"}); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); text.Sanitize(s) != s || !strings.Contains(s, `a\u009b31m\u202eb\u001b\u007f`) {
		t.Errorf("printed %q", s)
	}
	out.Reset()
	tail := tailer{cli: &cli{printer: printer{out: &out, json: true}}}
	if err := tail.print(event.Event{ID: "a\u009b", Data: []byte("{\"text\":\"\u009b31m\"}")}); err != nil {
		t.Fatal(err)
	}
	if s := out.String(); text.Sanitize(s) != s {
		t.Errorf("printed %q", s)
	}
}
