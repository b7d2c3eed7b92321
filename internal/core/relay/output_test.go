package relay_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"lilac/internal/core/relay"
	"lilac/internal/foundation/event"
)

// A truncated answer ends with a note and consists of complete characters.
func TestATruncatedAnswerSaysSo(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		cut  bool
	}{
		"as much as there may be": {strings.Repeat("x", 1<<20), false},
		"more":                    {strings.Repeat("x", 1<<20+1), true},
		"more, in long letters":   {"x" + strings.Repeat("ḁ", 1<<20), true},
	} {
		t.Run(name, func(t *testing.T) {
			var o relay.Output
			o.Apply(event.FinalText{FinalText: c.text})
			if said := strings.HasSuffix(o.Text, "the page has all of it.)*"); said != c.cut {
				t.Errorf("its end is %q", o.Text[len(o.Text)-100:])
			}
			if len(o.Text) > 1<<20 || !utf8.ValidString(o.Text) {
				t.Errorf("%d bytes are shown", len(o.Text))
			}
		})
	}
}
