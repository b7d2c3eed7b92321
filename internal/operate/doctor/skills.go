package doctor

import (
	"fmt"
	"strings"

	"lilac/internal/agent/skills"
	"lilac/internal/operate/config"
)

// skillsOf reports skills that wait for the operator, and invalid ones. Without skills, there
// is nothing to report.
func skillsOf(cfg *config.Config) []Finding {
	list, err := cfg.SkillLibrary().List()
	if err != nil {
		return []Finding{{"skills", Warn, says(err), ""}}
	}
	if len(list) == 0 {
		return nil
	}
	names := map[skills.State][]string{}
	for _, s := range list {
		names[s.State] = append(names[s.State], s.Name)
	}
	waits := append(names[skills.New], names[skills.Changed]...)
	switch {
	case len(waits) > 0:
		return []Finding{{
			"skills", Warn, fmt.Sprintf("%d trusted; the agent does not use these yet: %s", len(names[skills.Trusted]), strings.Join(waits, ", ")),
			"Look at their files (lilac skills list), then run: lilac skills trust NAME",
		}}
	case len(names[skills.Invalid]) > 0:
		return []Finding{{"skills", Warn, "cannot be used: " + strings.Join(names[skills.Invalid], ", "), "Run: lilac skills check"}}
	}
	return []Finding{{"skills", OK, fmt.Sprintf("%d trusted", len(names[skills.Trusted])), ""}}
}
