package config

import (
	"math"
	"reflect"
	"strings"

	"lilac/internal/foundation/fault"
)

// endless are the keys of what is no number or has no end: a limit of it would
// never bind. There are several ways to write those, as a text or in a variable
// too, so they are looked for in what was read.
func (c *Config) endless() (keys []string, mistakes []mistake) {
	each(reflect.ValueOf(c).Elem(), "", func(key string, n float64) {
		if math.IsNaN(n) || math.IsInf(n, 0) {
			keys = append(keys, key)
			mistakes = append(mistakes, c.located(fault.InvalidField(key, "%s has to be a number with an end, not %v.", key, n)))
		}
	})
	return keys, mistakes
}

// each hands over every number that may have a fraction, with its key.
func each(v reflect.Value, key string, number func(key string, n float64)) {
	switch v.Kind() {
	case reflect.Float64:
		number(key, v.Float())
	case reflect.Pointer:
		if !v.IsNil() {
			each(v.Elem(), key, number)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			if name != "" && name != "-" {
				each(v.Field(i), join(key, name), number)
			}
		}
	case reflect.Map:
		for _, name := range v.MapKeys() {
			each(v.MapIndex(name), join(key, name.String()), number)
		}
	}
}
