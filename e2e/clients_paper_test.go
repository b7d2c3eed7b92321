package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"lilac/internal/testkit/e2e"
)

// A paper is the OpenAPI document with which each response is compared.
type paper struct {
	doc   map[string]any
	paths []string
}

func readPaper(t *testing.T, s *e2e.Server) *paper {
	t.Helper()
	p := &paper{}
	if code := s.Request("GET", "/openapi.json", nil, &p.doc); code != http.StatusOK {
		t.Fatalf("the document was answered with %d", code)
	}
	for path := range p.doc["paths"].(map[string]any) {
		p.paths = append(p.paths, path)
	}
	slices.Sort(p.paths)
	return p
}

func (p *paper) deref(v any) map[string]any {
	m, _ := v.(map[string]any)
	ref, ok := m["$ref"].(string)
	if !ok {
		return m
	}
	var at any = p.doc
	for _, part := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
		at = at.(map[string]any)[part]
	}
	return p.deref(at)
}

// pathOf returns the path template of the document that matches an address.
func (p *paper) pathOf(address string) string {
	address, _, _ = strings.Cut(address, "?")
	parts := strings.Split(address, "/")
	for _, path := range p.paths {
		want := strings.Split(path, "/")
		if len(want) == len(parts) {
			same := true
			for i := range want {
				same = same && (want[i] == parts[i] || strings.HasPrefix(want[i], "{"))
			}
			if same {
				return path
			}
		}
	}
	return ""
}

// against lists the differences between a response and the document.
func (p *paper) against(method, address string, r reply) (why []string) {
	path := p.pathOf(address)
	operation, ok := p.doc["paths"].(map[string]any)[path].(map[string]any)[strings.ToLower(method)].(map[string]any)
	if !ok {
		return []string{"there is no " + method + " in the document"}
	}
	responses := operation["responses"].(map[string]any)
	described, ok := responses[fmt.Sprint(r.status)]
	if !ok && r.status < 400 {
		return []string{"this status is not in the document"}
	}
	if !ok {
		described = responses["default"]
	}
	content, _ := p.deref(described)["content"].(map[string]any)
	if content == nil {
		if len(r.body) > 0 {
			return []string{"there should be no body"}
		}
		return nil
	}
	kind, _, _ := strings.Cut(r.header.Get("Content-Type"), ";")
	if kind != "application/json" {
		if content[kind] == nil && content["*/*"] == nil {
			return []string{"the type is " + kind}
		}
		return nil
	}
	shape, ok := content[kind].(map[string]any)
	if !ok {
		return nil
	}
	var body any
	if err := json.Unmarshal(r.body, &body); err != nil {
		return []string{err.Error()}
	}
	return p.shape(shape["schema"], body, "body")
}

func (p *paper) shape(schema, v any, at string) (why []string) {
	s := p.deref(schema)
	if all, ok := s["allOf"].([]any); ok {
		joined := map[string]any{}
		var required []any
		for _, one := range all {
			d := p.deref(one)
			properties, _ := d["properties"].(map[string]any)
			for name, property := range properties {
				joined[name] = property
			}
			more, _ := d["required"].([]any)
			required = append(required, more...)
		}
		return p.shape(map[string]any{"type": "object", "properties": joined, "required": required}, v, at)
	}
	if some, ok := s["oneOf"].([]any); ok {
		if !slices.ContainsFunc(some, func(one any) bool { return len(p.shape(one, v, at)) == 0 }) {
			why = append(why, at+" is none of what it may be")
		}
		return why
	}
	if enum, ok := s["enum"].([]any); ok && !slices.Contains(enum, v) {
		why = append(why, fmt.Sprintf("%s is %v, not of %v", at, v, enum))
	}
	kinds, _ := s["type"].([]any)
	if one, ok := s["type"].(string); ok {
		kinds = []any{one}
	}
	if len(kinds) > 0 && !slices.ContainsFunc(kinds, func(k any) bool { return isOf(k.(string), v) }) {
		return append(why, fmt.Sprintf("%s is %T, not %v", at, v, kinds))
	}
	switch v := v.(type) {
	case []any:
		for i, one := range v {
			if s["items"] != nil {
				why = append(why, p.shape(s["items"], one, fmt.Sprintf("%s[%d]", at, i))...)
			}
		}
	case map[string]any:
		required, _ := s["required"].([]any)
		for _, name := range required {
			if _, ok := v[name.(string)]; !ok {
				why = append(why, fmt.Sprintf("%s has no %s", at, name))
			}
		}
		properties, _ := s["properties"].(map[string]any)
		for name, one := range v {
			if property, ok := properties[name]; ok {
				why = append(why, p.shape(property, one, at+"."+name)...)
			} else if properties != nil && s["additionalProperties"] == nil {
				why = append(why, fmt.Sprintf("%s.%s is not in the document", at, name))
			}
		}
	}
	return why
}

func isOf(kind string, v any) bool {
	switch v := v.(type) {
	case nil:
		return kind == "null"
	case string:
		return kind == "string"
	case bool:
		return kind == "boolean"
	case float64:
		return kind == "number" || kind == "integer" && v == float64(int64(v))
	case []any:
		return kind == "array"
	}
	return kind == "object"
}
