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
	if err := c.checkSandboxPaths(); err != nil {
		return err
	}
	for _, rule := range c.Sandbox.Network.EgressRules() {
		if err := rule.Validate(); err != nil {
			var f *fault.Error
			field := "sandbox.network.hosts." + rule.Host
			if errors.As(err, &f) && f.Field != "host" {
				field += "." + f.Field
			}
			return fault.InvalidField(field, "%s: %s", field, err)
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
		return fault.InvalidField(limit.field, "%s is too small to run a command; it must be at least %s.", limit.field, least)
	}
	return nil
}

// checkSandboxPaths makes the paths absolute and keeps the data directory out
// of what is shown.
func (c *Config) checkSandboxPaths() error {
	data, err := realPath(c.DataDir)
	if err != nil {
		return fault.Wrap(fault.Invalid, err, "The data directory %s cannot be examined", c.DataDir)
	}
	for name, list := range map[string][]string{"readOnly": c.Sandbox.ReadOnly, "writable": c.Sandbox.Writable, "hidden": c.Sandbox.Hidden} {
		for i, given := range list {
			field := fmt.Sprintf("sandbox.%s[%d]", name, i)
			if !filepath.IsAbs(given) && given != "~" && !strings.HasPrefix(given, "~/") {
				return fault.InvalidField(field, "%s is %q; it must be an absolute path, or begin with ~/.", field, given)
			}
			if list[i], err = c.absolute(given); err != nil {
				return fault.Wrap(fault.Invalid, err, "%s cannot be made an absolute path", field)
			}
			real, err := realPath(list[i])
			if err != nil {
				return fault.Wrap(fault.Invalid, err, "%s cannot be examined", field)
			}
			if name == "hidden" {
				continue
			}
			if within(data, real) || within(real, data) {
				return fault.InvalidField(field, "%s would show the data directory %s; the agent could read its secrets.", field, c.DataDir)
			}
			for _, kernel := range []string{"/proc", "/sys", "/dev"} {
				if within(real, kernel) {
					return fault.InvalidField(field, "%s is %s, which shows more than files.", field, given)
				}
			}
		}
	}
	return nil
}
