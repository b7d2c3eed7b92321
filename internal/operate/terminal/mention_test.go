package terminal

import (
	"reflect"
	"regexp"
	"testing"

	"lilac/internal/foundation/lazyregexp"
)

// sgr matches the sequences that set colors and styles.
func sgr() *regexp.Regexp { return styleSequence() }

var styleSequence = lazyregexp.New("\x1b\\[[0-9;:]*m")

func TestMentions(t *testing.T) {
	for message, want := range map[string][]string{
		"":                            nil,
		"a@b.c is an address":         nil,
		"@a.txt":                      {"a.txt"},
		"see @a.txt and\n@b/c.png":    {"a.txt", "b/c.png"},
		`see @"my file.txt", @a @a`:   {"my file.txt", "a"},
		"an @ alone":                  nil,
		"(@a.txt) is no mention here": nil,
	} {
		if got := mentions(message); !reflect.DeepEqual(got, want) {
			t.Errorf("mentions(%q) = %q, want %q", message, got, want)
		}
	}
}

func TestMentionAt(t *testing.T) {
	for before, want := range map[string]string{"@": "", "a @b": "b", `a @"b c`: "b c", "a\n@b/": "b/"} {
		if got, ok := mentionAt(before); !ok || got != want {
			t.Errorf("mentionAt(%q) = %q, %v", before, got, ok)
		}
	}
	for _, before := range []string{"", "a", "a@b", "@a ", `@"a b" `} {
		if got, ok := mentionAt(before); ok {
			t.Errorf("mentionAt(%q) = %q", before, got)
		}
	}
}

func TestDroppedFile(t *testing.T) {
	for pasted, want := range map[string]string{`/a/b\ c.png`: "/a/b c.png", "'/a/b c.jpg'\n": "/a/b c.jpg", "file:///a/b%20c.gif": "/a/b c.gif", "~/x.PDF": "~/x.PDF"} {
		if got, ok := droppedFile(pasted); !ok || got != want {
			t.Errorf("droppedFile(%q) = %q, %v", pasted, got, ok)
		}
	}
	for _, pasted := range []string{"/a/b.txt", "b.png", "see /a/b.png", "/a\n/b.png", ""} {
		if got, ok := droppedFile(pasted); ok {
			t.Errorf("droppedFile(%q) = %q", pasted, got)
		}
	}
}
