package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/operate/config"
)

func TestAServerIsFoundBesideMistakes(t *testing.T) {
	const hook = "webhooks: {ci: {secret: \"${NOT_OF_THIS_SHELL}\"}}\n"
	inEnv := map[string]string{"LILAC_DATA_DIR": "/from/env"}
	for name, tt := range map[string]struct {
		file       string
		env        map[string]string
		want, fail string
	}{
		"a variable that only the server has": {file: hook, want: "~/.lilac"},
		"and a data directory":                {file: hook + "dataDir: ~/d\n", want: "~/d"},
		"relative to the file":                {file: hook + "dataDir: d\n", want: "~/d"},
		"a mistake of what it means":          {file: "addr: nonsense\ndataDir: ~/d\n", want: "~/d"},
		"no YAML, and the variable":           {file: "rules: {\n", env: inEnv, want: "/from/env"},
		"no YAML":                             {file: "rules: {\n", fail: "c.yaml:1:"},
		"a data directory that is a list":     {file: "dataDir: [a]\n", fail: "dataDir has to be a text"},
		"a data directory of a variable":      {file: "dataDir: ${NOT_OF_THIS_SHELL}/d\n", fail: "NOT_OF_THIS_SHELL is not set"},
		"no data directory":                   {file: "dataDir: \"\"\n", fail: "dataDir is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			file := filepath.Join(home, "c.yaml")
			if err := os.WriteFile(file, []byte(tt.file), 0o600); err != nil {
				t.Fatal(err)
			}
			src := config.Source{File: file, Getenv: func(name string) string {
				if name == "HOME" {
					return home
				}
				return tt.env[name]
			}}
			if _, _, err := config.Load(src); err == nil {
				t.Fatal("control: the configuration has no mistake")
			}
			at, err := config.Locate(src)
			if tt.fail != "" {
				if err == nil || !strings.Contains(err.Error(), tt.fail) {
					t.Errorf("found %q (%v), want an error with %q", at.DataDir, err, tt.fail)
				}
				return
			}
			if want := strings.Replace(tt.want, "~", home, 1); err != nil || at.DataDir != want {
				t.Errorf("found %q (%v), want %q", at.DataDir, err, want)
			}
		})
	}
	t.Run("no file", func(t *testing.T) {
		if _, err := config.Locate(config.Source{File: filepath.Join(t.TempDir(), "none.yaml"), Getenv: func(string) string { return "/x" }}); err == nil {
			t.Error("--config with a missing file was accepted")
		}
	})
}
