package config

import (
	"bytes"
	"maps"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"
)

// live are the keys whose settings apply while the program runs, with all that
// is below them. The others name what was opened at the start.
var live = []string{
	"allowedHosts", "model", "providers", "models", "limits", "compactAt", "system", "tasks", "rules", "webhooks", "files", "timers", "log.level",
	"router", "entity", "surface.discord.mode", "surface.discord.channels",
	"surface.discord.allowedChannelIds", "surface.discord.allowedGuildIds", "surface.discord.allowDMs", "surface.discord.allowedUserIds", "surface.discord.cache",
}

// Live reports whether a changed setting applies without a restart.
func Live(key string) bool {
	return slices.ContainsFunc(live, func(l string) bool { return key == l || strings.HasPrefix(key, l+".") })
}

// Change is the difference between two configurations.
type Change struct {
	// Applied are the keys that are taken over, Restart those that need a restart.
	Applied, Restart []string
}

// Adopt returns c with what may change while the program runs taken from next,
// and says what that is. Neither c nor next is changed.
func (c *Config) Adopt(next *Config) (*Config, Change) {
	out := *c
	out.origin = maps.Clone(c.origin)
	if next.File != "" {
		out.File = next.File
	}
	var change Change
	adopt(reflect.ValueOf(&out).Elem(), reflect.ValueOf(next).Elem(), "", &change)
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

// adopt goes down to the keys that live decides about.
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

// Secrets are the values in the configuration that no log may show: every
// [Secret], whichever key it has.
func (c *Config) Secrets() []string {
	out := secretsIn(nil, reflect.ValueOf(c).Elem())
	for _, read := range []func() (Secret, error){c.Bus.Password, c.Bus.SentinelPassword} {
		if password, err := read(); err == nil {
			out = append(out, password.Reveal())
		}
	}
	if u, err := url.Parse(c.Bus.URL.Reveal()); err == nil && u.User != nil {
		password, _ := u.User.Password()
		out = append(out, password)
	}
	return out
}

// secretsIn walks through the exported fields of a value.
func secretsIn(out []string, v reflect.Value) []string {
	switch v.Kind() {
	case reflect.String:
		if v.Type() == reflect.TypeFor[Secret]() && v.Len() > 0 {
			out = append(out, v.String())
			// Of "Bearer x" the x alone is the secret.
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
			out = secretsIn(out, v.MapIndex(key))
		}
	case reflect.Slice:
		for i := range v.Len() {
			out = secretsIn(out, v.Index(i))
		}
	}
	return out
}

// SecretInFile reports whether a secret stands in the file itself, not only its
// name as ${NAME}. A file that cannot be read holds none.
func (c *Config) SecretInFile() bool {
	text, err := os.ReadFile(c.File)
	return err == nil && slices.ContainsFunc(c.Secrets(), func(secret string) bool {
		address := secret == c.Bus.URL.Reveal() // of it the password is the secret
		return secret != "" && !address && bytes.Contains(text, []byte(secret))
	})
}
