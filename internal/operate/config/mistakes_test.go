package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/foundation/fault"
	"lilac/internal/operate/config"
)

func told(t *testing.T, file string, env map[string]string) ([]string, int) {
	t.Helper()
	_, _, err := load(t, file, env, config.Flags{})
	if err == nil {
		t.Fatal("the configuration was accepted")
	}
	if fault.KindOf(err) != fault.Invalid || strings.Contains(err.Error(), "\n") {
		t.Errorf("error of kind %s is %q", fault.KindOf(err), err)
	}
	found, more := config.Each(err)
	if want := len(found) - 1 + more; want > 0 && !strings.Contains(err.Error(), "more mistake") {
		t.Errorf("%q says nothing of %d others", err, want)
	}
	var out []string
	for _, mistake := range found {
		text := mistake.Error()
		if _, after, ok := strings.Cut(text, "c.yaml:"); ok {
			text = after
		}
		out = append(out, text)
	}
	return out, more
}

func TestAllMistakesAreToldAtOnce(t *testing.T) {
	found, more := told(t, `addr: localhost
system: ${NOPE} and ${NEITHER}
allowedHosts:
  - good.example
  - bad host
limits:
  request: {steps: many, tokens: -1, time: soon}
  wait: 0s
sandbox:
  mode: bubblewarp
  readOnly: [src, /opt, /proc/1]
  network: {hosts: {a.org: {ports: [0], headers: {Host: b}}}}
rules:
  a-2:
    when: {type: "?", if: "("}
    do: {drop: true}
    rate: often
webhooks:
  w1: {secret: short}
  w2: {form: none, secret: "${ALSO_NOT}"}
timers:
  t: {every: often}
  u: {cron: "* *", missed: never}
surface:
  discord: {allowedGuildIds: [x], cache: {age: 1h, messages: 1}}
`, map[string]string{"LILAC_LOG_LEVEL": "inof", "LILAC_TOKEN": "short"})
	want := []string{
		"1:1: The address",
		"2:9: the environment variable NOPE is not set",
		`5:5: "bad host" is not a host name`,
		"7:20: limits.request.steps has to be a number, not a text",
		"7:26: limits.request.tokens is negative",
		`7:44: "soon" is not a duration`,
		"8:3: limits.wait has to be longer",
		`10:3: sandbox.mode is "bubblewarp", did you mean "bubblewrap"?`,
		`11:14: sandbox.readOnly[0] is "src"`,
		"11:25: sandbox.readOnly[2] is /proc/1",
		"12:29: sandbox.network.hosts.a.org.ports: 0 is not a port",
		"12:41: sandbox.network.hosts.a.org.headers: The header Host belongs to the connection",
		`15:12: "?" is not an event type`,
		"17:5: ",
		"19:8: The secret of the webhook w1 is too short",
		`20:8: The webhook w2 has the unknown form "none"`,
		"20:28: the environment variable ALSO_NOT is not set",
		`22:14: "often" is not a duration`,
		"23:7: ",
		`23:20: The timer u has "never"`,
		`25:31: "x" is not an id of Discord`,
		"25:43: surface.discord.cache.age is less than 48h",
		"25:52: surface.discord.cache.messages is less",
		`LILAC_LOG_LEVEL: log.level is "inof", did you mean "info"?`,
		"LILAC_TOKEN is shorter",
	}
	if more != 0 || len(found) != len(want) {
		t.Errorf("told %d and %d more, want %d:\n%s", len(found), more, len(want), strings.Join(found, "\n"))
	}
	for i := range min(len(found), len(want)) {
		if !strings.HasPrefix(found[i], want[i]) {
			t.Errorf("mistake %d is %q, want %q…", i+1, found[i], want[i])
		}
	}
}

func TestWhatFollowsFromAMistakeIsNotTold(t *testing.T) {
	for file, want := range map[string][]string{
		// The missing interval is not reported again as "neither an interval nor a cron".
		"timers: {t: {every: often}}": {`1:21: "often" is not a duration`},
		// The unreadable provider is not reported again as missing.
		"model: x/m\nproviders: {x: 3}\n":                                              {"2:16: providers.x has to be keys with values, not a number"},
		"model: x/m\nlimits: {day: {money: 1}}\nmodels: {x/m: {price: {input: much}}}": {"3:31: models.x/m.price.input has to be a number, not a text"},
		// The variable is reported as missing, not the secret.
		"webhooks: {w: {secret: \"${NOPE}\"}}": {"1:24: the environment variable NOPE is not set"},
	} {
		found, more := told(t, file, nil)
		for i, text := range found {
			found[i] = strings.TrimSuffix(text, ".")
			if i < len(want) && strings.HasPrefix(text, want[i]) {
				found[i] = want[i]
			}
		}
		if diff := cmp.Diff(want, found); diff != "" || more != 0 {
			t.Errorf("%q: %s and %d more", file, diff, more)
		}
	}
}

func TestMistakesAreBounded(t *testing.T) {
	var file strings.Builder
	file.WriteString("allowedHosts:\n")
	for i := range 60 {
		fmt.Fprintf(&file, "  - bad host %d\n", i)
	}
	found, more := told(t, file.String(), nil)
	if len(found) != 50 || more != 10 || !strings.HasPrefix(found[49], "51:5: ") {
		t.Errorf("told %d, %d more, the last is %q", len(found), more, found[len(found)-1])
	}
	file.Reset()
	file.WriteString("rules:\n")
	for i := range 60 {
		fmt.Fprintf(&file, "  r%02d: {priority: high}\n", i)
	}
	found, _ = told(t, file.String(), nil)
	if len(found) != 50 || !strings.HasPrefix(found[0], "2:19: rules.r00.priority has to be a number") {
		t.Errorf("told %d, the first is %q", len(found), found[0])
	}
}
