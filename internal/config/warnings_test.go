package config_test

import (
	"strings"
	"testing"

	"lilac/internal/config"
)

// What can be meant but hardly is: it is told, and nothing is refused.
func TestWhatIsHardlyMeantIsWarnedOf(t *testing.T) {
	const (
		plain   = "is taken as it stands"
		nowhere = "wakes the agent nowhere"
	)
	for name, c := range map[string]struct{ file, at, want string }{
		"a variable of a shell":            {"webhooks: {w: {secret: \"$GITHUB_WEBHOOK_SECRET\"}}\n", ":1:24: webhooks.w.secret ", plain},
		"one behind a word":                {"sandbox: {network: {hosts: {a.example: {headers: {Authorization: Bearer $GITHUB_TOKEN}}}}}\n", ":1:66: ", plain},
		"one without its end":              {"providers: {openai: {apiKey: \"${OPENAI_KEY\"}}\n", ":1:30: ", plain},
		"one on lines of its own":          {"providers:\n  openai:\n    apiKey: |-\n      $OPENAI_KEY\n", ":4:18: ", plain},
		"control: a password with a $":     {"webhooks: {w: {secret: \"$ecret-of-some-length\"}}\n", "", ""},
		"control: a text that is meant":    {"webhooks: {w: {secret: \"$${NAME}-of-some-length\"}}\n", "", ""},
		"control: a variable":              {"webhooks: {w: {secret: \"${W}\"}}\n", "", ""},
		"control: no secret":               {"system: \"$NAME\"\n", "", ""},
		"a timer that wakes nobody":        {"rules:\n  r: {when: {type: timer.fired}, do: {agent: {prompt: x}}}\n", ":2:3: the rule r ", nowhere},
		"so do two sources":                {"rules:\n  r: {when: {type: [file.*, webhook.received]}, do: {agent: {prompt: x}}}\n", ":2:3: the rule r ", nowhere},
		"control: it says where":           {"rules: {r: {when: {type: timer.fired}, do: {agent: {prompt: x}}, session: \"title:#ops\"}}\n", "", ""},
		"control: it is off":               {"rules: {r: {enabled: false, when: {type: timer.fired}, do: {agent: {prompt: x}}}}\n", "", ""},
		"control: events that may have it": {"rules: {r: {when: {type: [timer.fired, custom.x]}, do: {agent: {prompt: x}}}}\n", "", ""},
		"control: it publishes":            {"rules: {r: {when: {type: timer.fired}, do: {publish: {type: custom.x}}}}\n", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			// What replaces a variable is not looked at: it is not of the file.
			_, warnings, err := load(t, c.file, map[string]string{"W": "$VARIABLE_THAT_IS_MEANT"}, config.Flags{})
			if err != nil {
				t.Fatal(err)
			}
			if c.want == "" {
				if len(warnings) > 0 {
					t.Errorf("warned: %s", warnings[0])
				}
				return
			}
			if len(warnings) != 1 || !strings.Contains(warnings[0].String(), c.at) || !strings.Contains(warnings[0].Message, c.want) {
				t.Errorf("%v; want one with %q and %q", warnings, c.at, c.want)
			}
			for _, w := range warnings {
				if strings.Contains(w.String(), "$GITHUB") || strings.Contains(w.String(), "OPENAI_KEY") {
					t.Errorf("what may be a secret is told: %s", w)
				}
			}
		})
	}
}
