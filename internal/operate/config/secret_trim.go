package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/order"
)

var secretType = reflect.TypeFor[Secret]()

// trimSecrets removes the white space around every secret. A key that was read from a file often
// ends in a newline, which is invalid in an HTTP header.
func (c reader) trimSecrets() {
	mapSecrets(reflect.ValueOf(c.Config).Elem(), func(s string) string { return strings.TrimSpace(s) })
}

// checkSecrets rejects secrets that contain line breaks or other control characters, because HTTP
// headers cannot carry them.
func (c checker) checkSecrets() error {
	var found []error
	check := func(field string, s Secret) {
		if strings.ContainsFunc(string(s), func(r rune) bool { return r < ' ' || r == 0x7f }) {
			found = append(found, fault.InvalidField(field, "%s contains a line break or another control character. Set it to the secret alone.", field))
		}
	}
	check("LILAC_TOKEN", c.Token)
	check("LILAC_METRICS_TOKEN", c.MetricsToken)
	for _, f := range secretFields(nil, reflect.ValueOf(c.Config).Elem(), "") {
		check(f.name, f.value)
	}
	return errors.Join(found...)
}

// mapSecrets replaces every secret in v, which must be settable.
func mapSecrets(v reflect.Value, replace func(string) string) {
	switch v.Kind() {
	case reflect.String:
		if v.Type() == secretType {
			v.SetString(replace(v.String()))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			mapSecrets(v.Elem(), replace)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				mapSecrets(v.Field(i), replace)
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() { // map values are not settable
			changed := reflect.New(v.Type().Elem()).Elem()
			changed.Set(v.MapIndex(key))
			mapSecrets(changed, replace)
			v.SetMapIndex(key, changed)
		}
	case reflect.Slice:
		for i := range v.Len() {
			mapSecrets(v.Index(i), replace)
		}
	}
}

type secretField struct {
	name  string
	value Secret
}

// secretFields lists the secrets in v with their keys.
func secretFields(out []secretField, v reflect.Value, key string) []secretField {
	switch v.Kind() {
	case reflect.String:
		if v.Type() == secretType {
			out = append(out, secretField{key, Secret(v.String())})
		}
	case reflect.Pointer:
		if !v.IsNil() {
			out = secretFields(out, v.Elem(), key)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if name != "" && name != "-" {
				out = secretFields(out, v.Field(i), join(key, name))
			}
		}
	case reflect.Map:
		names := v.MapKeys()
		order.By(names, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, name := range names {
			out = secretFields(out, v.MapIndex(name), join(key, name.String()))
		}
	case reflect.Slice:
		for i := range v.Len() {
			out = secretFields(out, v.Index(i), fmt.Sprintf("%s[%d]", key, i))
		}
	}
	return out
}
