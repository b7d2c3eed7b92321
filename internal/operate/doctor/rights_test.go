package doctor_test

import (
	"slices"
	"strings"
	"testing"

	"lilac/internal/core/environment"
	"lilac/internal/core/program"
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

func TestTheDoctorExaminesPrograms(t *testing.T) {
	all := []string{"*"}
	for name, c := range map[string]struct {
		source program.Config
		rules  map[string]environment.RuleConfig
		check  string
		status doctor.Status
		says   string
	}{
		"it exists":                 {program.Config{Command: []string{"sh"}}, nil, "source p", doctor.OK, "runs sh"},
		"it does not exist":         {program.Config{Command: []string{"/no/such/program"}}, nil, "source p", doctor.Fail, "cannot be started"},
		"its requests may read":     {program.Config{Command: []string{"sh"}}, nil, "rights", doctor.OK, "may only read"},
		"its requests may do all":   {program.Config{Command: []string{"sh"}, Tools: grant.Config{Allow: all}}, nil, "rights", doctor.Warn, "everything: sources.p"},
		"those of a rule may do so": {program.Config{Command: []string{"sh"}}, map[string]environment.RuleConfig{"r": {When: environment.RuleWhenConfig{Type: []string{"deploy.done"}}, Do: environment.RuleDoConfig{Agent: environment.RuleAgentConfig{Prompt: "look"}}, Tools: grant.Config{Allow: all}}}, "rights", doctor.Warn, "everything: rules.r"},
	} {
		t.Run(name, func(t *testing.T) {
			p := doctor.Patient{Config: &config.Config{DataDir: t.TempDir(), Workspace: t.TempDir(), Sources: map[string]program.Config{"p": c.source}, Rules: c.rules}}
			findings := doctor.Examine(t.Context(), p)
			i := slices.IndexFunc(findings, func(f doctor.Finding) bool { return f.Check == c.check })
			if i < 0 || findings[i].Status != c.status || !strings.Contains(findings[i].Message, c.says) {
				t.Errorf("%+v", findings)
			}
		})
	}
}
