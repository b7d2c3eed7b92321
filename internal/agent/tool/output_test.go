package tool_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/agent/tool"
)

func TestCleanLeavesNothingThatSteersATerminal(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"plain":                       {"hello\n\tworld", "hello\n\tworld"},
		"colour":                      {"\x1b[31mred\x1b[0m!", "red!"},
		"window title":                {"a\x1b]0;evil\x07b", "ab"},
		"link, closed by ESC \\":      {"\x1b]8;;http://x\x1b\\text\x1b]8;;\x1b\\", "text"},
		"unclosed title ends at line": {"\x1b]0;lost\nkept", "\nkept"},
		"NUL and bell":                {"a\x00b\x07c\x7f", "abc"},
		"C1 control":                  {"a\u009b31mb", "a31mb"},
		"invalid UTF-8":               {"a\xffb", "a\uFFFDb"},
		"cut rune at the end":         {"a\xe2\x82", "a\uFFFD"},
		"CRLF":                        {"a\r\nb\r\n", "a\nb\n"},
		"progress bar":                {"10%\r20%\r\n", "10%\n20%\n"},
		"emoji stays":                 {"🌸 lilac", "🌸 lilac"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tool.Clean(c.in); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			// The same, one byte at a time.
			out := tool.NewOutput(t.TempDir(), "c", tool.Limits{})
			for i := range len(c.in) {
				_, _ = out.Write([]byte{c.in[i]})
			}
			if got := out.Text(); got != c.want {
				t.Errorf("in pieces: got %q, want %q", got, c.want)
			}
		})
	}
}

func TestOutputWithinTheLimitsIsWhole(t *testing.T) {
	ws := t.TempDir()
	text := strings.Repeat("line\n", 2000)
	if diff := cmp.Diff(text, tool.Bound(ws, "c", text)); diff != "" {
		t.Error(diff)
	}
	if _, err := os.Stat(filepath.Join(ws, ".lilac")); !os.IsNotExist(err) {
		t.Errorf("a short output left something in the workspace: %v", err)
	}
}

func TestLongOutputIsCutAndTheWholeIsInAFile(t *testing.T) {
	var lines strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&lines, "line %d\n", i)
	}
	for name, c := range map[string]struct{ in, first, last string }{
		"many bytes":  {lines.String(), "line 0\n", "line 99999\n"},
		"many lines":  {strings.Repeat("x\n", 5000) + "end", "x\n", "end"},
		"one line":    {strings.Repeat("ä", 50_000), "ää", "ää"},
		"odd offsets": {"x" + strings.Repeat("€", 50_000), "x€", "€"},
	} {
		t.Run(name, func(t *testing.T) {
			ws := t.TempDir()
			got := tool.Bound(ws, "call/../1", c.in)
			if len(got) > tool.MaxBytes+500 || strings.Count(got, "\n") > tool.MaxLines+10 {
				t.Errorf("%d bytes, %d lines are not bounded", len(got), strings.Count(got, "\n"))
			}
			if !utf8.ValidString(got) || strings.ContainsRune(got, utf8.RuneError) {
				t.Error("a rune was cut")
			}
			if !strings.HasPrefix(got, c.first) || !strings.HasSuffix(got, c.last) {
				t.Errorf("head or tail is missing: %.40q … %q", got, got[len(got)-40:])
			}
			files, _ := filepath.Glob(filepath.Join(ws, tool.OutputDir, "*"))
			if len(files) != 1 || !strings.Contains(got, filepath.Base(files[0])) {
				t.Fatalf("files %v, not named in the text", files)
			}
			whole, err := os.ReadFile(files[0])
			if err != nil || string(whole) != c.in {
				t.Errorf("the file is not the whole: %d bytes, %v", len(whole), err)
			}
		})
	}
}

func TestOverflowIsBounded(t *testing.T) {
	ws := t.TempDir()
	for range 20 {
		out := tool.NewOutput(ws, "same", tool.Limits{Bytes: 100, FileBytes: 500, Files: 5})
		for range 100 {
			_, _ = out.Write([]byte("0123456789\n"))
		}
		if text := out.Text(); len(text) > 400 || !strings.Contains(text, "first 500 bytes") {
			t.Fatalf("text: %q", text)
		}
	}
	files, _ := filepath.Glob(filepath.Join(ws, tool.OutputDir, "*"))
	if len(files) != 5 {
		t.Errorf("%d files are kept, want 5", len(files))
	}
	for _, f := range files {
		if info, _ := os.Stat(f); info.Size() > 500 {
			t.Errorf("%s has %d bytes", f, info.Size())
		}
	}
}

func TestOverflowDoesNotFollowALinkOutOfTheWorkspace(t *testing.T) {
	for _, link := range []string{".lilac", tool.OutputDir} {
		ws, outside := t.TempDir(), t.TempDir()
		at := filepath.Join(ws, link)
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(outside, at); err != nil {
			t.Fatal(err)
		}
		text := tool.Bound(ws, "c", strings.Repeat("x\n", 5000))
		if !strings.Contains(text, "could not be kept") {
			t.Errorf("%s: %.300q", link, text[len(text)/2-200:])
		}
		if entries, _ := os.ReadDir(outside); len(entries) > 0 {
			t.Errorf("%s: something was written outside: %v", link, entries)
		}
	}
}
