package session

import "testing"

// A title is one line of visible text, whatever the message contains.
func TestATitleIsOneLineOfVisibleText(t *testing.T) {
	for text, want := range map[string]string{
		"hello\nthere":                        "hello there",
		"a\x00b\x1b]0;c\x07\u009b\u202ed\x7f": "ab]0;cd",
		"\u202e\x00":                          "",
		"👩\u200d👧 grüße":                      "👩\u200d👧 grüße",
	} {
		if got := TitleOf(text); got != want {
			t.Errorf("the title of %q is %q, want %q", text, got, want)
		}
	}
}
