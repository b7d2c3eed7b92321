package doctor_test

import (
	"strings"
	"testing"

	"lilac/internal/core/environment"
	"lilac/internal/core/webhook"
	"lilac/internal/foundation/grant"
	"lilac/internal/operate/config"
	"lilac/internal/operate/doctor"
)

func TestTheDoctorSaysWhatWebhooksMayDo(t *testing.T) {
	hook := map[string]webhook.Config{"github": {}}
	rule := func(allow ...string) map[string]environment.RuleConfig {
		return map[string]environment.RuleConfig{"ci": {
			When:  environment.RuleWhenConfig{Type: []string{"webhook.received"}},
			Do:    environment.RuleDoConfig{Agent: environment.RuleAgentConfig{Prompt: "look"}},
			Tools: grant.Config{Allow: allow},
		}}
	}
	for name, c := range map[string]struct {
		hooks  map[string]webhook.Config
		rules  map[string]environment.RuleConfig
		status doctor.Status
		says   string
	}{
		"no webhook":             {nil, rule("*"), doctor.OK, "no webhooks"},
		"the default":            {hook, rule(), doctor.OK, "may only read"},
		"only reading":           {hook, rule("read", "surface.messages.list"), doctor.OK, "may only read"},
		"a rule with bash":       {hook, rule("read", "bash"), doctor.OK, "rules.ci (bash)"},
		"a rule with everything": {hook, rule("*"), doctor.Warn, "everything: rules.ci"},
		"a webhook with everything": {
			map[string]webhook.Config{"github": {Tools: grant.Config{Allow: []string{"*"}}}}, rule(), doctor.Warn, "everything: webhooks.github",
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := doctor.Patient{Config: &config.Config{DataDir: t.TempDir(), Workspace: t.TempDir(), Webhooks: c.hooks, Rules: c.rules}}
			found := false
			for _, f := range doctor.Examine(t.Context(), p) {
				if f.Check == "rights" {
					found = true
					if f.Status != c.status || !strings.Contains(f.Message, c.says) {
						t.Errorf("%s: %s", f.Status, f.Message)
					}
				}
			}
			if !found {
				t.Error("the doctor says nothing about rights")
			}
		})
	}
}
