package config

import (
	"math"
	"reflect"
	"strings"

	"lilac/internal/foundation/fault"
)

// endless returns the keys whose values are NaN or infinite: such a limit would never apply. YAML
// has several spellings of these values, also in strings and variables, so endless checks the
// decoded values.
func (c reader) endless() (keys []string, mistakes []mistake) {
	each(reflect.ValueOf(c.Config).Elem(), "", func(key string, n float64) {
		if math.IsNaN(n) || math.IsInf(n, 0) {
			keys = append(keys, key)
			mistakes = append(mistakes, c.located(fault.InvalidField(key, "%s has to be a number with an end, not %v.", key, n)))
		}
	})
	return keys, mistakes
}

// each calls number with the key and value of every float in v.
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
