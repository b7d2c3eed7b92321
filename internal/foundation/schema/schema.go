package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"lilac/internal/foundation/fault"
)

// Options change how a [Schema] decodes. The zero value refuses unknown fields.
type Options struct {
	// IgnoreUnknown drops unknown fields instead of refusing them.
	IgnoreUnknown bool
}

// Schema is the JSON schema of the struct T.
type Schema[T any] struct{ untyped }

// untyped is the part of a [Schema] that needs its type only to be derived, so that it is compiled
// once.
type untyped struct {
	options Options
	load    func() (derived, error)
}

// For returns the schema of T. Whether T can be described is only known when the
// schema is first used; see [Schema.JSON].
func For[T any](o Options) *Schema[T] {
	return &Schema[T]{untyped{o, sync.OnceValues(func() (derived, error) { return deriveNamed(reflect.TypeFor[T]()) })}}
}

func deriveNamed(t reflect.Type) (derived, error) {
	d, err := derive(t)
	if err != nil {
		return d, fmt.Errorf("derive schema of %s: %w", t, err)
	}
	return d, nil
}

// JSON returns the schema as JSON. An error is a mistake in the struct.
func (s *untyped) JSON() (json.RawMessage, error) {
	d, err := s.load()
	return d.text, err
}

// Normalize returns an input with the field names and types of the schema and with
// defaults for missing fields. It fails if the input does not match the schema.
func (s *untyped) Normalize(input json.RawMessage) (json.RawMessage, error) {
	d, err := s.load()
	if err != nil {
		return nil, err
	}
	value, problems := d.coerce(input, s.options)
	if len(problems) > 0 {
		return nil, asFault(problems)
	}
	normal, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("encode input: %w", err)
	}
	var plain any
	if err := json.Unmarshal(normal, &plain); err != nil {
		return nil, fault.InvalidField("input", "The input contains a number that is too large.")
	}
	if err := d.resolved.Validate(plain); err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "The input does not match the schema")
	}
	return normal, nil
}

// Decode returns an input that matches the schema as a T.
func (s *Schema[T]) Decode(input json.RawMessage) (in T, err error) {
	normal, err := s.Normalize(input)
	if err != nil {
		return in, err
	}
	return in, Unmarshal(normal, &in)
}

// Unmarshal decodes an input that [Schema.Normalize] returned.
func Unmarshal(normal json.RawMessage, in any) error {
	err := json.Unmarshal(normal, in)
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) { // the schema has integers of any size
		return fault.InvalidField(wrong.Field, "%q is out of range.", wrong.Field)
	}
	if err != nil {
		return fmt.Errorf("decode input: %w", err)
	}
	return nil
}

// Partial returns what can be read of an input that may not match the schema, for
// example to show what a call was about. Wrong fields have their zero value.
func (s *Schema[T]) Partial(input json.RawMessage) (in T) {
	s.decodePart(input, &in)
	return in
}

func (s *untyped) decodePart(input json.RawMessage, into any) {
	d, err := s.load()
	if err != nil {
		return
	}
	value, _ := d.coerce(input, s.options)
	if normal, err := json.Marshal(value); err == nil {
		_ = json.Unmarshal(normal, into) // fields that fit are set all the same
	}
}
