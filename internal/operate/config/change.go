package config

import (
	"bytes"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"lilac/internal/foundation/setting"
)

// live lists the keys that apply without a restart, including all keys below them. All other keys
// configure resources that are opened at startup.
var live = []string{
	"allowedHosts", "model", "providers", "models", "transcription", "titles", "catalog", "limits", "compactAt", "system", "channels", "agents", "workspaces.shared",
	"tasks", "mcpServers", "mcp.pin", "mcp.origins", "v1", "accounts.member", "skills", "memory.off", "memory.everyone", "rules", "policy", "webhooks", "files", "timers", "sources", "log.level",
	"router", "entity", "surface.discord.mode", "surface.discord.pingAfter", "surface.discord.linkPreviews", "surface.discord.channels", "surface.discord.tools", "surface.discord.access", "surface.discord.pairing", "surface.web", "surface.terminal",
	"surface.discord.allowedChannelIds", "surface.discord.allowedGuildIds", "surface.discord.allowDMs", "surface.discord.allowedUserIds", "surface.discord.cache",
}

// Live reports whether a changed setting applies without a restart.
func Live(key string) bool {
	return slices.ContainsFunc(live, func(l string) bool { return key == l || strings.HasPrefix(key, l+".") })
}

// A Change describes the difference between two configurations.
type Change struct {
	// Applied lists the keys that were adopted. Restart lists the changed keys that need a
	// restart.
	Applied, Restart []string
}

// Adopt returns a copy of c that takes its live settings from next, and reports what changed. It
// modifies neither c nor next.
func (c *Config) Adopt(next *Config) (*Config, Change) {
	out := *c
	out.origin, out.facts = maps.Clone(c.origin), next.facts
	if next.File != "" {
		out.File = next.File
	}
	var change Change
	adopt(reflect.ValueOf(&out).Elem(), reflect.ValueOf(next).Elem(), "", &change)
	out.MCPServers = keepServers(c.MCPServers, next.MCPServers)
	if c.Token != next.Token {
		change.Restart = append(change.Restart, "LILAC_TOKEN")
	}
	for key := range c.origin {
		if Live(key) {
			delete(out.origin, key)
		}
	}
	for key, from := range next.origin {
		if Live(key) {
			out.origin[key] = from
		}
	}
	return &out, change
}

// adopt descends to the keys that live lists and copies the values that changed.
func adopt(into, from reflect.Value, key string, change *Change) {
	if into.Kind() == reflect.Struct && !isText(into) && !Live(key) {
		for i := range into.NumField() {
			name, _, _ := strings.Cut(into.Type().Field(i).Tag.Get("json"), ",")
			if name != "" && name != "-" {
				adopt(into.Field(i), from.Field(i), join(key, name), change)
			}
		}
		return
	}
	if reflect.DeepEqual(into.Interface(), from.Interface()) {
		return
	}
	if !Live(key) {
		change.Restart = append(change.Restart, key)
		return
	}
	into.Set(from)
	change.Applied = append(change.Applied, key)
}

// Secrets returns the values in the configuration that no log may show: every [Secret], and the
// passwords of the bus and the database.
func (c *Config) Secrets() []string {
	out := secretsIn(nil, reflect.ValueOf(c).Elem())
	for _, read := range []func() (Secret, error){c.Bus.Password, c.Bus.SentinelPassword} {
		if password, err := read(); err == nil {
			out = append(out, password.Reveal())
		}
	}
	for _, address := range []string{c.Bus.URL.Reveal(), c.Database.URL.Reveal()} {
		if password := passwordOf(address); password != "" {
			out = append(out, password)
		}
	}
	return out
}

// secretsIn appends the secrets in the exported fields of v to out.
func secretsIn(out []string, v reflect.Value) []string {
	switch v.Kind() {
	case reflect.String:
		if v.Type() == reflect.TypeFor[Secret]() && v.Len() > 0 {
			out = append(out, v.String())
			// In "Bearer x", x alone is also secret.
			if words := strings.Fields(v.String()); len(words) > 1 {
				out = append(out, words[len(words)-1])
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			out = secretsIn(out, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out = secretsIn(out, v.Field(i))
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			if v.Type() != reflect.TypeFor[Headers]() || !setting.IsPublicHeader(key.String(), v.MapIndex(key).String()) {
				out = secretsIn(out, v.MapIndex(key))
			}
		}
	case reflect.Slice:
		for i := range v.Len() {
			out = secretsIn(out, v.Index(i))
		}
	}
	return out
}

// SecretInFile reports whether the file contains a secret itself, rather than a reference such as
// ${NAME}. It returns false if the file cannot be read.
func (c *Config) SecretInFile() bool {
	text, err := os.ReadFile(c.File)
	return err == nil && slices.ContainsFunc(c.Secrets(), func(secret string) bool {
		address := secret == c.Bus.URL.Reveal() // only the password in the URL is secret
		return secret != "" && !address && bytes.Contains(text, []byte(secret))
	})
}
