package app

import (
	"strconv"
	"testing"

	"lilac/internal/model/fallback"
	"lilac/internal/operate/config"
)

func TestTheModelsOfASelectionAreBuiltOnce(t *testing.T) {
	f := &inForce{config: config.Default()}
	built := 0
	of := func(s config.Selection) string {
		t.Helper()
		candidates, err := f.candidates(s, func(choices []config.ModelChoice) []fallback.Candidate {
			built++
			return []fallback.Candidate{{Name: choices[0].String() + " " + choices[0].Options.Effort}}
		})
		if err != nil {
			t.Fatal(err)
		}
		return candidates[0].Name
	}
	for range 2 {
		for want, s := range map[string]config.Selection{
			"demo low":    {Model: "demo", Effort: "low"},
			"demo high":   {Model: "demo", Effort: "high"},
			"demo medium": {Model: "demo", Channel: config.Channel{Effort: "medium"}},
			"demo xhigh":  {Agent: config.Agent{Model: config.ModelList{"demo"}, Effort: "xhigh"}},
			"demo max":    {Channel: config.Channel{Model: config.ModelList{"demo"}, Effort: "max"}},
		} {
			if got := of(s); got != want {
				t.Errorf("the models of %+v are %q, want %q", s, got, want)
			}
		}
	}
	if built != 5 {
		t.Errorf("the models were built %d times for 5 selections, want 5", built)
	}
	if _, err := f.candidates(config.Selection{Model: "nobody/x"}, nil); err == nil {
		t.Error("a model of an unknown provider was accepted")
	}
	for i := range 3 * maxChosen {
		of(config.Selection{Model: "demo", Effort: strconv.Itoa(i)})
	}
	if len(f.chosen) > maxChosen {
		t.Errorf("%d selections are kept, want at most %d", len(f.chosen), maxChosen)
	}
}
