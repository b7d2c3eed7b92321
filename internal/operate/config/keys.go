package config

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml/ast"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
)

var configType = reflect.TypeFor[Config]()

// A place is the position of a key in the file.
type place struct{ Line, Column int }

// A keyWalker collects the keys of a file, and warns about keys that no field has.
type keyWalker struct {
	file string
	// seen maps the known keys to their positions; items does so for the entries of lists, such as
	// allowedHosts[1].
	seen, items map[string]place
	entries     []entry
	warnings    []Warning
	mistakes    []mistake
}

// An entry is a key with its value and its parent.
type entry struct {
	key   string
	in    *ast.MappingNode // nil if the document consists of this key alone
	value *ast.MappingValueNode
}

// drop removes the innermost key whose value contains the given position from the file, and
// returns the key. This lets the rest of the file be decoded after an error at that position.
func (w *keyWalker) drop(at place) (string, bool) {
	found := -1
	for i, e := range w.entries {
		if e.in != nil && slices.Contains(e.in.Values, e.value) && holds(e.value, at) {
			found = i
		}
	}
	if found < 0 {
		return "", false
	}
	e := w.entries[found]
	e.in.Values = slices.DeleteFunc(e.in.Values, func(v *ast.MappingValueNode) bool { return v == e.value })
	return e.key, true
}

// A finder searches for the node at a position.
type finder struct {
	at    place
	found bool
}

// Visit implements ast.Visitor.
func (f *finder) Visit(n ast.Node) ast.Visitor {
	if t := n.GetToken(); t != nil && t.Position != nil && (place{t.Position.Line, t.Position.Column}) == f.at {
		f.found = true
	}
	if f.found {
		return nil
	}
	return f
}

func holds(n ast.Node, at place) bool {
	f := finder{at: at}
	ast.Walk(&f, n)
	return f.found
}

func (w *keyWalker) walk(n ast.Node, t reflect.Type, path string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, value := range n.Values {
			w.value(n, value, t, path)
		}
	case *ast.MappingValueNode:
		w.value(nil, n, t, path)
	case *ast.SequenceNode:
		for i, item := range n.Values {
			if token := item.GetToken(); token != nil {
				w.items[fmt.Sprintf("%s[%d]", path, i)] = place{token.Position.Line, token.Position.Column}
			}
		}
	case *ast.AnchorNode:
		w.walk(n.Value, t, path)
	case *ast.LiteralNode:
		w.walk(n.Value, t, path)
	case *ast.StringNode:
		w.text(n, t, path)
	case *ast.IntegerNode:
		if written := n.GetToken().Value; number(t) && octal().MatchString(written) {
			w.warn(n, fmt.Sprintf("%s is %v: YAML takes %s as an octal number, because it begins with a 0. Leave the 0 out, or write 0o for an octal number", path, n.Value, written))
		}
	case *ast.FloatNode:
		if whole(t) && n.Value != math.Trunc(n.Value) {
			w.wrong(n, path)
		}
	case *ast.InfinityNode, *ast.NanNode:
		if whole(t) {
			w.wrong(n, path)
		}
	}
}

// text warns about a string that probably contains an unreplaced variable. The warning does not
// show the string, because it may be a real secret after all.
func (w *keyWalker) text(n *ast.StringNode, t reflect.Type, path string) {
	switch {
	case t == reflect.TypeFor[Secret]() && looksUnreplaced(n.Value, ":"):
		w.warn(n, path+" is used as it is written here, including the $, and is easy to guess; to use an environment variable, write ${NAME}")
	case (t == reflect.TypeFor[BusURL]() || t == reflect.TypeFor[DatabaseURL]()) && looksUnreplaced(n.Value, ":/@"):
		w.warn(n, path+" is used as it is written here, including the $; to use an environment variable, write ${NAME}")
	}
}

func (w *keyWalker) warn(n ast.Node, message string) {
	at := n.GetToken().Position
	w.warnings = append(w.warnings, Warning{File: w.file, Line: at.Line, Column: at.Column, Message: message})
}

// octal matches numbers that YAML reads as octal but people read as decimal.
var octal = lazyregexp.New(`^[-+]?0[0-9_]*[1-9][0-9_]*$`)

func number(t reflect.Type) bool { return kindOf(t) == aNumber }

// looksUnreplaced reports whether text, or a part of it between separators, looks like a variable
// reference that is not replaced: $NAME, as in a shell, or ${NAME without the closing brace.
func looksUnreplaced(text, separators string) bool {
	between := func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(separators, r) }
	if slices.ContainsFunc(strings.FieldsFunc(text, between), shellVariable().MatchString) {
		return true
	}
	open := strings.LastIndex(text, "${")
	return open >= 0 && !strings.HasSuffix(text[:open], "$") && !strings.Contains(text[open:], "}")
}

// Lowercase names do not match, because passwords may start with a $.
var shellVariable = lazyregexp.New(`^\$[A-Z][A-Z0-9_]+$`)

func whole(t reflect.Type) bool { return t.Kind() == reflect.Int || t.Kind() == reflect.Int64 }

// wrong records a number that the YAML library would silently convert to a different one.
func (w *keyWalker) wrong(n ast.Node, path string) {
	token := n.GetToken()
	err := fault.New(fault.Invalid, "%s:%d:%d: %s has to be a whole number, not %s.", w.file, token.Position.Line, token.Position.Column, path, token.Value)
	w.mistakes = append(w.mistakes, mistake{err: err, at: place{token.Position.Line, token.Position.Column}})
}

func (w *keyWalker) value(in *ast.MappingNode, n *ast.MappingValueNode, t reflect.Type, path string) {
	token := n.Key.GetToken()
	if t == reflect.TypeFor[Model]() {
		useOptionName(n)
	}
	key := token.Value
	if key == "<<" {
		w.walk(n.Value, t, path)
		return
	}
	full := key
	if path != "" {
		full = path + "." + key
	}
	w.entries = append(w.entries, entry{full, in, n})
	switch t.Kind() {
	case reflect.Map:
		w.seen[full] = place{token.Position.Line, token.Position.Column}
		w.walk(n.Value, t.Elem(), full)
	case reflect.Struct:
		fields := fieldsOf(t)
		field, ok := fields[key]
		if !ok {
			w.warnings = append(w.warnings, Warning{
				File: w.file, Line: token.Position.Line, Column: token.Position.Column,
				Message: fmt.Sprintf("unknown key %q is ignored%s", full, meantKey(key, path, fields)),
			})
			return
		}
		w.seen[full] = place{token.Position.Line, token.Position.Column}
		w.walk(n.Value, field, full)
	}
}

// fieldsOf maps the names of a struct's fields in the file to their types.
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

// meantKey returns a question about the key that an unknown one probably stands for, or "".
func meantKey(key, path string, fields map[string]reflect.Type) string {
	parent := path[strings.LastIndex(path, ".")+1:]
	if _, ok := fields[parent]; ok { // rules: {when: {…}}, without the name of a rule
		return fmt.Sprintf("; is %q indented too little?", parent)
	}
	var names []string
	for name := range fields {
		names = append(names, name)
	}
	if meant := didYouMean(key, names); meant != "" {
		return meant
	}
	elsewhere, least := "", math.MaxInt // the only key that is not below others of this name
	for _, full := range keysNamed(key, configType, "") {
		switch depth := strings.Count(full, "."); {
		case depth < least:
			elsewhere, least = full, depth
		case depth == least:
			elsewhere = ""
		}
	}
	if elsewhere == "" {
		return ""
	}
	return fmt.Sprintf(", did you mean %q?", elsewhere)
}

// keysNamed returns the keys with a name, at any depth, but not those of lists and of entries that
// the file names.
func keysNamed(name string, t reflect.Type, path string) (found []string) {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for field, inner := range fieldsOf(t) {
		if field == name {
			found = append(found, path+field)
		}
		found = append(found, keysNamed(name, inner, path+field+".")...)
	}
	return found
}

// didYouMean returns ", did you mean …?" if one of the candidates is similar to word.
func didYouMean(word string, candidates []string) string {
	if near := fault.Near(word, candidates); len(near) > 0 {
		return fmt.Sprintf(", did you mean %q?", near[0])
	}
	return ""
}
