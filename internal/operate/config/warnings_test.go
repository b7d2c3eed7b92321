package config_test

import (
	"slices"
	"strings"
	"testing"

	"lilac/internal/operate/config"
)

// Values that are valid but probably mistakes cause a warning, not an error.
func TestWhatIsHardlyMeantIsWarnedOf(t *testing.T) {
	const (
		plain   = "is used as it is written"
		nowhere = "wakes the agent nowhere"
		eight   = "as an octal number"
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
		"a variable in the URL of Redis":   {"bus: {url: \"redis://:$REDIS_PASSWORD@127.0.0.1:6379\"}\n", ":1:12: bus.url ", plain},
		"control: a password of it with $": {"bus: {url: \"redis://:pa$$wo$RD@127.0.0.1:6379\"}\n", "", ""},
		"a number that begins with a 0":    {"limits: {request: {steps: 0100}}\n", ":1:27: limits.request.steps is 64: ", eight},
		"control: others do not":           {"limits: {request: {steps: 100}, day: {money: 0.5}}\ntasks: {total: 0o20, perSession: 0x2}\n", "", ""},
		"control: a text of digits":        {"system: 0100\n", "", ""},
		"a type that is mistyped":          {"rules: {r: {when: {type: webhook.recieved}, do: {drop: true}}}\n", ":1:20: the rule r ", "did you mean \"webhook.received\"?"},
		"one of several":                   {"rules: {r: {when: {type: [timer.fired, file.change]}, do: {drop: true}}}\n", ":1:20: ", "did you mean \"file.changed\"?"},
		"a beginning of types":             {"rules: {r: {when: {type: webhooks.*}, do: {drop: true}}}\n", ":1:20: ", "did you mean \"webhook.*\"?"},
		"control: types of others":         {"rules: {r: {when: {type: [order.stopped, role.*, deploy.done, build.failed, custom.*, \"*\"]}, do: {drop: true}}}\n", "", ""},
		"control: another rule makes it":   {"rules:\n  a: {when: {type: custom.x}, do: {publish: {type: file.change}}}\n  b: {when: {type: [file.change, file.*]}, do: {drop: true}}\n", "", ""},
		"control: it publishes":            {"rules: {r: {when: {type: timer.fired}, do: {publish: {type: custom.x}}}}\n", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			// The value of a variable is not checked, because it is not part of the file.
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
				if strings.Contains(w.String(), "$GITHUB") || strings.Contains(w.String(), "OPENAI_KEY") || strings.Contains(w.String(), "REDIS_P") {
					t.Errorf("what may be a secret is told: %s", w)
				}
			}
		})
	}
}

// Windows editors write Latin-1 as well. The message names the encoding and the place.
func TestALatin1FileIsSaidToBeOne(t *testing.T) {
	_, _, err := load(t, "model: demo\nsystem: K\xfcche\n", nil, config.Flags{})
	if err == nil || !strings.Contains(err.Error(), "c.yaml:2:10: The file is not UTF-8; it looks like Latin-1") {
		t.Errorf("%v", err)
	}
}

// A TZ that names no zone makes days begin at midnight UTC. The controls do not depend on it.
func TestAWrongTZIsReported(t *testing.T) {
	for name, c := range map[string]struct {
		tz, file string
		want     bool
	}{
		"wrong":                       {"Europe/Berln", "", true},
		"POSIX":                       {"CET-1CEST", "", true},
		"control: right":              {"Europe/Berlin", "", false},
		"control: with a colon":       {":Europe/Berlin", "", false},
		"control: unset":              {"", "", false},
		"control: a zone is set":      {"Europe/Berln", "limits: {timeZone: Europe/Berlin}\n", false},
		"wrong, and a timer needs it": {"Europe/Berln", "limits: {timeZone: UTC}\ntimers: {t: {cron: 0 8 * * *, timeZone: Local}}\n", true},
	} {
		_, warnings, err := load(t, c.file, map[string]string{"TZ": c.tz}, config.Flags{})
		if err != nil {
			t.Fatal(err)
		}
		found := slices.ContainsFunc(warnings, func(w config.Warning) bool { return strings.Contains(w.String(), "TZ is \""+c.tz) })
		if found != c.want {
			t.Errorf("%s: %v", name, warnings)
		}
	}
}

// Windows editors and shells write UTF-16, which the YAML library would read as one string.
func TestAFileOfAnotherEncodingIsSaidToBeOne(t *testing.T) {
	for name, file := range map[string]string{
		"UTF-16 with a mark":            "\xff\xfem\x00o\x00d\x00e\x00l\x00:\x00 \x00d\x00e\x00m\x00o\x00",
		"the other one":                 "\xfe\xff\x00m\x00o\x00d\x00e\x00l\x00:\x00 \x00d\x00e\x00m\x00o",
		"without a mark":                "m\x00o\x00d\x00e\x00l\x00:\x00 \x00d\x00e\x00m\x00o\x00",
		"control: UTF-8 beyond letters": "system: \"küß 🌸\"\n",
	} {
		_, _, err := load(t, file, nil, config.Flags{})
		if told := err != nil && strings.Contains(err.Error(), "c.yaml is not UTF-8"); told == strings.HasPrefix(name, "control") || !told && err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
