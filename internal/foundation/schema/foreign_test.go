package schema

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestInputsAreBroughtIntoTheFormOfAForeignSchema(t *testing.T) {
	const object = `{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","required":["path"],"additionalProperties":false,"properties":{
		"path":{"type":"string"},"maxLines":{"type":"integer","default":5},"deep":{"type":["boolean","null"]},
		"limit":{"anyOf":[{"type":"integer"},{"type":"null"}]},"tags":{"type":"array","items":{"type":"string"}},
		"edit":{"type":"object","properties":{"oldText":{"type":"string"}}},"any":{}}}`
	for _, c := range []struct{ schema, in, want, problem string }{
		{object, `{"path":"a"}`, `{"path":"a"}`, ""},
		{object, `{"path":7,"max-lines":"3","deep":"true","limit":"4","tags":"x","any":"y"}`, `{"any":"y","deep":true,"limit":4,"maxLines":3,"path":"7","tags":["x"]}`, ""},
		{object, `{"path":"a","edit":{"old_text":"b"}}`, `{"edit":{"oldText":"b"},"path":"a"}`, ""},
		{object, `{}`, "", `"path" is missing`},
		{object, `{"path":"a","maxLine":3}`, "", `did you mean`},
		{object, `{"path":"a","maxLines":"many"}`, "", "whole number"},
		{`{"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":true}`, `{"b":1}`, `{"b":1}`, ""},
		{`{"type":"object"}`, `{"b":1}`, `{"b":1}`, ""},
		{`{"type":"object","properties":{"a":{"$ref":"https://example.org/x"}}}`, `{"a":{"b":1}}`, `{"a":{"b":1}}`, ""},
		// Draft 4, and the boolean required of draft 3, which many programs still write.
		{`{"type":"object","properties":{"n":{"type":"number","minimum":0,"exclusiveMinimum":true,"maximum":9,"exclusiveMaximum":false}}}`, `{"n":"2"}`, `{"n":2}`, ""},
		{`{"type":"object","properties":{"n":{"type":"number","minimum":0,"exclusiveMinimum":true}}}`, `{"n":"0"}`, "", "does not match"},
		{`{"type":"object","properties":{"n":{"type":"integer","required":true}}}`, `{"n":"2"}`, `{"n":2}`, ""},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","type":"object","properties":{"n":{"type":"number","minimum":0,"exclusiveMinimum":true}}}`, `{"n":"2"}`, `{"n":2}`, ""},
		{`{"$schema":"https://json-schema.org/draft/2019-09/schema","type":"object","properties":{"n":{"type":"number","minimum":1}}}`, `{"n":"2"}`, `{"n":2}`, ""},
		{`{"$schema":"https://json-schema.org/draft/2019-09/schema","type":"object","properties":{"n":{"type":"number","minimum":3}}}`, `{"n":"2"}`, "", "at least 3"},
		{`{"$schema":"https://json-schema.org/draft-07/schema","type":"object","properties":{"n":{"type":"number"}}}`, `{"n":"2"}`, `{"n":2}`, ""},
		{`nonsense`, `{"b":1}`, `{"b":1}`, ""},
		{`true`, ``, `{}`, ""},
		{object, `[]`, "", "object"},
	} {
		got, err := ParseForeign(json.RawMessage(c.schema)).Normalize(json.RawMessage(c.in))
		if c.problem != "" {
			if err == nil || !strings.Contains(strings.ToLower(err.Error()), strings.ToLower(c.problem)) {
				t.Errorf("%s: got %s, %v, want %q", c.in, got, err, c.problem)
			}
		} else if err != nil || string(got) != c.want {
			t.Errorf("%s: got %s, %v, want %s", c.in, got, err, c.want)
		}
	}
}

func FuzzForeign(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"type":"integer"}}}`, `{"a":"1"}`)
	f.Add(`{"properties":{"a":{"anyOf":[{"type":"null"},{"$ref":"#"}]}}}`, `{"a":{"a":null}}`)
	f.Fuzz(func(t *testing.T, schema, in string) {
		out, err := ParseForeign(json.RawMessage(schema)).Normalize(json.RawMessage(in))
		if err == nil && !json.Valid(out) {
			t.Errorf("not JSON: %s", out)
		}
	})
}
