package config

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"

	"lilac/internal/foundation/setting"
)

// Schema returns the JSON Schema of the configuration file, including defaults.
func Schema() (*jsonschema.Schema, error) {
	text := func(pattern string) *jsonschema.Schema {
		return &jsonschema.Schema{Type: "string", Pattern: pattern}
	}
	schema, err := jsonschema.For[Config](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[Duration]():    text(`^[0-9]+d$|^([0-9]+d)?([0-9.]+(ns|us|ms|s|m|h))+$|^0$`),
		reflect.TypeFor[Secret]():      text(""),
		reflect.TypeFor[Size]():        text(`^[0-9]+(KiB|MiB|GiB)?$`),
		reflect.TypeFor[BusURL]():      text(""),
		reflect.TypeFor[DatabaseURL](): text(""),
		reflect.TypeFor[setting.Texts](): {
			OneOf: []*jsonschema.Schema{text(""), {Type: "array", Items: text("")}},
		},
		reflect.TypeFor[ModelList](): {
			OneOf: []*jsonschema.Schema{text(""), {Type: "array", Items: text("")}},
		},
	}})
	if err != nil {
		return nil, fmt.Errorf("infer schema: %w", err)
	}
	schema.Schema = "https://json-schema.org/draft/2020-12/schema"
	schema.Title = "Lilac configuration"
	return schema, describe(schema, reflect.ValueOf(*Default()))
}

// describe adds the defaults and the allowed values of a struct's fields to its schema. A
// zero value is no default. The entries of a map have no defaults.
func describe(schema *jsonschema.Schema, v reflect.Value) error {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		at := schema.Properties[name]
		if at == nil {
			continue
		}
		if words := field.Tag.Get("enum"); words != "" {
			for word := range strings.SplitSeq(words, ",") {
				at.Enum = append(at.Enum, word)
			}
		}
		var err error
		switch value := v.Field(i); {
		case value.Kind() == reflect.Struct:
			err = describe(at, value)
		case value.Kind() == reflect.Map && value.Type().Elem().Kind() == reflect.Struct:
			err = describe(at.AdditionalProperties, reflect.Zero(value.Type().Elem()))
		case value.Kind() != reflect.Map && !value.IsZero():
			at.Default, err = json.Marshal(value.Interface())
		}
		if err != nil {
			return fmt.Errorf("describe %s: %w", name, err)
		}
	}
	return nil
}

// enumOf returns the allowed values of a field.
func enumOf[T any](name string) []string {
	field, _ := reflect.TypeFor[T]().FieldByName(name)
	return strings.Split(field.Tag.Get("enum"), ",")
}
