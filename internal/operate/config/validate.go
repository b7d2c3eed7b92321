package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"lilac/internal/agent/sandbox"
	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/realpath"
	"lilac/internal/telemetry/logs"
)

// minTokenLength is the minimum length of a token, which may guard a public port.
const minTokenLength = 16

// maxCompactAt leaves room for the error of the estimated conversation size.
const maxCompactAt = 0.95

// A checker finds the mistakes in a configuration.
type checker struct{ *Config }

// validate runs all checks and returns all mistakes, so that operators can fix them at once.
func (c checker) validate() error {
	var found []error
	for _, check := range []func() error{
		c.checkListen, c.checkProxies, c.checkTokens, c.checkSecrets, c.checkHosts, c.checkApart, c.checkDatabase, c.checkNode, c.checkBus,
		c.checkProviders, c.checkModels, c.checkChannels, c.checkTitles, c.checkAgents, c.checkPolicy, c.Limits.Check, c.checkCompactAt, c.checkWords, c.checkMoney,
		c.checkSandbox, c.Tasks.Check, c.checkSurface, c.checkAttachments, c.checkStore, c.checkRules, c.checkSources, c.Router.Check, c.checkGate,
		c.checkTools, c.checkMCP, c.checkV1, c.checkAccounts, c.checkMemory, c.checkWorkspaces, c.Web.Check,
	} {
		found = append(found, check())
	}
	return errors.Join(found...)
}

// checkSources compiles the sources of events.
func (c checker) checkSources() error {
	_, hooks := c.Hooks()
	_, timers := c.Clock()
	_, files := c.WatchedFiles()
	_, programs := c.Programs()
	return errors.Join(hooks, timers, files, programs)
}

func (c checker) checkGate() error {
	if c.unreadable(modelKeys...) {
		return nil
	}
	_, _, err := c.ResolveGate()
	return err
}

func (c checker) checkCompactAt() error {
	if !(c.CompactAt > 0 && c.CompactAt <= maxCompactAt) {
		return fault.InvalidField("compactAt", "compactAt is %v; it has to be above 0 and at most %v.", c.CompactAt, maxCompactAt)
	}
	return nil
}

func (c checker) checkTokens() error {
	var found []error
	if c.Token.Set() && len(c.Token) < minTokenLength {
		found = append(found, fault.InvalidField("LILAC_TOKEN", "LILAC_TOKEN is shorter than %d characters.", minTokenLength))
	}
	if c.MetricsToken.Set() && (len(c.MetricsToken) < minTokenLength || c.MetricsToken == c.Token) {
		found = append(found, fault.InvalidField("LILAC_METRICS_TOKEN", "LILAC_METRICS_TOKEN is shorter than %d characters, or the same as LILAC_TOKEN.", minTokenLength))
	}
	return errors.Join(found...)
}

func (c checker) checkListen() error {
	host, port, err := net.SplitHostPort(c.Addr)
	if err != nil {
		return fault.InvalidField("addr", "The address %q is not of the form host:port.", c.Addr)
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return fault.InvalidField("addr", "The address %q has no port between 0 and 65535.", c.Addr)
	}
	if !Loopback(host) && !c.Token.Set() {
		return fault.InvalidField("addr", "The address %q can be reached from other machines. Set LILAC_TOKEN to a token of your own, or listen on 127.0.0.1.", c.Addr)
	}
	return nil
}

// checkTools rejects addresses that other machines could reach.
func (c checker) checkTools() error {
	if c.Tools.Addr == "" {
		return nil
	}
	host, port, err := net.SplitHostPort(c.Tools.Addr)
	if n, perr := strconv.Atoi(port); err != nil || perr != nil || n < 0 || n > 65535 {
		return fault.InvalidField("tools.addr", "The address %q is not of the form host:port.", c.Tools.Addr)
	}
	if !Loopback(host) {
		return fault.InvalidField("tools.addr", "The tool server listens on loopback only, such as 127.0.0.1:7421, not on %q.", c.Tools.Addr)
	}
	return nil
}

// Loopback reports whether a host is reachable from this machine only.
func Loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func (c checker) checkHosts() error {
	var found []error
	for i, h := range c.AllowedHosts {
		if h == "" || strings.ContainsAny(h, "/*: \t") {
			found = append(found, fault.InvalidField(fmt.Sprintf("allowedHosts[%d]", i), "%q is not a host name (without scheme, port and wildcards).", h))
		}
	}
	for i, p := range c.TrustedProxies {
		if _, err := parseProxy(p); err != nil {
			found = append(found, fault.InvalidField(fmt.Sprintf("trustedProxies[%d]", i), "%q is not an IP address or a network such as 10.0.0.0/8.", p))
		}
	}
	return errors.Join(found...)
}

func parseProxy(s string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(s); err == nil {
		return addr.Prefix(addr.BitLen())
	}
	return netip.ParsePrefix(s)
}

// Proxies returns the valid trusted proxies and skips invalid entries.
func (c *Config) Proxies() (out []netip.Prefix) {
	for _, p := range c.TrustedProxies {
		if prefix, err := parseProxy(p); err == nil {
			out = append(out, prefix.Masked())
		}
	}
	return out
}

// unreachable returns the fault of a path that cannot be followed, for example through a directory of
// another user.
func unreachable(what string, err error) error {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		err = fmt.Errorf("%s: %w", e.Path, e.Err) // without the name of the system call
	}
	return fault.New(fault.Invalid, "%s cannot be reached (%s). Choose another path, or correct the owner or mode of that one.", what, err)
}

// checkApart keeps the workspace separate from the data directory: anyone who can write the
// database or read the token controls the server.
func (c checker) checkApart() error {
	data, err := followDirectory("The data directory", c.DataDir)
	if err != nil {
		return err
	}
	work, err := followDirectory("The workspace", c.Workspace)
	if err != nil {
		return err
	}
	switch {
	case within(work.Real, data.Real):
		return fault.InvalidField("workspace", "The workspace %s is inside the data directory %s; the agent could read its secrets.", c.Workspace, c.DataDir)
	case within(data.Real, work.Real):
		return fault.InvalidField("workspace", "The workspace %s contains the data directory %s; the agent could read its secrets.", c.Workspace, c.DataDir)
	case data.Under(work.Real):
		return fault.InvalidField("workspace", "The workspace %s contains a link on the way to the data directory %s; the agent could point it elsewhere.", c.Workspace, c.DataDir)
	}
	return nil
}

// followDirectory resolves the path of a directory, which need not exist yet.
func followDirectory(what, path string) (realpath.Path, error) {
	out, err := realpath.Follow(path)
	if err != nil {
		return out, unreachable(what+" "+path, err)
	}
	if info, err := os.Stat(out.Real); err == nil && !info.IsDir() {
		return out, fault.New(fault.Invalid, "%s %s is not a directory. Choose another path.", what, path)
	}
	return out, nil
}

func within(inner, outer string) bool {
	rel, err := filepath.Rel(outer, inner)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator))
}

func (c checker) checkProviders() error {
	var found []error
	for name, p := range c.Providers {
		field := "providers." + name
		if name == "" || strings.ContainsAny(name, "/ \t") {
			found = append(found, fault.InvalidField(field, "%q is not a name for a provider: it must not be empty and holds no slash or space.", name))
			continue
		}
		switch p.Type {
		case Demo:
			if name != "demo" {
				found = append(found, fault.InvalidField(field+".type", "Only the built-in provider demo is of type demo."))
			}
			continue
		case Anthropic, OpenAI:
		case "":
			found = append(found, fault.InvalidField(field+".type", "The provider %s has no type; use anthropic or openai.", name))
			continue
		default:
			found = append(found, fault.InvalidField(field+".type", "The provider %s has the unknown type %q%s Use anthropic or openai.",
				name, p.Type, sentence(didYouMean(string(p.Type), []string{"anthropic", "openai"}))))
			continue
		}
		if p.API != "" && p.API != APIChat && (p.API != APIResponses || p.Type != OpenAI) {
			found = append(found, fault.InvalidField(field+".api", "The provider %s has the unknown api %q. Use chat, or responses for a provider of type openai.", name, p.API))
		}
		if p.Auth != "" && !slices.Contains(enumOf[Provider]("Auth"), string(p.Auth)) {
			found = append(found, fault.InvalidField(field+".auth", "The provider %s has the unknown auth %q. Use key, aws, or google.", name, p.Auth))
		}
		found = append(found, p.Headers.check(field+".headers", true))
		u, err := url.Parse(p.BaseURL)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil || !isAPIVersion(u.RawQuery) {
			found = append(found, fault.InvalidField(field+".baseURL", "The provider %s has no usable base URL; it looks like https://host/v1.", name))
		}
	}
	return errors.Join(found...)
}

// sentence ends a sentence to which a hint was appended; a hint already ends with a question mark.
func sentence(hint string) string {
	if hint == "" {
		return "."
	}
	return hint
}

func (c checker) checkModels() error {
	var found []error
	for name, m := range c.Models {
		field := "models." + name
		provider, model, ok := strings.Cut(name, "/")
		if name != "demo" && (!ok || provider == "" || model == "") {
			found = append(found, fault.InvalidField(field, "The model %q is not of the form provider/model.", name))
		}
		if m.ContextTokens < 0 || m.MaxOutputTokens < 0 {
			found = append(found, fault.InvalidField(field, "The model %q has a negative size.", name))
		}
		found = append(found, m.checkOptions(field))
		if p := m.Price; p != nil && min(p.Input, p.Output, p.CacheRead, p.CacheWrite) < 0 {
			found = append(found, fault.InvalidField(field+".price", "The model %q has a negative price.", name))
		}
	}
	if !c.unreadable(modelKeys...) {
		_, err := c.ResolveModels()
		found = append(found, err)
	}
	return errors.Join(found...)
}

// modelKeys lists the keys that determine which models exist and what they cost.
var modelKeys = []string{"model", "models", "providers"}

func (c checker) checkMoney() error {
	if !c.Limits.HasMoney() || c.unreadable(modelKeys...) {
		return nil
	}
	models := allModels(c.Config) // checkModels and checkGate report errors in the models
	if gate, ok, err := c.ResolveGate(); ok && err == nil {
		models = append(models, gate)
	}
	for _, m := range models {
		if m.Price == nil {
			return fault.InvalidField("limits", "There is a limit on money, but the price of %s is unknown, so it could not be kept. Set it under models: %q: price:.", m, m.String())
		}
	}
	return nil
}

func (c checker) checkWords() error {
	var found []error
	for _, w := range []struct {
		field, value string
		allowed      []string
	}{
		{"sandbox.mode", string(c.Sandbox.Mode), enumOf[sandbox.Config]("Mode")},
		{"log.level", c.Log.Level, enumOf[logs.Config]("Level")},
		{"log.format", c.Log.Format, enumOf[logs.Config]("Format")},
	} {
		if !slices.Contains(w.allowed, w.value) {
			found = append(found, fault.InvalidField(w.field, "%s is %q%s It must be one of %s.",
				w.field, w.value, sentence(didYouMean(w.value, w.allowed)), strings.Join(w.allowed, ", ")))
		}
	}
	return errors.Join(found...)
}

func (c reader) resolvePaths() error {
	for _, p := range []struct {
		key string
		at  *string
	}{
		{"dataDir", &c.DataDir},
		{"workspace", &c.Workspace},
		{"bus.passwordFile", &c.Bus.PasswordFile},
		{"bus.sentinelPasswordFile", &c.Bus.SentinelPasswordFile},
		{"bus.caFile", &c.Bus.CAFile},
		{"bus.certFile", &c.Bus.CertFile},
		{"bus.keyFile", &c.Bus.KeyFile},
		{"catalog", &c.Catalog},
	} {
		if *p.at == "" && (strings.HasPrefix(p.key, "bus.") || p.key == "catalog") {
			continue // not set
		}
		if *p.at == "" { // filepath.Abs would resolve it to the current directory
			return fault.InvalidField(p.key, "%s is empty.", p.key)
		}
		path, err := c.pathOf(p.key, *p.at)
		if err != nil {
			return err
		}
		*p.at = path
	}
	return nil
}

// pathOf makes the path of a key absolute. It rejects ~user, because only a shell can resolve
// another user's home directory.
func (c *Config) pathOf(key, path string) (string, error) {
	if strings.HasPrefix(path, "~") && path != "~" && !strings.HasPrefix(path, "~/") {
		return "", fault.InvalidField(key, "%s is %q; ~ stands for your own home directory alone, as ~/.", key, path)
	}
	abs, err := c.absolute(path)
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "%s cannot be made an absolute path", key)
	}
	return abs, nil
}

func (c *Config) absolute(path string) (string, error) {
	if path == "~" || strings.HasPrefix(path, "~/") {
		home := c.getenv("HOME")
		if home == "" {
			var err error
			if home, err = os.UserHomeDir(); err != nil {
				return "", fault.New(fault.Invalid, "The home directory is unknown. Set HOME, or configure an absolute path.")
			}
		}
		path = filepath.Join(home, strings.TrimPrefix(path[1:], "/"))
	}
	return filepath.Abs(path)
}

// isAPIVersion reports whether a query has nothing but the version that Azure requires. Other
// parameters may be keys, which belong into apiKey.
func isAPIVersion(raw string) bool {
	query, err := url.ParseQuery(raw)
	return err == nil && (len(query) == 0 || len(query) == 1 && query.Has("api-version"))
}
