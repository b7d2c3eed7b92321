package config_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lilac/internal/operate/config"
)

func TestFileOfDefaultsIsReadAsTheDefaults(t *testing.T) {
	var b strings.Builder
	if err := config.WriteDefaults(&b); err != nil {
		t.Fatal(err)
	}
	got, warnings, err := load(t, b.String(), nil, config.Flags{})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("%v, %v:\n%s", err, warnings, b.String())
	}
	want, _, err := load(t, "", nil, config.Flags{})
	if err != nil {
		t.Fatal(err)
	}
	got.DataDir, got.Workspace = want.DataDir, want.Workspace // each load has its own home directory
	gotJSON, _ := got.JSON()
	wantJSON, _ := want.JSON()
	if diff := cmp.Diff(string(wantJSON), string(gotJSON)); diff != "" {
		t.Error(diff)
	}
	for _, want := range []string{"addr: \"127.0.0.1:7420\"", "    steps: 50", "# providers:", "apiKey", "number of model calls."} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("it lacks %q:\n%s", want, b.String())
		}
	}
}
