package conventions_test

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"lilac/internal/testkit/effort"
)

// testOnly lists texts that must not appear in the released binary: linked symbols of test
// support, and the environment variables that it reads.
var testOnly = []string{"lilac/internal/testkit/", "LILAC_KILL_AT", "LILAC_WITHOUT"}

func TestTheReleaseContainsNoTestSupport(t *testing.T) {
	program := built(t, "lilac/cmd/lilac")
	for _, text := range testOnly {
		if bytes.Contains(program, []byte(text)) {
			t.Errorf("the release contains %q, want no test support in it", text)
		}
	}
}

func TestControlTheProgramForTestsContainsTestSupport(t *testing.T) {
	effort.SkipDetail(t)
	program := built(t, "lilac/internal/testkit/killpoints/lilac")
	for _, text := range testOnly {
		if !bytes.Contains(program, []byte(text)) {
			t.Errorf("the program for tests does not contain %q: the test of the release could not fail", text)
		}
	}
}

// built builds a command and returns the binary, whose symbol table names every linked function.
func built(t *testing.T, command string) []byte {
	t.Helper()
	if testing.Short() {
		t.Skip("links the program; run without -short")
	}
	path := filepath.Join(t.TempDir(), "lilac")
	if out, err := exec.Command("go", "build", "-ldflags", "-w", "-o", path, command).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", command, err, out)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
