package config

import (
	"encoding"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
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
}

// InForce lists every setting, in the order of the reference.
func (c *Config) InForce() []Setting {
	out := c.settings(nil, reflect.ValueOf(c).Elem(), "", "")
	token := Setting{Key: "LILAC_TOKEN", Value: "made by the server", Source: "default", Doc: "The operator's token."}
	if c.Token.Set() {
		token.Value, token.Source = "set", "LILAC_TOKEN"
	}
	return append(out, token)
}

func (c *Config) settings(out []Setting, v reflect.Value, key, doc string) []Setting {
	switch {
	case v.Kind() == reflect.Pointer && v.IsNil():
		return out
	case v.Kind() == reflect.Pointer:
		return c.settings(out, v.Elem(), key, doc)
	case v.Kind() == reflect.Struct && !isText(v):
		for i := range v.NumField() {
			field := v.Type().Field(i)
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name != "" && name != "-" {
				out = c.settings(out, v.Field(i), join(key, name), field.Tag.Get("jsonschema"))
			}
		}
		return out
	case v.Kind() == reflect.Map:
		names := v.MapKeys()
		slices.SortFunc(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, name := range names {
			out = c.settings(out, v.MapIndex(name), join(key, name.String()), doc)
		}
		return out
	}
	return append(out, Setting{Key: key, Value: shown(v), Source: c.Origin(key), Doc: doc})
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
