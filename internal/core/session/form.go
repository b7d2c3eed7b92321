package session

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/order"
	"lilac/internal/foundation/schema"
	"lilac/internal/foundation/text"
)

// Form is a question that another program asks a person during a call: some values that
// match a schema, or a visit to a link. Its texts are the program's.
type Form struct {
	// From names the program, for example "MCP server github".
	From    string `json:"from"`
	Message string `json:"message"`
	// URL is the link; "" for a question for values.
	URL string `json:"url,omitempty"`
	// Schema is the JSON schema of the values: an object without nested objects.
	Schema json.RawMessage `json:"schema,omitempty"`
}

// CallForm is a form with the call that waits for its answer.
type CallForm struct {
	Form
	// Tool and Call identify the call: its callable, and the hash of its input. Hash is that
	// of the form.
	Tool string `json:"tool"`
	Call string `json:"call"`
	Hash string `json:"hash"`
	// Answer is NoAnswer until people have answered. Reply has the values as JSON, or
	// [Declined].
	Answer Answer `json:"answer,omitempty"`
	Reply  string `json:"reply,omitempty"`
}

// Declined is the reply of a person who refuses to answer a form.
const Declined = "decline"

const (
	// maxForms bounds the forms of one request, and maxFields those that a question shows of
	// one form.
	maxForms  = 32
	maxFields = 12
	// maxFormMessage and maxFieldText bound texts of the program in a question, in bytes. The
	// question fits into one message of a platform.
	maxFormMessage = 600
	maxFieldText   = 120
	maxFormText    = 1800
)

// isOf reports whether a form belongs to a call.
func (f CallForm) isOf(tool, call string) bool { return f.Tool == tool && f.Call == call }

// formField is a field of a form.
type formField struct {
	Type        string          `json:"type"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Enum        []string        `json:"enum"`
	Names       []string        `json:"enumNames"`
	Default     json.RawMessage `json:"default"`
	OneOf       []formOption    `json:"oneOf"`
	Items       *formField      `json:"items"`
	AnyOf       []formOption    `json:"anyOf"`
	name        string          // its key
	required    bool            // the schema requires it
}

type formOption struct {
	Const string `json:"const"`
	Title string `json:"title"`
}

// fields returns the fields of a form: the required ones first, each group by name.
func (f Form) fields() (out []formField) {
	var s struct {
		Properties map[string]formField `json:"properties"`
		Required   []string             `json:"required"`
	}
	if json.Unmarshal(f.Schema, &s) != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		field := s.Properties[name]
		field.name, field.required = name, slices.Contains(s.Required, name)
		out = append(out, field)
	}
	order.By(out, func(a, b formField) int {
		switch {
		case a.required == b.required:
			return 0
		case a.required:
			return -1
		}
		return 1
	})
	return out
}

// choices are the values that a field can have, with their titles; nil if it is free.
func (f formField) choices() (out []formOption) {
	if f.Items != nil {
		return f.Items.choices()
	}
	for i, value := range f.Enum {
		title := value
		if i < len(f.Names) {
			title = f.Names[i]
		}
		out = append(out, formOption{value, title})
	}
	out = append(append(out, f.OneOf...), f.AnyOf...)
	if f.Type == "boolean" {
		out = []formOption{{"true", "Yes"}, {"false", "No"}}
	}
	for i := range out {
		if out[i].Title == "" {
			out[i].Title = out[i].Const
		}
	}
	return out
}

// question asks people to answer the form.
func (f Form) question() string {
	var b strings.Builder
	quoted := text.TruncateWith(text.Sanitize(f.Message), maxFormMessage, "…")
	if f.URL != "" {
		fmt.Fprintf(&b, "The %s asks you to open a link:\n> %s\n%s\nOpen it only if you know the site. Then answer \"done\", or \"%s\" to refuse.", f.From, strings.ReplaceAll(quoted, "\n", "\n> "), f.URL, Declined)
		return b.String()
	}
	fmt.Fprintf(&b, "The %s asks:\n> %s\n", f.From, strings.ReplaceAll(quoted, "\n", "\n> "))
	fields := f.fields()
	for i, field := range fields {
		line := field.line()
		if i >= maxFields || b.Len()+len(line) > maxFormText {
			fmt.Fprintf(&b, "… and %d more fields\n", len(fields)-i)
			break
		}
		b.WriteString(line)
	}
	switch len(fields) {
	case 0:
		fmt.Fprintf(&b, "Answer \"yes\", or \"%s\" to refuse.", Declined)
	case 1:
		fmt.Fprintf(&b, "Answer with the value, or \"%s\" to refuse.", Declined)
	default:
		fmt.Fprintf(&b, "Answer with one line \"name: value\" for each field, or \"%s\" to refuse.", Declined)
	}
	return b.String()
}

// line describes a field.
func (f formField) line() string {
	line := "- " + text.TruncateWith(text.SingleLine(f.name), maxFieldText, "…")
	if f.Title != "" && f.Title != f.name {
		line += " (" + text.TruncateWith(text.SingleLine(f.Title), maxFieldText, "…") + ")"
	}
	if !f.required {
		line += ", optional"
	}
	var titles []string
	for _, c := range f.choices() {
		titles = append(titles, text.TruncateWith(text.SingleLine(c.Title), maxFieldText, "…"))
	}
	switch {
	case f.Type == "array":
		line += ", some of: " + strings.Join(titles, "; ")
	case titles != nil:
		line += ", one of: " + strings.Join(titles, "; ")
	case f.Type != "" && f.Type != "string":
		line += ", " + text.SingleLine(f.Type)
	}
	if f.Description != "" {
		line += ": " + text.TruncateWith(text.SingleLine(f.Description), maxFieldText, "…")
	}
	return text.TruncateWith(line, 4*maxFieldText, "…") + "\n"
}

// suggestions are answers for buttons.
func (f Form) suggestions() []string {
	out := []string{"done"}
	if f.URL == "" {
		out = nil
		switch fields := f.fields(); {
		case len(fields) == 0:
			out = []string{"yes"}
		case len(fields) == 1 && fields[0].Type != "array":
			for _, c := range fields[0].choices() {
				out = append(out, c.Title)
			}
		}
	}
	fits := func(s string) bool { return s != "" && len([]rune(s)) <= maxChoice }
	if len(out) >= maxChoices || slices.ContainsFunc(out, func(s string) bool { return !fits(s) }) {
		out = nil
	}
	return append(out, Declined)
}

// yes are the words that agree to a form without values.
var yes = []string{"done", "yes", "y", "ok", "okay", "accept", "agree", "continue", "true"}

// Read returns a person's answer as values in JSON, or [Declined]. The fault of an answer
// that does not fit says why.
func (f Form) Read(said string) (string, error) {
	said = strings.TrimSpace(said)
	plain := plainWords(said)
	fields := f.fields()
	switch {
	case plain == Declined || plain == "refuse" || plain == "cancel":
		return Declined, nil
	case f.URL != "" || len(fields) == 0:
		if slices.Contains(yes, plain) {
			return "{}", nil
		}
		if approvalWords[plain] == No {
			return Declined, nil
		}
		return "", fault.InvalidField("reply", "Answer %q, or %q.", f.suggestions()[0], Declined)
	}
	given := map[string]any{}
	switch {
	case strings.HasPrefix(said, "{"):
		if err := json.Unmarshal([]byte(said), &given); err != nil {
			return "", fault.InvalidField("reply", "The answer begins like JSON, but it is not JSON.")
		}
	case len(fields) == 1 && !namesField(said, fields[0]):
		given[fields[0].name] = fields[0].value(said)
	default:
		for line := range strings.Lines(said) {
			if strings.TrimSpace(line) == "" {
				continue
			}
			name, value, found := strings.Cut(line, ":")
			i := slices.IndexFunc(fields, func(one formField) bool { return one.isCalled(name) })
			if !found || i < 0 {
				return "", fault.InvalidField("reply", "The line %q does not name a field. Write one line \"name: value\" for each field.", text.TruncateRunes(strings.TrimSpace(line), 60))
			}
			given[fields[i].name] = fields[i].value(strings.TrimSpace(value))
		}
	}
	input, err := json.Marshal(given)
	if err != nil {
		return "", fault.InvalidField("reply", "The answer cannot be read.")
	}
	normal, err := schema.ParseForeign(f.Schema).Normalize(input)
	if err != nil {
		return "", err
	}
	return string(normal), nil
}

// isCalled reports whether a person means the field.
func (f formField) isCalled(name string) bool {
	name = schema.SameName(strings.Trim(strings.TrimSpace(name), "-*` "))
	return name == schema.SameName(f.name) || f.Title != "" && name == schema.SameName(f.Title)
}

// namesField reports whether an answer is "name: value".
func namesField(said string, f formField) bool {
	name, _, found := strings.Cut(said, ":")
	return found && f.isCalled(name)
}

// value returns what a person wrote for the field: choices by title or number, and lists
// with commas.
func (f formField) value(said string) any {
	choices := f.choices()
	choose := func(one string) string {
		for _, c := range choices {
			if strings.EqualFold(c.Title, one) || strings.EqualFold(c.Const, one) {
				return c.Const
			}
		}
		if n, err := strconv.Atoi(strings.Trim(one, "#.) ")); err == nil && n >= 1 && n <= len(choices) && f.Type != "boolean" {
			return choices[n-1].Const
		}
		return one
	}
	if f.Type != "array" {
		return choose(said)
	}
	list := []any{}
	for one := range strings.SplitSeq(said, ",") {
		if one = strings.TrimSpace(one); one != "" {
			list = append(list, choose(one))
		}
	}
	return list
}
