package config

import (
	"encoding"
	"fmt"
	"net/url"
	"reflect"
	"strings"

	"lilac/internal/foundation/order"
)

// A Setting is one setting with its effective value.
type Setting struct {
	// Key is the path in the file, as in "limits.request.steps".
	Key string
	// Value is the effective value. For a secret, it only says whether the secret is set. A
	// password in a URL is masked as ***.
	Value string
	// Source is "default", "the file", the name of an environment variable or a flag.
	Source string
	// Doc is the description of the setting.
	Doc string
	// Kind says how the value is written: text, number, boolean, or list; empty if the setting
	// cannot be edited as one value, such as a secret or an entry with a name.
	Kind string
	// Choices are the allowed values; none means any.
	Choices []string
	// Live means that a change takes effect without a restart.
	Live bool
}

// InForce lists every setting, in the order of the reference.
func (c *Config) InForce() []Setting {
	out := c.settings(nil, reflect.ValueOf(c).Elem(), Setting{})
	token := Setting{Key: "LILAC_TOKEN", Value: "made by the server", Source: "default", Doc: "The operator's token."}
	if c.Token.Set() {
		token.Value, token.Source = "set", "LILAC_TOKEN"
	}
	return append(out, token)
}

// settings appends the settings in v. at holds what is known of them; its kind is "named" below a map.
func (c *Config) settings(out []Setting, v reflect.Value, at Setting) []Setting {
	switch {
	case v.Kind() == reflect.Pointer && v.IsNil():
		return out
	case v.Kind() == reflect.Pointer:
		return c.settings(out, v.Elem(), at)
	case v.Kind() == reflect.Struct && !isText(v):
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "" || name == "-" {
				continue
			}
			below := Setting{Key: join(at.Key, name), Doc: field.Tag.Get("jsonschema"), Kind: at.Kind}
			if words := field.Tag.Get("enum"); words != "" {
				below.Choices = strings.Split(words, ",")
			}
			out = c.settings(out, v.Field(i), below)
		}
		return out
	case v.Kind() == reflect.Map:
		names := v.MapKeys()
		order.By(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, name := range names {
			out = c.settings(out, v.MapIndex(name), Setting{Key: join(at.Key, name.String()), Doc: at.Doc, Kind: named})
		}
		return out
	}
	at.Value, at.Source, at.Live = shown(v), c.Origin(at.Key), Live(at.Key)
	if at.Kind == named { // a name may contain a dot, so that the key is no path
		at.Kind = ""
	} else {
		at.Kind = kindOfSetting(v)
	}
	return append(out, at)
}

// named marks settings below a map.
const named = "named"

// kindOfSetting says how people write a value.
func kindOfSetting(v reflect.Value) string {
	switch v.Interface().(type) {
	case Secret, BusURL:
		return ""
	case ModelList, []string:
		return "list"
	}
	switch {
	case isText(v) || v.Kind() == reflect.String:
		return "text"
	case v.Kind() == reflect.Bool:
		return "boolean"
	case v.CanInt() || v.CanFloat():
		return "number"
	}
	return ""
}

// OverriddenBy returns the environment variable or the flag that sets a key, "" if none does.
func (c *Config) OverriddenBy(key string) string {
	if from := c.Origin(key); from != fromFile && from != "default" {
		return from
	}
	return ""
}

func join(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

func isText(v reflect.Value) bool {
	_, ok := v.Interface().(encoding.TextMarshaler)
	return ok
}

// shown formats a value for display. It hides secrets itself and does not rely on their String
// methods.
func shown(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case Secret:
		if x.Set() {
			return "set"
		}
		return "not set"
	case ModelList:
		return x.String()
	case []string:
		return strings.Join(x, ", ")
	case string:
		return withoutPassword(x)
	}
	return fmt.Sprint(v.Interface())
}

// withoutPassword masks the credentials before the @ of a URL. It masks the whole text if it looks
// like a URL but cannot be parsed.
func withoutPassword(s string) string {
	if !strings.Contains(s, "://") || !strings.Contains(s, "@") {
		return s
	}
	u, err := url.Parse(s)
	if err != nil || u.User == nil {
		return masked
	}
	u.User = url.User(masked)
	return strings.Replace(u.String(), url.User(masked).String()+"@", masked+"@", 1)
}
