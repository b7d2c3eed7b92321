package config

import (
	"fmt"
	"reflect"
	"strings"

	"lilac/internal/fault"

	"github.com/goccy/go-yaml/ast"
)

var configType = reflect.TypeFor[Config]()

// place is where a key stands in the file.
type place struct{ Line, Column int }

// keyWalker finds the keys of a file that no field has.
type keyWalker struct {
	file     string
	seen     map[string]place
	warnings []Warning
}

func (w *keyWalker) walk(n ast.Node, t reflect.Type, path string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, value := range n.Values {
			w.value(value, t, path)
		}
	case *ast.MappingValueNode:
		w.value(n, t, path)
	case *ast.AnchorNode:
		w.walk(n.Value, t, path)
	}
}

func (w *keyWalker) value(n *ast.MappingValueNode, t reflect.Type, path string) {
	token := n.Key.GetToken()
	key := token.Value
	if key == "<<" {
		w.walk(n.Value, t, path)
		return
	}
	full := key
	if path != "" {
		full = path + "." + key
	}
	switch t.Kind() {
	case reflect.Map:
		w.seen[full] = place{token.Position.Line, token.Position.Column}
		w.walk(n.Value, t.Elem(), full)
	case reflect.Struct:
		fields := fieldsOf(t)
		field, ok := fields[key]
		if !ok {
			var names []string
			for name := range fields {
				names = append(names, name)
			}
			w.warnings = append(w.warnings, Warning{
				File: w.file, Line: token.Position.Line, Column: token.Position.Column,
				Message: fmt.Sprintf("unknown key %q is ignored%s", full, didYouMean(key, names)),
			})
			return
		}
		w.seen[full] = place{token.Position.Line, token.Position.Column}
		w.walk(n.Value, field, full)
	}
}

// fieldsOf returns the fields of a struct by their names in the file.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		if name != "" && name != "-" {
			out[name] = t.Field(i).Type
		}
	}
	return out
}

// didYouMean returns ", did you mean …?" when one of the candidates is near.
func didYouMean(word string, candidates []string) string {
	if near := fault.Near(word, candidates); len(near) > 0 {
		return fmt.Sprintf(", did you mean %q?", near[0])
	}
	return ""
}
