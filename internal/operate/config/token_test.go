package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/foundation/fault"
)

// The token in the data directory guards the same port as a configured one, so the same minimum
// length applies.
func TestTheTokenOfTheDataDirectoryIsAsLongAsOneThatIsSet(t *testing.T) {
	const long = "0123456789abcdef"
	for name, c := range map[string]struct {
		file, want string
		refused    bool
	}{
		"long enough": {long + "\n", long, false},
		"too short":   {"x\n", "", true},
		"empty":       {"\n", "", false}, // the next start generates one
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, TokenFile)
			if err := os.WriteFile(path, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			got, err := (&Config{DataDir: dir}).OperatorToken()
			if got != c.want || (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), path) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	if got, err := (&Config{DataDir: t.TempDir()}).OperatorToken(); got != "" || err != nil {
		t.Errorf("with no file: %q, %v", got, err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, TokenFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := (&Config{DataDir: dir}).OperatorToken(); fault.KindOf(err) != fault.Invalid {
		t.Errorf("a directory: %v", err)
	}
	if got, err := (&Config{DataDir: dir, Token: long}).OperatorToken(); got != long || err != nil {
		t.Errorf("one that is set: %q, %v", got, err)
	}
}
