package config

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"lilac/internal/egress"
	"lilac/internal/fault"
)

// minSandboxMemory is what a sandbox needs to start.
const minSandboxMemory = 128 << 20

// EgressRules are the hosts that commands can reach, sorted, as rules of the proxy.
func (n SandboxNetwork) EgressRules() []egress.Rule {
	var rules []egress.Rule
	for _, name := range slices.Sorted(maps.Keys(n.Hosts)) {
		host := n.Hosts[name]
		rule := egress.Rule{Host: name, Ports: host.Ports, Internal: host.Internal}
		for header, value := range host.Headers {
			if rule.Headers == nil {
				rule.Headers = map[string]string{}
			}
			rule.Headers[header] = value.Reveal()
		}
		rules = append(rules, rule)
	}
	return rules
}

func (c *Config) checkSandbox() error {
	found := []error{c.checkSandboxPaths()}
	for _, rule := range c.Sandbox.Network.EgressRules() {
		for _, err := range parts(rule.Validate()) {
			var f *fault.Error
			field := "sandbox.network.hosts." + rule.Host
			if errors.As(err, &f) && f.Field != "host" {
				field += "." + f.Field
			}
			found = append(found, fault.InvalidField(field, "%s: %s", field, err))
		}
	}
	l, n := c.Sandbox.Limits, c.Sandbox.Network
	for _, limit := range []struct {
		field      string
		value, min int64
	}{
		{"sandbox.limits.memory", int64(l.Memory), minSandboxMemory},
		{"sandbox.limits.processes", int64(l.Processes), 16},
		{"sandbox.limits.disk", int64(l.Disk), 1 << 20},
		{"sandbox.limits.tmp", int64(l.Tmp), 1 << 20},
		{"sandbox.limits.output", int64(l.Output), 1 << 20},
		{"sandbox.limits.time", int64(l.Time), 1e9},
		{"sandbox.network.connections", int64(n.Connections), 1},
		{"sandbox.network.bytes", int64(n.Bytes), 1 << 10},
	} {
		if limit.value >= limit.min {
			continue
		}
		least := fmt.Sprint(limit.min)
		switch {
		case limit.field == "sandbox.limits.time":
			least = "1s"
		case limit.min >= 1<<10:
			least = Size(limit.min).String()
		}
		found = append(found, fault.InvalidField(limit.field, "%s is too small to run a command; it must be at least %s.", limit.field, least))
	}
	return errors.Join(found...)
}

// checkSandboxPaths makes the paths absolute and keeps the data directory out
// of what is shown.
func (c *Config) checkSandboxPaths() error {
	data, err := realPath(c.DataDir)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "The data directory %s cannot be examined", c.DataDir)
	}
	var found []error
	for name, list := range map[string][]string{"readOnly": c.Sandbox.ReadOnly, "writable": c.Sandbox.Writable, "hidden": c.Sandbox.Hidden} {
		for i, given := range list {
			list[i], err = c.sandboxPath(fmt.Sprintf("sandbox.%s[%d]", name, i), given, name == "hidden", data)
			found = append(found, err)
		}
	}
	return errors.Join(found...)
}

// sandboxPath is one such path, absolute.
func (c *Config) sandboxPath(field, given string, hidden bool, data string) (string, error) {
	if !filepath.IsAbs(given) && given != "~" && !strings.HasPrefix(given, "~/") {
		return given, fault.InvalidField(field, "%s is %q; it must be an absolute path, or begin with ~/.", field, given)
	}
	path, err := c.absolute(given)
	if err != nil {
		return given, fault.Wrap(fault.Invalid, err, "%s cannot be made an absolute path", field)
	}
	real, err := realPath(path)
	switch {
	case err != nil:
		return path, fault.Wrap(fault.Invalid, err, "%s cannot be examined", field)
	case hidden:
		return path, nil
	case within(data, real) || within(real, data):
		return path, fault.InvalidField(field, "%s would show the data directory %s; the agent could read its secrets.", field, c.DataDir)
	}
	for _, kernel := range []string{"/proc", "/sys", "/dev"} {
		if within(real, kernel) {
			return path, fault.InvalidField(field, "%s is %s, which shows more than files.", field, given)
		}
	}
	return path, nil
}
