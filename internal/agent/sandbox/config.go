package sandbox

import (
	"errors"
	"maps"
	"slices"
	"time"

	"lilac/internal/agent/egress"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/setting"
)

// Config is the section "sandbox" of the configuration: how commands are confined.
type Config struct {
	Mode Mode `json:"mode,omitempty" enum:"auto,bubblewrap,namespaces,off" jsonschema:"auto runs commands in bubblewrap or in Lilac's built-in namespace sandbox with Landlock (lilac doctor shows which), and refuses to run commands if neither works. bubblewrap and namespaces insist on one. off accepts the risk and runs commands without a sandbox."`

	ReadOnly []string      `json:"readOnly,omitempty" jsonschema:"Additional files and directories that commands can read. The system's programs and the workspace are always readable."`
	Writable []string      `json:"writable,omitempty" jsonschema:"Additional directories that commands can write. They must not contain the workspace, another visible path, or a link on the way to one, because the agent could replace it."`
	Hidden   []string      `json:"hidden,omitempty" jsonschema:"Files and directories to hide inside visible directories. dataDir and the configuration file are always hidden. If such a file is replaced while a command runs (most programs save this way), the command sees the new file: hide its directory instead."`
	Network  NetworkConfig `json:"network,omitempty" jsonschema:"Network access of commands. Without hosts, there is none."`
	Limits   LimitsConfig  `json:"limits,omitempty" jsonschema:"Limits of one command and everything that it starts."`
}

// NetworkConfig configures which hosts commands can reach.
type NetworkConfig struct {
	Hosts       map[string]HostConfig `json:"hosts,omitempty" jsonschema:"Hosts by name (api.github.com) or, for all names below one, \"*.example.org\". Commands reach them through a proxy that resolves names and refuses addresses outside the public internet."`
	Connections int                   `json:"connections,omitempty" jsonschema:"Maximum number of simultaneous connections per command."`
	Bytes       setting.Size          `json:"bytes,omitempty" jsonschema:"Maximum amount of data that a command may send and receive."`
}

// A HostConfig configures one host that commands can reach.
type HostConfig struct {
	Ports    []int                     `json:"ports,omitempty" jsonschema:"Allowed ports. Default: 80 and 443."`
	Headers  map[string]setting.Secret `json:"headers,omitempty" jsonschema:"Headers to add, for example Authorization: \"Bearer ${GITHUB_TOKEN}\". Lilac adds them outside the sandbox to requests for http://host/ and forwards those over HTTPS; commands never see them. Not allowed for names with *."`
	Internal bool                      `json:"internal,omitempty" jsonschema:"Whether the host may be on this machine or in a private network. Programs bypass the proxy for localhost unless NO_PROXY is unset: give this machine another name."`
}

// LimitsConfig bounds the resources of one command.
type LimitsConfig struct {
	Memory    setting.Size     `json:"memory,omitempty" jsonschema:"Memory of all its processes together, at least 128MiB."`
	Processes int              `json:"processes,omitempty" jsonschema:"Maximum number of processes and threads."`
	Disk      setting.Size     `json:"disk,omitempty" jsonschema:"Maximum amount by which a command can increase disk usage."`
	Tmp       setting.Size     `json:"tmp,omitempty" jsonschema:"Maximum size of /tmp and of /dev/shm, each. They use memory."`
	Output    setting.Size     `json:"output,omitempty" jsonschema:"Maximum output. The model receives far less; the rest is kept in a file."`
	Time      setting.Duration `json:"time,omitempty" jsonschema:"Time limit, whatever the model requests."`
}

// DefaultConfig returns the default settings. The limits allow a build, and keep a small
// machine responsive.
func DefaultConfig() Config {
	return Config{
		Mode:    ModeAuto,
		Network: NetworkConfig{Connections: 64, Bytes: 1 << 30},
		Limits: LimitsConfig{
			Memory: 2 << 30, Processes: 512, Disk: 4 << 30, Tmp: 256 << 20, Output: 64 << 20, Time: setting.Duration(10 * time.Minute),
		},
	}
}

// minMemory is the memory that a sandbox needs to start: 128 MiB.
const minMemory = 128 << 20

// EgressRules returns the hosts that commands can reach as rules of the proxy, sorted by host.
func (n NetworkConfig) EgressRules() []egress.Rule {
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

// Check returns an error that joins the limits that are too small. Errors name the fields
// below field.
func (c Config) Check(field string) error {
	var found []error
	for _, limit := range []struct {
		name, least string
		enough      bool
	}{
		{"limits.memory", "128MiB", c.Limits.Memory >= minMemory},
		{"limits.processes", "16", c.Limits.Processes >= 16},
		{"limits.disk", "1MiB", c.Limits.Disk >= 1<<20},
		{"limits.tmp", "1MiB", c.Limits.Tmp >= 1<<20},
		{"limits.output", "1MiB", c.Limits.Output >= 1<<20},
		{"limits.time", "1s", c.Limits.Time >= setting.Duration(time.Second)},
		{"network.connections", "1", c.Network.Connections >= 1},
		{"network.bytes", "1KiB", c.Network.Bytes >= 1<<10},
	} {
		if !limit.enough {
			at := field + "." + limit.name
			found = append(found, fault.InvalidField(at, "%s is too small to run a command; it must be at least %s.", at, limit.least))
		}
	}
	return errors.Join(found...)
}
