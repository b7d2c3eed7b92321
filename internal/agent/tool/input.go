package tool

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"lilac/internal/foundation/fault"
)

// Input reads the fields of a call. It collects what is wrong, so that the
// model hears everything at once: ask for the fields, then for Err.
type Input struct {
	fields   map[string]json.RawMessage
	problems []problem
}

type problem struct{ field, text string }

// ParseInput returns the fields of raw; that it is not an object is told by Err.
func ParseInput(raw json.RawMessage) *Input {
	in := &Input{}
	trimmed := bytes.TrimSpace(raw)
	if len(trimmed) == 0 || string(trimmed) == "null" {
		return in
	}
	if err := json.Unmarshal(trimmed, &in.fields); err != nil {
		in.problem("input", "the input must be a JSON object, not %s", describe(trimmed))
	}
	return in
}

// Err returns an Invalid fault that names every field at fault, or nil.
func (in *Input) Err() error {
	if len(in.problems) == 0 {
		return nil
	}
	texts := make([]string, len(in.problems))
	for i, p := range in.problems {
		texts[i] = p.text
	}
	return fault.InvalidField(in.problems[0].field, "%s", strings.Join(texts, "; "))
}

func (in *Input) problem(field, format string, args ...any) {
	in.problems = append(in.problems, problem{field, fmt.Sprintf(format, args...)})
}

// Has reports whether a field was given and is not null.
func (in *Input) Has(field string) bool { return in.value(field) != nil }

func (in *Input) value(field string) json.RawMessage {
	v := bytes.TrimSpace(in.fields[field])
	if len(v) == 0 || string(v) == "null" {
		return nil
	}
	return v
}

// Text returns a string field that must be given; it may be empty.
func (in *Input) Text(field string) string {
	if in.value(field) == nil {
		in.problem(field, "%q is missing: give a string", field)
		return ""
	}
	return in.TextOr(field, "")
}

// Need returns a string field that must be given and not be blank.
func (in *Input) Need(field string) string {
	s := in.Text(field)
	if strings.TrimSpace(s) == "" && in.value(field) != nil && in.value(field)[0] == '"' {
		in.problem(field, "%q must not be empty", field)
	}
	return s
}

// TextOr returns a string field, or def when it was not given. A number or a
// truth value is taken as it is written.
func (in *Input) TextOr(field, def string) string {
	v := in.value(field)
	if v == nil {
		return def
	}
	switch v[0] {
	case '"':
		var s string
		if err := json.Unmarshal(v, &s); err != nil {
			in.problem(field, "%q is not a valid string", field)
			return def
		}
		return s
	case '{', '[':
		in.problem(field, "%q must be a string, not %s", field, describe(v))
		return def
	}
	return string(v)
}

// Texts returns a list of strings that must be given, with 1 to most of them,
// none blank. A single string is a list of one.
func (in *Input) Texts(field string, most int) []string {
	v := in.value(field)
	if v == nil {
		in.problem(field, "%q is missing: give a list of strings", field)
		return nil
	}
	var list []string
	if v[0] == '"' {
		list = []string{in.Need(field)}
	} else if err := json.Unmarshal(v, &list); err != nil {
		in.problem(field, "%q must be a list of strings, not %s", field, describe(v))
		return nil
	}
	if len(list) == 0 || len(list) > most {
		in.problem(field, "%q must have between 1 and %d entries", field, most)
		return nil
	}
	for _, s := range list {
		if strings.TrimSpace(s) == "" {
			in.problem(field, "%q must not have an empty entry", field)
			return nil
		}
	}
	return list
}

// List returns a list of strings, which may be empty and have empty ones; a
// single string is a list of one.
func (in *Input) List(field string) (list []string) {
	v := in.value(field)
	switch {
	case v == nil:
		return nil
	case v[0] == '"':
		return []string{in.TextOr(field, "")}
	case json.Unmarshal(v, &list) != nil:
		in.problem(field, "%q must be a list of strings, not %s", field, describe(v))
	}
	return list
}

// Int returns a whole number between low and high, or def when it was not
// given. A number in quotes is a number.
func (in *Input) Int(field string, def, low, high int) int {
	v := in.value(field)
	if v == nil {
		return def
	}
	text := string(v)
	if v[0] == '"' {
		if err := json.Unmarshal(v, &text); err != nil {
			text = ""
		}
		if text = strings.TrimSpace(text); text == "" {
			return def
		}
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f != math.Trunc(f) || math.IsNaN(f) {
		in.problem(field, "%q must be a whole number, not %s", field, describe(v))
		return def
	}
	if f < float64(low) || f > float64(high) {
		in.problem(field, "%q must be between %d and %d, not %s", field, low, high, Line(text, 30))
		return def
	}
	return int(f)
}

// Bool returns a truth value, or def when it was not given; "true" in quotes counts.
func (in *Input) Bool(field string, def bool) bool {
	v := in.value(field)
	if v == nil {
		return def
	}
	switch strings.ToLower(strings.Trim(string(v), `"`)) {
	case "true", "1", "yes":
		return true
	case "false", "0", "no", "":
		return false
	}
	in.problem(field, "%q must be true or false, not %s", field, describe(v))
	return def
}

// describe says what kind of value v is, for a sentence.
func describe(v []byte) string {
	switch {
	case len(v) == 0:
		return "nothing"
	case v[0] == '{':
		return "an object"
	case v[0] == '[':
		return "a list"
	}
	return Line(string(v), 40)
}

// Failed returns the result that tells the model what went wrong: the sentence
// of a fault, else the error's own text.
func Failed(err error) Result {
	return Result{Text: "Error: " + Clean(err.Error()), Failed: true}
}
