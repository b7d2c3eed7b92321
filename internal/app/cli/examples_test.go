package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const examplesDir = "../../../examples"

var (
	variable = regexp.MustCompile(`\$\{(\w+)\}`)
	// triedEvent matches the commands in the comments of an example that try its rules.
	triedEvent = regexp.MustCompile(`(?m)^#   echo '(.*)' \| lilac rules test - --config (\S+)$`)
)

func examples(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(examplesDir, "*.yaml"))
	if err != nil || len(files) < 10 {
		t.Fatalf("found %d examples, %v, want at least 10", len(files), err)
	}
	return files
}

func TestEveryExampleIsACorrectConfiguration(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(examplesDir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range examples(t) {
		name := filepath.Base(file)
		if !strings.Contains(string(readme), "["+name+"]("+name+")") {
			t.Errorf("examples/README.md does not list %s", name)
		}
		out, errOut, code := call(t, "", exampleEnv(t, file), "--config", file, "config", "check")
		if code != 0 || errOut != "" {
			t.Errorf("config check of %s: exit code %d\n%s%s", name, code, out, errOut)
		}
	}
}

func TestTheEventsInTheExamplesTriggerTheirRules(t *testing.T) {
	tried := 0
	for _, file := range examples(t) {
		name, content := filepath.Base(file), read(t, file)
		trials := triedEvent.FindAllStringSubmatch(content, -1)
		if strings.Contains(content, "\nrules:") && len(trials) == 0 {
			t.Errorf("%s has rules, but no command that tries them", name)
		}
		for _, m := range trials {
			tried++
			if m[2] != "examples/"+name {
				t.Errorf("a command in %s tries %s, want its own file", name, m[2])
			}
			out, errOut, code := call(t, m[1], exampleEnv(t, file), "--config", file, "rules", "test", "-")
			if code != 0 || !strings.Contains(out, ": yes, ") {
				t.Errorf("the event in %s: exit code %d, want that a rule matches\n%s%s", name, code, out, errOut)
			}
		}
	}
	if tried < 7 {
		t.Errorf("tried %d events, want at least 7", tried)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// exampleEnv sets each variable that an example reads.
func exampleEnv(t *testing.T, file string) map[string]string {
	t.Helper()
	env := make(map[string]string)
	for _, m := range variable.FindAllStringSubmatch(read(t, file), -1) {
		env[m[1]] = "whsec_ZXhhbXBsZS1zZWNyZXQtb2YtMjQtYnl0ZXM="
	}
	return env
}
