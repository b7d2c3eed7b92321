package config_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/operate/config"
)

// Writable paths must not contain anything that determines where another path leads: a command
// could put a symbolic link in its place.
func TestWhatCommandsMayWriteIsApartFromTheRest(t *testing.T) {
	dir := t.TempDir()
	for _, made := range []string{"p/ws", "p/data", "elsewhere/ws", "away"} {
		if err := os.MkdirAll(filepath.Join(dir, made), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// Each link's name differs from the name of the directory that contains it.
	for link, target := range map[string]string{"p/out": "elsewhere", "to-p": "p", "elsewhere/ws/out": "away"} {
		if err := os.Symlink(filepath.Join(dir, target), filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		workspace, dataDir, sandbox, want string
	}{
		"around the workspace":                    {"p/ws", "", "writable: [$/p]", "workspace lies in sandbox.writable[0] ($/p)"},
		"around it by another name":               {"p/ws", "", "writable: [$/to-p]", "workspace lies in sandbox.writable[0] ($/to-p)"},
		"around a link to the workspace":          {"p/out/ws", "", "writable: [$/p]", "workspace lies in sandbox.writable[0] ($/p)"},
		"around a link by another name":           {"to-p/out/ws", "", "writable: [$/p]", "workspace lies in sandbox.writable[0] ($/p)"},
		"around what is read only":                {"elsewhere/ws", "", "readOnly: [$/p/data], writable: [$/p]", "sandbox.readOnly[0] lies in sandbox.writable[0] ($/p)"},
		"around what is writable":                 {"elsewhere/ws", "", "writable: [$/p/data, $/p]", "sandbox.writable[0] lies in sandbox.writable[1] ($/p)"},
		"around what is writable, the other way":  {"elsewhere/ws", "", "writable: [$/p, $/p/data]", "sandbox.writable[1] lies in sandbox.writable[0] ($/p)"},
		"the workspace around a link":             {"elsewhere/ws", "", "readOnly: [$/elsewhere/ws/out]", "sandbox.readOnly[0] lies in workspace"},
		"the workspace around a link to the data": {"elsewhere/ws", "elsewhere/ws/out/d", "", "contains a link on the way to the data directory"},
		"around a link to the data":               {"elsewhere/ws", "p/out/d", "writable: [$/p]", "sandbox.writable[0] contains a link on the way to the data directory"},
		"control: apart":                          {"elsewhere/ws", "", "readOnly: [$/p/data], writable: [$/away]", ""},
		"control: in what is read only":           {"elsewhere/ws", "", "readOnly: [$/p], writable: [$/p/data]", ""},
	} {
		t.Run(name, func(t *testing.T) {
			here := strings.NewReplacer("$", dir)
			flags := config.Flags{Workspace: filepath.Join(dir, tt.workspace), DataDir: filepath.Join(dir, "data")}
			if tt.dataDir != "" {
				flags.DataDir = filepath.Join(dir, tt.dataDir)
			}
			_, _, err := load(t, here.Replace("sandbox: {"+tt.sandbox+"}"), nil, flags)
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), here.Replace(tt.want))) {
				t.Errorf("error is %v, want %q", err, tt.want)
			}
		})
	}
}

// A cover hides one file, but saving usually creates a new file. So Lilac warns about secrets in
// directories that commands can see.
func TestOurFilesWhereCommandsSeeThemWarn(t *testing.T) {
	for name, tt := range map[string]struct {
		file string
		want []string
	}{
		"read only":              {"sandbox: {readOnly: [/usr/share, ~/]}", []string{"c.yaml:3:34: sandbox.readOnly[1]", "not from a command that runs while it is saved"}},
		"writable":               {"sandbox: {writable: [~/]}", []string{"c.yaml:3:22: sandbox.writable[0]", "every command is refused"}},
		"its directory hidden":   {"sandbox: {readOnly: [~/], hidden: [~/]}", nil},
		"control: file hidden":   {"sandbox: {readOnly: [~/], hidden: [~/c.yaml]}", []string{"sandbox.readOnly[0]", "while it is saved"}},
		"control: another place": {"sandbox: {readOnly: [/usr/share]}", nil},
	} {
		t.Run(name, func(t *testing.T) {
			dirs := t.TempDir()
			_, warnings, err := load(t, "dataDir: "+dirs+"/data\nworkspace: "+dirs+"/ws\n"+tt.file+"\n", nil, config.Flags{})
			if err != nil || len(warnings) > 0 != (tt.want != nil) {
				t.Fatalf("%v, %v", warnings, err)
			}
			for _, want := range tt.want {
				if text := warnings[0].String(); !strings.Contains(text, want) {
					t.Errorf("%s does not say %q", text, want)
				}
			}
		})
	}
	t.Run("in the workspace", func(t *testing.T) {
		dir := t.TempDir()
		file := filepath.Join(dir, "c.yaml")
		if err := os.WriteFile(file, []byte("workspace: .\ndataDir: "+t.TempDir()+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, warnings, err := config.Load(config.Source{File: file, Getenv: func(string) string { return "" }})
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0].String(), "c.yaml:1:1: workspace ("+dir+") contains the file of the configuration") {
			t.Errorf("%v, %v", warnings, err)
		}
	})
}
