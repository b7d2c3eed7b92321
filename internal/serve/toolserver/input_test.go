package toolserver

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"lilac/internal/foundation/fault"
)

const inputSchema = `{"type":"object","required":["sessionId"],"properties":{
	"sessionId":{"type":"string","maxLength":20},
	"limit":{"type":"integer","minimum":1,"maximum":100,"default":50},
	"ratio":{"type":"number"},
	"force":{"type":"boolean"},
	"paths":{"type":"array","items":{"type":"string"},"maxItems":3},
	"mode":{"type":"string","enum":["all","any"]},
	"name":{"type":"string","pattern":"^[a-z]+$"},
	"wait":{"type":"object","properties":{"untilMs":{"type":"integer"}}},
	"payload":{}}}`

func inputCallable(t testing.TB) registered {
	t.Helper()
	r, err := register(Callable{ID: "x", Schema: inputSchema, Run: func(context.Context, Caller, json.RawMessage) (any, error) { return nil, nil }})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestInputsAreBroughtIntoTheFormOfTheSchema(t *testing.T) {
	c := inputCallable(t)
	for in, want := range map[string]string{
		`{"sessionId":"a","limit":5}`:                     `{"limit":5,"sessionId":"a"}`,
		`{"sessionId":"a","limit":"5"}`:                   `{"limit":5,"sessionId":"a"}`,
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
		got, err := c.accept(json.RawMessage(in))
		if err != nil || string(got) != want {
			t.Errorf("%s: %s, %v; want %s", in, got, err, want)
		}
	}
}

func TestWrongInputsNameTheFieldAndWhatWasExpected(t *testing.T) {
	c := inputCallable(t)
	for in, want := range map[string][2]string{
		`{}`:                                  {"sessionId", "sessionId is missing: text of at most 20 characters."},
		`{"sessionId":"a","limit":"many"}`:    {"limit", `limit has to be a whole number from 1 to 100, not "many".`},
		`{"sessionId":"a","limit":0}`:         {"limit", "limit has to be a whole number from 1 to 100, not 0."},
		`{"sessionId":"a","limit":1.5}`:       {"limit", "limit has to be a whole number from 1 to 100, not 1.5."},
		`{"sessionId":["a","b"]}`:             {"sessionId", "sessionId has to be text of at most 20 characters, not a list."},
		`{"sessionId":"a","mode":"some"}`:     {"mode", `mode has to be one of all, any, not "some".`},
		`{"sessionId":"a","wait":{"x":1}}`:    {"wait.x", `There is no field "wait.x". There is: untilMs.`},
		`{"sesionId":"a"}`:                    {"sesionId", `There is no field "sesionId". Did you mean sessionId?`},
		`{"sessionId":"a","session-id":1}`:    {"sessionId", "sessionId is given twice, in two spellings."},
		`{"sessionId":"a","paths":[1,[]]}`:    {"paths[1]", "paths[1] has to be text, not a list."},
		`{"sessionId":"a","paths":[1,2,3,4]}`: {"paths", "paths has 4 values; it has to be a list of at most 3 values."},
		`[]`:                                  {"input", "The input has to be a JSON object, not a list."},
		`{"sessionId":"a"} x`:                 {"input", "The input is not JSON"},
		`{"sessionId":"a","name":"A"}`:        {"", "The input does not fit"},
	} {
		_, err := c.accept(json.RawMessage(in))
		var f *fault.Error
		if !errors.As(err, &f) || f.Kind != fault.Invalid || f.Field != want[0] || !strings.HasPrefix(f.Message, want[1]) {
			t.Errorf("%s: %v", in, err)
		}
	}
}

func FuzzInput(f *testing.F) {
	for _, seed := range []string{`{}`, `{"sessionId":"a","limit":"5"}`, `{"wait":"{\"until-ms\":1e9}"}`, `[[[[`, `{"limit":1e400}`, `{"payload":{"a":1e999}}`} {
		f.Add(seed)
	}
	c := inputCallable(f)
	f.Fuzz(func(t *testing.T, in string) {
		out, err := c.accept(json.RawMessage(in))
		if err != nil {
			if fault.KindOf(err) != fault.Invalid {
				t.Fatalf("%q: %v is not the caller's fault", in, err)
			}
			return
		}
		if again, err := c.accept(out); err != nil || string(again) != string(out) {
			t.Fatalf("%q became %s, and that %s (%v)", in, out, again, err)
		}
	})
}
