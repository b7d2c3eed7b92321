package config

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
)

// A Service is one Lilac for the whole machine, with a user of its own, as the packages and
// deploy/lilac.service install it. Its zero value is none.
type Service struct {
	// Config is the directory of its configuration, State that of its data.
	Config, State string
}

// MachineService has the directories that the packages use.
var MachineService = Service{"/etc/lilac", "/var/lib/lilac"}

// environmentFile has the variables that systemd gives to the service.
func (s Service) environmentFile() string { return filepath.Join(s.Config, "environment") }

// Installed reports whether the machine has the service.
func (s Service) Installed() bool {
	if s == (Service{}) {
		return false
	}
	_, err := os.Stat(s.environmentFile())
	return err == nil
}

// Getenv adds the service's environment to another one, whose variables take precedence. What
// drop-in files of the unit set is not known.
func (s Service) Getenv(getenv func(string) string) (func(string) string, error) {
	data, err := os.ReadFile(s.environmentFile())
	if err != nil {
		return nil, unreadable(s.environmentFile(), err)
	}
	vars := parseEnvironment(string(data))
	vars["LILAC_CONFIG"] = filepath.Join(s.Config, "config.yaml")
	vars["LILAC_DATA_DIR"] = cmp.Or(vars["LILAC_DATA_DIR"], filepath.Join(s.State, "data"))
	vars["LILAC_WORKSPACE"] = cmp.Or(vars["LILAC_WORKSPACE"], filepath.Join(s.State, "workspace"))
	return func(name string) string { return cmp.Or(getenv(name), vars[name]) }, nil
}

// parseEnvironment reads lines NAME=value (systemd.exec(5), EnvironmentFile). As systemd does, it ignores
// other lines, and quotes around a value do not belong to it.
func parseEnvironment(text string) map[string]string {
	vars := map[string]string{}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		name, value, ok := strings.Cut(line, "=")
		if name = strings.TrimSpace(name); !ok || !secretName().MatchString(name) {
			continue
		}
		value = strings.TrimSpace(value)
		if n := len(value); n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n-1] == value[0] {
			value = value[1 : n-1]
		}
		vars[name] = value
	}
	return vars
}
