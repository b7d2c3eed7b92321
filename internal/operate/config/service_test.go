package config_test

import (
	"os"
	"path/filepath"
	"testing"

	"lilac/internal/operate/config"
)

func TestTheServiceHasTheEnvironmentOfItsUnit(t *testing.T) {
	dir := t.TempDir()
	service := config.Service{Config: dir, State: "/var/lib/x"}
	if service.Installed() {
		t.Error("a service without files is installed")
	}
	file := "# Secrets\n; another comment\nANTHROPIC_API_KEY=sk-1\n\n LILAC_MODEL = \"demo\" \nQUOTED='a b'\nOPEN=\"a\nno assignment\n1BAD=x\nEMPTY=\nLILAC_ADDR=127.0.0.1:1\nEQUALS=a=b\n"
	if err := os.WriteFile(filepath.Join(dir, "environment"), []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	if !service.Installed() {
		t.Error("the service is not installed")
	}
	getenv, err := service.Getenv(func(name string) string { return map[string]string{"LILAC_ADDR": "127.0.0.1:2"}[name] })
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"ANTHROPIC_API_KEY": "sk-1", "LILAC_MODEL": "demo", "QUOTED": "a b", "OPEN": `"a`, "1BAD": "", "EMPTY": "", "EQUALS": "a=b", "no assignment": "",
		"LILAC_ADDR": "127.0.0.1:2", "LILAC_CONFIG": filepath.Join(dir, "config.yaml"), "LILAC_DATA_DIR": "/var/lib/x/data", "LILAC_WORKSPACE": "/var/lib/x/workspace",
	} {
		if got := getenv(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
