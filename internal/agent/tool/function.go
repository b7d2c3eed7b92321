package tool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/schema"
)

// maxDisplay bounds the line that people see of a call, in characters.
const maxDisplay = 100

// New returns a tool that runs a function. Its schema is that of the struct In
// (see package schema), so spec.Schema stays empty; calls whose input does not
// match it fail before run.
//
// A [fault.Error] that run returns is told to the model as a failed result;
// other errors are defects. display returns the line that people see of a call,
// of which fields may be missing; if it is nil or returns "", they see the name.
func New[In any](spec Spec, display func(In) string, run func(ctx context.Context, call Call, in In) (Result, error)) Tool {
	// Models invent fields; to refuse them would only cost another call.
	return &function[In]{spec, schema.For[In](schema.Options{IgnoreUnknown: true}), display, run}
}

type function[In any] struct {
	spec    Spec
	schema  *schema.Schema[In]
	display func(In) string
	run     func(ctx context.Context, call Call, in In) (Result, error)
}

// Spec implements [Tool]. It panics if the struct In has no schema.
func (f *function[In]) Spec() Spec {
	spec := f.spec
	var err error
	if spec.Schema, err = f.schema.JSON(); err != nil {
		panic("tool " + spec.Name + ": " + err.Error())
	}
	return spec
}

// Display implements [Displayer].
func (f *function[In]) Display(input json.RawMessage) string {
	line := ""
	if f.display != nil {
		line = Line(f.display(f.schema.Partial(input)), maxDisplay)
	}
	return cmp.Or(line, f.spec.Name)
}

// Run implements [Tool].
func (f *function[In]) Run(ctx context.Context, call Call) (Result, error) {
	if ctx.Err() != nil {
		return Result{}, context.Cause(ctx)
	}
	in, err := f.schema.Decode(call.Input)
	var result Result
	if err == nil {
		result, err = f.run(ctx, call, in)
	}
	display := cmp.Or(result.Display, f.Display(call.Input))
	var known *fault.Error
	switch {
	case err != nil && ctx.Err() != nil:
		result.Failed, err = true, context.Cause(ctx)
	case errors.As(err, &known):
		result, err = Failed(errors.New(known.Message)), nil
	}
	result.Display = display
	return result, err
}

// Failed returns a result that tells the model what went wrong.
func Failed(err error) Result {
	return Result{Text: "Error: " + Clean(err.Error()), Failed: true}
}
