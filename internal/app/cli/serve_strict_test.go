package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestStrictServerRefusesProbableMistakes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("modle: demo\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, errOut, code := call(t, "", nil, "--config", file, "serve", "--strict")
	if code != 2 || !strings.Contains(errOut, "--strict refuses") || !strings.Contains(errOut, `did you mean "model"?`) {
		t.Errorf("exit code %d: %s", code, errOut)
	}
}
