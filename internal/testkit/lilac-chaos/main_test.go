package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/testkit/effort"
	"lilac/internal/testkit/postgrestest"
)

// The short form of the proof, and its controls. The long form is the command itself.
func TestFaultsBreakNoPromise(t *testing.T) {
	if why := postgrestest.Missing(); why != "" {
		t.Skip(why)
	}
	if !effort.Full() {
		t.Skip("several processes are tested with CI=true")
	}
	command := filepath.Join(t.TempDir(), "lilac-chaos")
	if out, err := exec.Command("go", "build", "-o", command, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"three nodes":                            {[]string{"-time", "15s", "-seed", "7", "-lease", "2s"}, "0 lost, 0 answered twice"},
		"control: an asynchronous standby":       {[]string{"-control", "async"}, "BROKEN: "},
		"control: nothing is resumed at a start": {[]string{"-time", "5s", "-seed", "7", "-lease", "2s", "-without", "recovery", "-patience", "10s"}, "BROKEN: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, err := exec.CommandContext(t.Context(), command, c.args...).CombinedOutput()
			if !strings.Contains(string(out), c.want) || (err == nil) == strings.HasPrefix(name, "control") {
				t.Errorf("%v: want %q in\n%s", err, c.want, out)
			}
		})
	}
}
