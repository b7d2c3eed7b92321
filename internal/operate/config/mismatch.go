package config

import (
	"errors"
	"reflect"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// The kinds of values, in words that operators know.
const (
	aText   = "a text"
	aNumber = "a number"
	aTruth  = "true or false"
	aList   = "a list"
	mapping = "keys with values"
)

// mismatch returns the expected and the actual kind of a value. ok is false if err is not about
// the kind of a value.
func mismatch(err error) (want, got string, ok bool) {
	if e := (*yaml.TypeError)(nil); errors.As(err, &e) && e.DstType != nil && e.SrcType != nil {
		want, got = kindOf(e.DstType), kindOf(e.SrcType)
	}
	if e := (*yaml.UnexpectedNodeTypeError)(nil); errors.As(err, &e) {
		want, got = nodeKinds[e.Expected], nodeKinds[e.Actual]
	}
	return want, got, want != "" && got != "" && want != got
}

var nodeKinds = map[ast.NodeType]string{
	ast.StringType: aText, ast.LiteralType: aText, ast.IntegerType: aNumber, ast.FloatType: aNumber, ast.BoolType: aTruth,
	ast.SequenceType: aList, ast.MappingType: mapping, ast.MappingValueType: mapping, ast.NullType: "nothing",
}

func kindOf(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return aText
	case reflect.Bool:
		return aTruth
	case reflect.Slice, reflect.Array:
		return aList
	case reflect.Map, reflect.Struct:
		return mapping
	case reflect.Pointer:
		return kindOf(t.Elem())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return aNumber
	default:
		return ""
	}
}

// keyAt returns the last key that starts at or before a position.
func (c reader) keyAt(at place) string {
	found, best := "the value", place{}
	for key, p := range c.places {
		if !after(p, at) && !after(best, p) {
			found, best = key, p
		}
	}
	return found
}

func after(a, b place) bool { return a.Line > b.Line || a.Line == b.Line && a.Column > b.Column }
