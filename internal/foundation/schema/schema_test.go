package schema_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/schema"
)

type limit struct {
	Limit int `json:"limit,omitempty" min:"1" max:"100" default:"50" jsonschema:"How many to show."`
}

type input struct {
	SessionID string `json:"sessionId" max:"20"`
	limit
	Ratio float64  `json:"ratio,omitempty"`
	Force bool     `json:"force,omitempty"`
	Paths []string `json:"paths,omitempty" max:"3"`
	Mode  string   `json:"mode,omitempty" enum:"all,any"`
	Name  string   `json:"name,omitempty" pattern:"^[a-z]+$"`
	Wait  *struct {
		UntilMS int64 `json:"untilMs,omitempty"`
	} `json:"wait,omitempty"`
	Payload json.RawMessage `json:"payload,omitempty"`
}

func TestSchemaIsDerivedFromTheStruct(t *testing.T) {
	got, err := schema.For[input](schema.Options{}).JSON()
	want := `{"type":"object","properties":{` +
		`"sessionId":{"type":"string","maxLength":20},` +
		`"limit":{"type":"integer","description":"How many to show.","default":50,"minimum":1,"maximum":100},` +
		`"ratio":{"type":"number"},` +
		`"force":{"type":"boolean"},` +
		`"paths":{"type":"array","items":{"type":"string"},"maxItems":3},` +
		`"mode":{"type":"string","enum":["all","any"]},` +
		`"name":{"type":"string","pattern":"^[a-z]+$"},` +
		`"wait":{"type":"object","properties":{"untilMs":{"type":"integer"}}},` +
		`"payload":true},"required":["sessionId"]}`
	if err != nil || string(got) != want {
		t.Errorf("schema = %s, %v; want %s", got, err, want)
	}
}

func TestTagsThatDoNotApplyAreErrors(t *testing.T) {
	for name, derive := range map[string]func() (json.RawMessage, error){
		"a limit of a boolean": schema.For[struct {
			B bool `json:"b" max:"3"`
		}](schema.Options{}).JSON,
		"a limit that is no number": schema.For[struct {
			S string `json:"s" max:"x"`
		}](schema.Options{}).JSON,
		"a type without a schema": schema.For[struct {
			C chan int `json:"c"`
		}](schema.Options{}).JSON,
		"not a struct": schema.For[string](schema.Options{}).JSON,
	} {
		if text, err := derive(); err == nil {
			t.Errorf("%s: no error, but %s", name, text)
		}
	}
}

func TestInputsAreBroughtIntoTheFormOfTheSchema(t *testing.T) {
	s := schema.For[input](schema.Options{})
	for in, want := range map[string]string{
		`{"sessionId":"a","limit":5}`:                     `{"limit":5,"sessionId":"a"}`,
		`{"sessionId":"a","limit":"5"}`:                   `{"limit":5,"sessionId":"a"}`,
		`{"sessionId":"a","limit":""}`:                    `{"limit":50,"sessionId":"a"}`,
		`{"sessionId":1234567890123456789}`:               `{"limit":50,"sessionId":"1234567890123456789"}`,
		`{"session-id":"a"}`:                              `{"limit":50,"sessionId":"a"}`,
		`{"session_id":"a"}`:                              `{"limit":50,"sessionId":"a"}`,
		`{"sessionId":"a","paths":"x"}`:                   `{"limit":50,"paths":["x"],"sessionId":"a"}`,
		`{"sessionId":"a","paths":["x",7]}`:               `{"limit":50,"paths":["x","7"],"sessionId":"a"}`,
		`{"sessionId":"a","force":"true"}`:                `{"force":true,"limit":50,"sessionId":"a"}`,
		`{"sessionId":"a","wait":"{\"until-ms\":\"7\"}"}`: `{"limit":50,"sessionId":"a","wait":{"untilMs":7}}`,
		`{"sessionId":"a","limit":7.0}`:                   `{"limit":7,"sessionId":"a"}`,
		`{"sessionId":"a","ratio":"0.5"}`:                 `{"limit":50,"ratio":0.5,"sessionId":"a"}`,
		`{"sessionId":"a","mode":null}`:                   `{"limit":50,"sessionId":"a"}`,
		`{"sessionId":"a","payload":{"B-c":[1]}}`:         `{"limit":50,"payload":{"B-c":[1]},"sessionId":"a"}`,
	} {
		got, err := s.Normalize(json.RawMessage(in))
		if err != nil || string(got) != want {
			t.Errorf("Normalize(%s) = %s, %v; want %s", in, got, err, want)
		}
	}
	got, err := s.Decode(json.RawMessage(`{"session-id":7,"limit":"5","wait":{"until_ms":8}}`))
	if err != nil || got.SessionID != "7" || got.Limit != 5 || got.Wait.UntilMS != 8 {
		t.Errorf("Decode = %+v, %v", got, err)
	}
}

func TestErrorsNameTheFieldAndWhatIsExpected(t *testing.T) {
	s := schema.For[input](schema.Options{})
	for in, want := range map[string][2]string{
		`{}`:                                  {"sessionId", `"sessionId" is missing: it must be a string of at most 20 characters.`},
		`{"sessionId":"a","limit":"many"}`:    {"limit", `"limit" must be a whole number between 1 and 100, not "many".`},
		`{"sessionId":"a","limit":0}`:         {"limit", `"limit" must be a whole number between 1 and 100, not 0.`},
		`{"sessionId":"a","limit":1.5}`:       {"limit", `"limit" must be a whole number between 1 and 100, not 1.5.`},
		`{"sessionId":["a","b"]}`:             {"sessionId", `"sessionId" must be a string of at most 20 characters, not a list.`},
		`{"sessionId":"a","mode":"some"}`:     {"mode", `"mode" must be one of all, any, not "some".`},
		`{"sessionId":"a","wait":{"x":1}}`:    {"wait.x", `There is no field "wait.x". The fields are: untilMs.`},
		`{"sesionId":"a"}`:                    {"sesionId", `There is no field "sesionId". Did you mean sessionId?`},
		`{"sessionId":"a","session-id":1}`:    {"sessionId", `"sessionId" is given twice, in two spellings.`},
		`{"sessionId":"a","paths":[1,[]]}`:    {"paths[1]", `"paths[1]" must be a string, not a list.`},
		`{"sessionId":"a","paths":[1,2,3,4]}`: {"paths", `"paths" has 4 values; it must be a list of at most 3 values.`},
		`[]`:                                  {"input", "The input must be a JSON object, not a list."},
		`{"sessionId":"a"} x`:                 {"input", "The input is not valid JSON"},
		`{"sessionId":"a","name":"A"}`:        {"", "The input does not match the schema"},
		`{"limit":"many"}`:                    {"sessionId", `"sessionId" is missing: it must be a string of at most 20 characters. "limit" must be a whole number between 1 and 100, not "many".`},
	} {
		_, err := s.Normalize(json.RawMessage(in))
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != fault.Invalid || f.Field != want[0] || !strings.HasPrefix(f.Message, want[1]) {
			t.Errorf("Normalize(%s) = %v; want field %q and %q", in, err, want[0], want[1])
		}
	}
}

// Models invent fields and forget quotes; what they mean is clear all the same.
func TestInputsOfModelsAreReadGenerously(t *testing.T) {
	type fields struct {
		Path  string `json:"path" blank:"no"`
		Limit int    `json:"limit,omitempty" min:"1" max:"100" default:"10"`
		All   bool   `json:"all,omitempty"`
	}
	s := schema.For[fields](schema.Options{IgnoreUnknown: true})
	for name, c := range map[string]struct {
		in       string
		want     fields
		field    string // at fault
		contains string
	}{
		"matches the schema":     {in: `{"path":"a","limit":5,"all":true}`, want: fields{"a", 5, true}},
		"defaults":               {in: `{"path":"a"}`, want: fields{"a", 10, false}},
		"null is missing":        {in: `{"path":"a","limit":null,"all":null}`, want: fields{"a", 10, false}},
		"unknown fields":         {in: `{"path":"a","nonsense":{"x":1}}`, want: fields{"a", 10, false}},
		"two spellings":          {in: `{"PATH":"b","path":"a"}`, want: fields{"a", 10, false}},
		"number in quotes":       {in: `{"path":"a","limit":"5"}`, want: fields{"a", 5, false}},
		"number with a fraction": {in: `{"path":"a","limit":5.0}`, want: fields{"a", 5, false}},
		"boolean in quotes":      {in: `{"path":"a","all":"True"}`, want: fields{"a", 10, true}},
		"boolean in words":       {in: `{"path":"a","all":"yes"}`, want: fields{"a", 10, true}},
		"number as text":         {in: `{"path":7}`, want: fields{"7", 10, false}},
		"missing":                {in: `{}`, field: "path", contains: `"path" is missing`},
		"blank":                  {in: `{"path":" "}`, field: "path", contains: "must not be empty"},
		"list for text":          {in: `{"path":["a"]}`, field: "path", contains: "must be a string, not a list"},
		"words for number":       {in: `{"path":"a","limit":"many"}`, field: "limit", contains: `must be a whole number between 1 and 100, not "many"`},
		"half":                   {in: `{"path":"a","limit":1.5}`, field: "limit", contains: "whole number"},
		"out of range":           {in: `{"path":"a","limit":101}`, field: "limit", contains: "between 1 and 100, not 101"},
		"huge":                   {in: `{"path":"a","limit":1e400}`, field: "limit", contains: "limit"},
		"words for boolean":      {in: `{"path":"a","all":"perhaps"}`, field: "all", contains: "true or false"},
		"two problems":           {in: `{"limit":"many"}`, field: "path", contains: `"limit" must be`},
		"not an object":          {in: `[1]`, field: "input", contains: "must be a JSON object, not a list"},
		"nothing":                {in: ``, field: "path", contains: "missing"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := s.Decode(json.RawMessage(c.in))
			if c.field == "" {
				if err != nil || got != c.want {
					t.Fatalf("got %+v, %v; want %+v", got, err, c.want)
				}
				return
			}
			f, ok := err.(*fault.Error)
			if !ok || f.Kind != fault.Invalid || f.Field != c.field || !strings.Contains(f.Message, c.contains) {
				t.Errorf("got %#v, want field %q and %q", err, c.field, c.contains)
			}
		})
	}
	if got := s.Partial(json.RawMessage(`{"path":"a","limit":"many","all":1}`)); got != (fields{"a", 0, true}) {
		t.Errorf("Partial = %+v, want the fields that can be read", got)
	}
	if got := s.Partial(json.RawMessage(`[`)); got != (fields{}) {
		t.Errorf("Partial of invalid JSON = %+v, want the zero value", got)
	}
}

func TestNumbersOutsideTheGoTypeAreRefused(t *testing.T) {
	type small struct {
		N int8     `json:"n"`
		L []uint16 `json:"l,omitempty"`
	}
	s := schema.For[small](schema.Options{})
	for _, in := range []string{`{"n":128}`, `{"n":-129}`, `{"n":1,"l":[65536]}`} {
		if got, err := s.Decode(json.RawMessage(in)); fault.KindOf(err) != fault.Invalid {
			t.Errorf("Decode(%s) = %+v, %v; want an error of kind invalid", in, got, err)
		}
	}
}

func FuzzInput(f *testing.F) {
	for _, seed := range []string{`{}`, `{"sessionId":"a","limit":"5"}`, `{"wait":"{\"until-ms\":1e9}"}`, `[[[[`, `{"limit":1e400}`, `{"payload":{"a":1e999}}`} {
		f.Add(seed)
	}
	s := schema.For[input](schema.Options{})
	f.Fuzz(func(t *testing.T, in string) {
		out, err := s.Normalize(json.RawMessage(in))
		if err != nil {
			if fault.KindOf(err) != fault.Invalid {
				t.Fatalf("%q: %v is not the caller's mistake", in, err)
			}
			return
		}
		if again, err := s.Normalize(out); err != nil || string(again) != string(out) {
			t.Fatalf("%q became %s, and that %s (%v)", in, out, again, err)
		}
		if _, err := s.Decode(out); err != nil {
			t.Fatalf("%q became %s, which cannot be decoded: %v", in, out, err)
		}
	})
}

func BenchmarkDerive(b *testing.B) {
	for b.Loop() {
		if _, err := schema.For[input](schema.Options{}).JSON(); err != nil {
			b.Fatal(err)
		}
	}
}
