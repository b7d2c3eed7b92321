package mcpclient

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"lilac/internal/agent/egress"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
	"lilac/internal/foundation/setting"
)

// ServerConfig is an entry of the section "mcpServers" of the configuration. It has the
// keys that other products use, and a few of Lilac's own.
type ServerConfig struct {
	Type    string                    `json:"type,omitempty" jsonschema:"stdio, http (also written streamable-http or streamableHttp), or sse, the old transport of HTTP, which is also tried if a server refuses http. Default: stdio for a server with command, http for one with url."`
	Command string                    `json:"command,omitempty" jsonschema:"The program of a stdio server. It runs in the sandbox of the agent's commands."`
	Args    []string                  `json:"args,omitempty" jsonschema:"Arguments of the program."`
	Env     map[string]setting.Secret `json:"env,omitempty" jsonschema:"Environment variables of the program. It gets no others of Lilac's environment: pass one on with NAME: ${NAME}."`
	CWD     string                    `json:"cwd,omitempty" jsonschema:"The directory in which the program starts, in the workspace. Default: the workspace."`
	URL     string                    `json:"url,omitempty" jsonschema:"The address of a server over streamable HTTP, for example https://mcp.example.org/mcp."`
	Headers map[string]setting.Secret `json:"headers,omitempty" jsonschema:"Headers of each request to url, for example Authorization: Bearer ${TOKEN}. No other address receives them."`

	Disabled bool             `json:"disabled,omitempty" jsonschema:"Whether the server is turned off."`
	Timeout  Timeout          `json:"timeout,omitempty" jsonschema:"Time limit of one call, at most 10m, counted again from each progress that the server reports. Default 1m. A plain number means seconds, or milliseconds if it is above 3600."`
	Start    setting.Duration `json:"startTimeout,omitempty" jsonschema:"Time limit of a start, which includes downloads of npx and uvx. Default 1m."`
	Files    string           `json:"workspace,omitempty" enum:"write,read,none" jsonschema:"What a stdio server may do in the workspace: write (the default, as for commands), read, or none. Its home directory is its own in any case."`
	Hosts    []string         `json:"hosts,omitempty" jsonschema:"Hosts that a stdio server may reach through the proxy that its environment names: a name (api.github.com), a name with a port (example.org:8443), or all names below one (*.example.org). Default: none. npx needs registry.npmjs.org; uvx needs pypi.org and files.pythonhosted.org."`
	Memory   setting.Size     `json:"memory,omitempty" jsonschema:"Memory limit of a stdio server, at least 128MiB. Default: sandbox.limits.memory."`
	Internal bool             `json:"internal,omitempty" jsonschema:"Whether the name in url, or the names in hosts, may point to this machine or a private network. Addresses and localhost in url are allowed anyway."`
	Watch    []string         `json:"watch,omitempty" jsonschema:"URIs of resources to subscribe to. Each update becomes an event mcp.resource.updated."`

	OAuth *OAuthConfig `json:"oauth,omitempty" jsonschema:"The registration of Lilac with the authorization server of an HTTP server that needs a login. Without it, lilac mcp login registers Lilac."`

	Events bool `json:"events,omitempty" jsonschema:"Whether a stdio server is a source of events: each of its notifications/eventsource/emitted becomes an event for rules, with its own type, as a line of a program under sources does."`

	Channels []string `json:"channels,omitempty" jsonschema:"Only requests in these channels may use the server: IDs of channels, their names in entity.sessions, or clients (web, terminal, discord). A thread counts as its channel. With rules, requests of these rules may use it as well."`
	Rules    []string `json:"rules,omitempty" jsonschema:"Only requests for events of these rules may use the server, besides those in channels."`

	Description   string   `json:"description,omitempty" jsonschema:"A note for people."`
	AutoApprove   []string `json:"autoApprove,omitempty" jsonschema:"Ignored; other products have it. Use tools: {allow: […], deny: […]} of a channel, rule, or surface."`
	AlwaysAllow   []string `json:"alwaysAllow,omitempty" jsonschema:"Ignored, as autoApprove."`
	DisabledTools []string `json:"disabledTools,omitempty" jsonschema:"Names of tools that are left out."`

	// Broken reports that the entry has a mistake, so that the server can't start.
	Broken bool `json:"-"`
}

// The transports.
const (
	transportStdio = "stdio"
	transportHTTP  = "http"
	transportSSE   = "sse" // of revision 2024-11-05
)

// The rights of a stdio server in the workspace.
const (
	filesWrite = "write"
	filesRead  = "read"
	filesNone  = "none"
)

const (
	defaultTimeout = time.Minute
	maxTimeout     = 10 * time.Minute
	// minMemory is the least memory with which a sandbox starts.
	minMemory = 128 << 20
	// MaxServers bounds the servers, and maxWatched the watched resources of one.
	MaxServers = 100
	maxWatched = 100
)

// transport returns the transport of the server.
func (c ServerConfig) transport() string {
	switch strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(c.Type)) {
	case "":
		if c.Command == "" {
			return transportHTTP
		}
		return transportStdio
	case transportStdio, "local":
		return transportStdio
	case transportHTTP, "streamablehttp", "remote":
		return transportHTTP
	case transportSSE:
		return transportSSE
	}
	return c.Type
}

// hasToken reports whether the headers say who Lilac is, so that a login would be in the way.
func (c ServerConfig) hasToken() bool {
	for name := range c.Headers {
		if strings.EqualFold(name, "Authorization") {
			return true
		}
	}
	return false
}

func (c ServerConfig) callTime() time.Duration {
	return min(cmp.Or(time.Duration(c.Timeout), defaultTimeout), maxTimeout)
}

func (c ServerConfig) startTime() time.Duration {
	return min(cmp.Or(time.Duration(c.Start), defaultTimeout), maxTimeout)
}

// Name returns the name of a server in the names of its callables: lowercase, with a hyphen
// for each other character. Names in files of other products may contain spaces.
func Name(key string) string {
	return strings.Trim(strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '_' {
			return r
		}
		return '-'
	}, strings.ToLower(key)), "-")
}

var environmentName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Check returns the mistakes in the entry; field is its key.
func (c ServerConfig) Check(field string) error {
	var found []error
	bad := func(key, format string, args ...any) {
		found = append(found, fault.InvalidField(field+key, format, args...))
	}
	if c.Disabled {
		return nil
	}
	switch transport := c.transport(); {
	case c.Command == "" && c.URL == "":
		bad("", "The MCP server needs a command (for stdio) or a url (for HTTP).")
	case transport != transportStdio && transport != transportHTTP && transport != transportSSE:
		bad(".type", "%q is not a transport; use stdio, http, or sse.", c.Type)
	case transport == transportStdio && c.Command == "":
		bad(".command", "The server has no command, which stdio needs.")
	case transport == transportStdio && c.URL != "":
		bad(".url", "The server has a command and a url; it can have one of them.")
	case transport != transportStdio:
		if _, err := c.endpoint(); err != nil {
			bad(".url", "%q is not an address such as https://mcp.example.org/mcp.", c.URL)
		}
	}
	if c.OAuth != nil {
		if c.transport() != transportHTTP {
			bad(".oauth", "%s.oauth is for servers with a url.", field)
		}
		found = append(found, c.OAuth.check(field+".oauth"))
	}
	if c.Events && c.transport() != transportStdio {
		bad(".events", "%s.events is for servers with a command.", field)
	}
	for name := range c.Env {
		if !environmentName().MatchString(name) {
			bad(".env."+name, "%q is not the name of an environment variable.", name)
		}
	}
	switch c.Files {
	case "", filesWrite, filesRead, filesNone:
	default:
		bad(".workspace", "%q is not a right in the workspace; use write, read, or none.", c.Files)
	}
	for i, rule := range c.rules() {
		if err := rule.Validate(); err != nil {
			bad(fmt.Sprintf(".hosts[%d]", i), "%q is not a host: use a name in small letters (api.github.com), with a port if needed (example.org:8443), or all names below one (*.example.org).", c.Hosts[i])
		}
	}
	if c.Memory != 0 && c.Memory < minMemory {
		bad(".memory", "%s.memory is too small; it must be at least 128MiB.", field)
	}
	if c.Timeout < 0 || time.Duration(c.Timeout) > maxTimeout {
		bad(".timeout", "%s.timeout must be between 0s and 10m.", field)
	}
	if c.Start < 0 || time.Duration(c.Start) > maxTimeout {
		bad(".startTimeout", "%s.startTimeout must be between 0s and 10m.", field)
	}
	if len(c.Watch) > maxWatched {
		bad(".watch", "%s.watch has more than %d resources.", field, maxWatched)
	}
	return errors.Join(found...)
}

func (c ServerConfig) endpoint() (*url.URL, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return nil, fault.New(fault.Invalid, "The address needs a scheme (http or https) and a host, and no user.")
	}
	u.Fragment = ""
	return u, nil
}

// rules returns the hosts of a stdio server as rules of the proxy.
func (c ServerConfig) rules() (out []egress.Rule) {
	for _, name := range c.Hosts {
		rule := egress.Rule{Host: name, Internal: c.Internal}
		if host, port, found := strings.Cut(name, ":"); found {
			n, err := strconv.Atoi(port)
			if err != nil {
				n = -1 // Validate refuses it
			}
			rule.Host, rule.Ports = host, []int{n}
		}
		out = append(out, rule)
	}
	return out
}

// A Timeout is a duration. Files of other products have plain numbers instead: seconds in
// some, milliseconds in others. An hour is the limit between them.
type Timeout time.Duration

// String returns the duration in the notation of the file.
func (t Timeout) String() string { return time.Duration(t).String() }

// MarshalText returns the duration in the notation of the file.
func (t Timeout) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalYAML parses 90s, or a number of seconds or milliseconds.
func (t *Timeout) UnmarshalYAML(n ast.Node) error {
	text, err := setting.Scalar(n)
	if err != nil {
		return err
	}
	if plain, err := strconv.Atoi(text); err == nil && plain >= 0 {
		unit := time.Millisecond
		if plain <= 3600 {
			unit = time.Second
		}
		*t = Timeout(min(plain, 1<<30)) * Timeout(unit)
		return nil
	}
	var d setting.Duration
	if err := d.UnmarshalText([]byte(text)); err != nil {
		return &yaml.SyntaxError{Message: err.Error(), Token: n.GetToken()}
	}
	*t = Timeout(d)
	return nil
}
