package cli

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lilac/internal/operate/config"
)

// Root's commands mean the service of the machine, unless something else is named or root has a
// Lilac of its own. Other users are told about it.
func TestCommandsOfRootMeanTheService(t *testing.T) {
	dir := t.TempDir()
	service := config.Service{Config: filepath.Join(dir, "etc"), State: filepath.Join(dir, "var")}
	if err := os.Mkdir(service.Config, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"config.yaml": "log: {level: debug}\n", "environment": "LILAC_MODEL=demo\nLILAC_TOKEN=0123456789abcdef\n"} {
		if err := os.WriteFile(filepath.Join(service.Config, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ofService := []string{"for " + service.State + "/data. Start the service with: systemctl start lilac\n"}
	for name, tt := range map[string]struct {
		root, own bool // own: ~/.lilac exists
		env       map[string]string
		args      []string
		service   config.Service
		want      []string
	}{
		"root":                         {root: true, args: []string{"health"}, service: service, want: ofService},
		"root's configuration":         {root: true, args: []string{"config", "print"}, service: service, want: []string{"level: debug", "dataDir: " + service.State + "/data", "model: demo"}},
		"root with a flag":             {root: true, args: []string{"health", "--data", "/other"}, service: service, want: []string{"for /other. Start one with: lilac serve\n"}},
		"root with a variable":         {root: true, env: map[string]string{"LILAC_DATA_DIR": "/other"}, args: []string{"health"}, service: service, want: []string{"for /other. Start one with: lilac serve\n"}},
		"root with an address":         {root: true, args: []string{"health", "--addr", "lilac.example:7420"}, service: service, want: []string{"lilac.example:7420 is another machine. Set LILAC_TOKEN to its token."}},
		"root with a Lilac of its own": {root: true, own: true, args: []string{"health"}, service: service, want: []string{"/.lilac. Start one with: lilac serve\n"}},
		"root without the service":     {root: true, args: []string{"health"}, want: []string{"/.lilac. Start one with: lilac serve\n"}},
		"another user":                 {args: []string{"health"}, service: service, want: []string{"/.lilac. Start one with: lilac serve. For the service of this machine, use sudo.\n"}},
		"another user's doctor":        {args: []string{"doctor"}, service: service, want: []string{"not running\n", "→ Start one with: lilac serve. For the service of this machine, use sudo.\n"}},
	} {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			if tt.own {
				if err := os.Mkdir(filepath.Join(home, ".lilac"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			getenv := func(name string) string {
				if name == "HOME" {
					return home
				}
				return tt.env[name]
			}
			var out bytes.Buffer
			(&cli{printer: printer{out: &out, err: &out}, locator: locator{getenv: getenv, service: tt.service, root: tt.root}}).run(t.Context(), tt.args)
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%s says %q, want %q in it", tt.args, out.String(), want)
				}
			}
		})
	}
}

// A server that root starts by hand is not the service, which systemd starts.
func TestAServerIsNotTheService(t *testing.T) {
	l := locator{getenv: func(string) string { return "" }, service: config.Service{Config: t.TempDir()}, root: true}
	if err := os.WriteFile(filepath.Join(l.service.Config, "environment"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if !l.meansService() {
		t.Error("another command does not mean the service")
	}
	if l.own = true; l.meansService() {
		t.Error("the server means the service")
	}
}
