package tool_test

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"lilac/internal/agent/tool"
	"lilac/internal/foundation/fault"
)

type greeting struct {
	Name  string `json:"name" blank:"no" jsonschema:"The person to greet."`
	Times int    `json:"times,omitempty" min:"1" max:"3" default:"1"`
}

func greeter(run func(ctx context.Context, in greeting) error) tool.Tool {
	return tool.New(tool.Spec{Name: "greet", Idempotent: true},
		func(in greeting) string { return "greet " + in.Name },
		func(ctx context.Context, _ tool.Call, in greeting) (tool.Result, error) {
			return tool.Result{Text: strings.Repeat("Hello "+in.Name+". ", in.Times)}, run(ctx, in)
		})
}

func TestAToolIsAFunctionOfItsInput(t *testing.T) {
	hello := greeter(func(context.Context, greeting) error { return nil })
	spec := hello.Spec()
	if want := `{"type":"object","properties":{"name":{"type":"string","description":"The person to greet."},"times":{"type":"integer","default":1,"minimum":1,"maximum":3}},"required":["name"]}`; string(spec.Schema) != want || spec.Name != "greet" || !spec.Idempotent {
		t.Errorf("spec = %+v with schema %s, want %s", spec, spec.Schema, want)
	}
	got, err := hello.Run(t.Context(), tool.Call{Input: json.RawMessage(`{"name":"Ann","times":"2","mood":"good"}`)})
	if want := (tool.Result{Text: "Hello Ann. Hello Ann. ", Display: "greet Ann"}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("Run = %+v, %v; want %+v", got, err, want)
	}
}

func TestFaultsAreTheModelsToCorrectAndOtherErrorsAreNot(t *testing.T) {
	defect := errors.New("defect")
	for name, c := range map[string]struct {
		input string
		err   error
		text  string
	}{
		"wrong input": {input: `{"times":9}`, text: `Error: "name" is missing: it must be a string. "times" must be a whole number between 1 and 3, not 9.`},
		"fault":       {input: `{"name":"Ann"}`, err: fault.Wrap(fault.Denied, defect, "Ann wants to be left alone."), text: "Error: Ann wants to be left alone."},
	} {
		got, err := greeter(func(context.Context, greeting) error { return c.err }).Run(t.Context(), tool.Call{Input: json.RawMessage(c.input)})
		if err != nil || !got.Failed || got.Text != c.text {
			t.Errorf("%s: %+v, %v; want a failed result with %q", name, got, err, c.text)
		}
	}
	if _, err := greeter(func(context.Context, greeting) error { return defect }).Run(t.Context(), tool.Call{Input: json.RawMessage(`{"name":"Ann"}`)}); !errors.Is(err, defect) {
		t.Errorf("error = %v, want the defect itself", err)
	}
}

func TestTheCauseOfACancelledCallIsReturned(t *testing.T) {
	why := errors.New("stopped by a person")
	ctx, cancel := context.WithCancelCause(t.Context())
	got, err := greeter(func(context.Context, greeting) error {
		cancel(why)
		return fault.New(fault.Unavailable, "gone")
	}).Run(ctx, tool.Call{Input: json.RawMessage(`{"name":"Ann"}`)})
	if !errors.Is(err, why) || !got.Failed {
		t.Errorf("Run = %+v, %v; want a failed result and the cause", got, err)
	}
	if _, err := greeter(nil).Run(ctx, tool.Call{}); !errors.Is(err, why) {
		t.Errorf("error of a call after the end of its context = %v, want the cause", err)
	}
}
