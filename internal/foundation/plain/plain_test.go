package plain_test

import (
	"encoding/json"
	"testing"

	"lilac/internal/foundation/plain"
)

// hostile is what a terminal would obey: escapes, in seven and in eight bits, a
// bell, and marks that turn the text around.
const hostile = "a\x1b]0;b\x07\u009b31mc\u202ed\u2066\x7f\u0085\x00e"

func TestATerminalObeysNothing(t *testing.T) {
	if got, want := plain.Text(hostile+"\n\tf"), "a]0;b31mcde\n\tf"; got != want {
		t.Errorf("the text is %q, want %q", got, want)
	}
	if got, want := plain.Line(" \n"+hostile+"\t👩\u200d👧\n "), "a]0;b31mcd e 👩\u200d👧"; got != want {
		t.Errorf("the line is %q, want %q", got, want)
	}
}

func TestJSONIsTheSameAndObeyedByNoTerminal(t *testing.T) {
	raw, err := json.MarshalIndent(map[string]string{hostile: hostile + "ä👩\u200d👧"}, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	got := plain.JSON(raw)
	if s := string(got); plain.Text(s) != s {
		t.Errorf("a terminal would obey %q", s)
	}
	var back map[string]string
	if err := json.Unmarshal(got, &back); err != nil || back[hostile] != hostile+"ä👩\u200d👧" {
		t.Errorf("%q became %q: %v", raw, got, err)
	}
}
