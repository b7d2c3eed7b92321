package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/operate/config"
)

// Mistakes in the notation are named in words of the notation, not of the library that reads it.
func TestMistakesInYAMLAreNamed(t *testing.T) {
	for file, want := range map[string]string{
		"files: {in: {paths: [*.csv]}}":       "put a text that begins with * in quotes.",
		"system: @you":                        "c.yaml:1:9: a text that begins with @ or ` must be in quotes.",
		"system: &you":                        "a text that begins with & must be in quotes.",
		"system: %you":                        "a text that begins with % must be in quotes.",
		"system: 'abc\nlog: {}\n":             "c.yaml:1:9: the closing quote of this text is missing.",
		"model: [a, b\nlog: {}\n":             "c.yaml:2:1: a comma or the closing ] is missing before this.",
		"allowedHosts: [a\n":                  "c.yaml:1:15: the closing ] is missing.",
		"allowedHosts: ]\n":                   "c.yaml:1:15: the opening [ is missing before this ].",
		"allowedHosts: - a\n":                 "c.yaml:1:15: an item of a list is not allowed here; begin the list in a new line.",
		"log: {level: info\n":                 "c.yaml:1:6: the closing } is missing.",
		"model:demo\nlog: {level: info}\n":    "put a space after the colon.",
		"model:demo\n":                        "Put a space after each colon.",
		"surface:\n    discord: {}\n  x: y\n": "c.yaml:3:3: this line does not belong to the lines above it; correct the indentation.",
		`system: "demo\q"`:                    "use single quotes.",
	} {
		if _, _, err := load(t, file, nil, config.Flags{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", file, err, want)
		}
	}
}

// A duration is read with days, and written without units that are zero.
func TestDurationsHaveDays(t *testing.T) {
	for written, want := range map[string]string{
		"7d": "7d", "168h": "7d", "24h": "24h", "1d": "24h", "1d12h": "36h", "90m": "1h30m", "60m": "1h", "10m0s": "10m", "90s": "1m30s", "0": "0s",
	} {
		c, _, err := load(t, "surface: {discord: {pingAfter: "+written+"}}", nil, config.Flags{})
		if err != nil || c.Surface.Discord.PingAfter.String() != want {
			t.Errorf("%s: %v, want %s", written, err, want)
		}
	}
}

func TestUnknownKeysWarn(t *testing.T) {
	c, warnings, err := load(t, "adr: x\nlimits:\n  request: {step: 3}\nproviders:\n  openai: {key: a}\nfrobnicate: 1\nlisten: 1\ndiscord: {}\nsurface: {allowDMs: true}\nagents:\n  tools: {allow: [read]}\n", nil, config.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, w := range warnings {
		got = append(got, strings.TrimPrefix(w.String(), c.File+":"))
	}
	want := []string{
		`1:1: unknown key "adr" is ignored, did you mean "addr"?`,
		`3:13: unknown key "limits.request.step" is ignored, did you mean "steps"?`,
		`5:12: unknown key "providers.openai.key" is ignored`,
		`6:1: unknown key "frobnicate" is ignored`,
		`7:1: unknown key "listen" is ignored`,
		`8:1: unknown key "discord" is ignored, did you mean "surface.discord"?`,
		`9:11: unknown key "surface.allowDMs" is ignored, did you mean "surface.discord.allowDMs"?`,
		`11:11: unknown key "agents.tools.allow" is ignored; is "tools" indented too little?`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAPathThatCannotBeFollowedSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "b"} { // a loop, which root cannot follow either
		if err := os.Symlink(map[string]string{"a": "b", "b": "a"}[name], filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"dataDir", "workspace"} {
		for path, why := range map[string]string{filepath.Join(dir, "a", "x"): "cannot be reached", file: "is not a directory"} {
			_, _, err := load(t, key+": "+path+"\n", nil, config.Flags{})
			if err == nil || !strings.Contains(err.Error(), why) || !strings.Contains(err.Error(), "Choose another path") {
				t.Errorf("%s: %v", key, err)
			}
		}
	}
}
