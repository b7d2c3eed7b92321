package text_test

import (
	"encoding/json"
	"testing"

	"lilac/internal/foundation/text"
)

// hostile holds what a terminal acts on: 7-bit and 8-bit escape sequences, a
// bell, and marks that reverse the text.
const hostile = "a\x1b]0;b\x07\u009b31mc\u202ed\u2066\x7f\u0085\x00e"

func TestControlCharactersAreRemoved(t *testing.T) {
	if got, want := text.Sanitize(hostile+"\n\tf"), "a]0;b31mcde\n\tf"; got != want {
		t.Errorf("Sanitize = %q, want %q", got, want)
	}
	if got, want := text.SingleLine(" \n"+hostile+"\t👩\u200d👧\n "), "a]0;b31mcd e 👩\u200d👧"; got != want {
		t.Errorf("SingleLine = %q, want %q", got, want)
	}
}

func TestSanitizedJSONHasTheSameValue(t *testing.T) {
	raw, err := json.MarshalIndent(map[string]string{hostile: hostile + "ä👩\u200d👧"}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	got := text.SanitizeJSON(raw)
	if s := string(got); text.Sanitize(s) != s {
		t.Errorf("SanitizeJSON left control characters in %q", s)
	}
	var decoded map[string]string
	if err := json.Unmarshal(got, &decoded); err != nil || decoded[hostile] != hostile+"ä👩\u200d👧" {
		t.Errorf("SanitizeJSON(%q) = %q, which has another value: %v", raw, got, err)
	}
}
