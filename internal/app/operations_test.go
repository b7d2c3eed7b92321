package app

import (
	"testing"

	"lilac/internal/operate/config"
)

func TestProbableMistakesAreDescribedWithoutThePath(t *testing.T) {
	one := config.Warning{File: "/home/you/config.yaml", Line: 3, Column: 1, Message: `unknown key "modle" is ignored`}
	for want, warnings := range map[string][]config.Warning{
		`a probable mistake in line 3 of the configuration file: unknown key "modle" is ignored`: {one},
		`a probable mistake: TZ is wrong`: {{Message: "TZ is wrong"}},
		`a probable mistake in line 3 of the configuration file: unknown key "modle" is ignored; and 1 more, which "lilac config check" lists`: {one, one},
	} {
		if got := probable(warnings); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
