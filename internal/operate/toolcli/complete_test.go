package toolcli_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/serve/toolwire"
)

func TestCompletionsComeFromTheSchemas(t *testing.T) {
	w := serve(t)
	for line, want := range map[string]string{
		"tools a":                              "a.b a.long",
		"tools ":                               "a.b a.long --list --help help completion",
		"tools he":                             "help",
		"tools help a.l":                       "a.long",
		"tools completion z":                   "zsh",
		"tools --list --output=j":              "--output=json",
		"tools a.b ":                           "--session-id= --output=json --output=text --input= --help",
		"tools a.b --session-id=1 --":          "--output=json --output=text --input= --help",
		"tools a.b --session-id=1 --output=t":  "--output=text",
		"tools a.b value":                      "",
		"tools nothing --":                     "",
		"tools a.b --session-id=1 x --he":      "--help",
		"tools   a.b   --se":                   "--session-id=",
		"tools a.b --session-id=#ops --nothin": "",
	} {
		code, out, stderr := w.run("__complete", line)
		if got := strings.Join(strings.Fields(out), " "); code != 0 || got != want || stderr != "" {
			t.Errorf("%q: %d %q %q, want %q", line, code, got, stderr, want)
		}
	}
	nobody := &world{env: map[string]string{toolwire.EnvSocket: filepath.Join(t.TempDir(), "gone")}}
	if code, out, stderr := nobody.run("__complete", "tools a"); code != 0 || strings.TrimSpace(out) != "" || stderr != "" {
		t.Errorf("without a server: %d %q %q", code, out, stderr)
	}
	for _, args := range [][]string{{"completion"}, {"completion", "fish"}, {"completion", "bash", "zsh"}} {
		if code, _, _ := w.run(args...); code != 2 {
			t.Errorf("%q: %d", args, code)
		}
	}
	if code, out, _ := w.run("completion", "zsh"); code != 0 || !strings.HasPrefix(out, "#compdef tools\n") {
		t.Errorf("%d %s", code, out)
	}
}

func TestBashTakesTheCompletions(t *testing.T) {
	w := &world{}
	_, script, _ := w.run("completion", "bash")
	for line, want := range map[string]string{
		"tools surf":                "tools surf: surface.messages.list surface.messages.send",
		"tools x --output=j":        "tools x --output=j: json",
		"tools x --session-id=#o -": "tools x --session-id=#o -: --text=",
	} {
		cmd := exec.Command("bash", "-c", script+`
			compopt() { :; }
			tools() { case $2 in
				*surf) printf 'surface.messages.list\nsurface.messages.send\n' ;;
				*=j) echo --output=json ;;
				*-) echo --text= ;;
			esac; }
			COMP_LINE=$1 COMP_POINT=${#1} COMP_WORDS=(tools)
			_lilac_tools
			echo "$1: ${COMPREPLY[*]}"`, "bash", line)
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); err != nil || got != want {
			t.Errorf("%q: %q %v, want %q", line, got, err, want)
		}
	}
}

func TestATerminalFindsTheServerOfTheDataDirectory(t *testing.T) {
	w := serve(t)
	home := t.TempDir()
	data, err := json.Marshal(map[string]string{"toolSocket": w.env[toolwire.EnvSocket]})
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(home, ".lilac"), filepath.Join(home, "other")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(home, ".lilac", "server.json"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	w.env = map[string]string{"HOME": home, toolwire.EnvToken: "secret"}
	if code, out, stderr := w.run("--list"); code != 0 || !strings.Contains(out, "a.b") {
		t.Errorf("%d %q %q", code, out, stderr)
	}
	w.env["LILAC_DATA_DIR"] = filepath.Join(home, "other")
	if code, _, stderr := w.run("--list"); code != 6 || !strings.Contains(stderr, "lilac serve") || !strings.Contains(stderr, w.env["LILAC_DATA_DIR"]) {
		t.Errorf("%d %q", code, stderr)
	}
}
