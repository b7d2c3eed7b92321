package tool_test

import (
	"encoding/json"
	"strings"
	"testing"

	"lilac/internal/agent/tool"
	"lilac/internal/foundation/fault"
)

func TestInputIsReadGenerouslyAndExplained(t *testing.T) {
	type fields struct {
		Path  string
		Limit int
		All   bool
	}
	for name, c := range map[string]struct {
		in    string
		want  fields
		field string // at fault
		says  string
	}{
		"as the schema says":     {in: `{"path":"a","limit":5,"all":true}`, want: fields{"a", 5, true}},
		"defaults":               {in: `{"path":"a"}`, want: fields{"a", 10, false}},
		"null is not given":      {in: `{"path":"a","limit":null,"all":null}`, want: fields{"a", 10, false}},
		"unknown fields":         {in: `{"path":"a","nonsense":{"x":1}}`, want: fields{"a", 10, false}},
		"number in quotes":       {in: `{"path":"a","limit":"5"}`, want: fields{"a", 5, false}},
		"number with a fraction": {in: `{"path":"a","limit":5.0}`, want: fields{"a", 5, false}},
		"truth in quotes":        {in: `{"path":"a","all":"True"}`, want: fields{"a", 10, true}},
		"number as text":         {in: `{"path":7}`, want: fields{"7", 10, false}},
		"missing":                {in: `{}`, field: "path", says: `"path" is missing`},
		"blank":                  {in: `{"path":" "}`, field: "path", says: "must not be empty"},
		"list for text":          {in: `{"path":["a"]}`, field: "path", says: "must be a string, not a list"},
		"words for number":       {in: `{"path":"a","limit":"many"}`, field: "limit", says: `must be a whole number, not "many"`},
		"half":                   {in: `{"path":"a","limit":1.5}`, field: "limit", says: "whole number"},
		"out of range":           {in: `{"path":"a","limit":101}`, field: "limit", says: "between 1 and 100, not 101"},
		"huge":                   {in: `{"path":"a","limit":1e400}`, field: "limit", says: "limit"},
		"words for truth":        {in: `{"path":"a","all":"perhaps"}`, field: "all", says: "true or false"},
		"two things":             {in: `{"limit":"many"}`, field: "path", says: `"limit" must be`},
		"not an object":          {in: `[1]`, field: "input", says: "must be a JSON object, not a list"},
		"nothing":                {in: ``, field: "path", says: "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			in := tool.ParseInput(json.RawMessage(c.in))
			got := fields{in.Need("path"), in.Int("limit", 10, 1, 100), in.Bool("all", false)}
			err := in.Err()
			if c.field == "" {
				if err != nil || got != c.want {
					t.Fatalf("got %+v, %v; want %+v", got, err, c.want)
				}
				return
			}
			f, ok := err.(*fault.Error)
			if !ok || f.Kind != fault.Invalid || f.Field != c.field || !strings.Contains(f.Message, c.says) {
				t.Errorf("got %#v, want field %q and %q", err, c.field, c.says)
			}
		})
	}
}
