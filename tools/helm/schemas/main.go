// Command schemas writes JSON schemas of Kubernetes' objects, for kubeconform, from the
// OpenAPI description in the module k8s.io/kubernetes:
//
//	go run ./schemas $(go mod download -json k8s.io/kubernetes@VERSION | jq -r .Dir) DIRECTORY
//
// In these schemas, a field that Kubernetes does not know is a mistake.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: schemas KUBERNETES DIRECTORY")
		os.Exit(2)
	}
	if err := write(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, "write the schemas:", err)
		os.Exit(1)
	}
}

// schema is a JSON schema. Only the fields that are changed have names.
type schema = map[string]any

func write(kubernetes, dir string) error {
	data, err := os.ReadFile(filepath.Join(kubernetes, "api", "openapi-spec", "swagger.json"))
	if err != nil {
		return err
	}
	var api struct{ Definitions map[string]schema }
	if err := json.Unmarshal(data, &api); err != nil {
		return fmt.Errorf("read the description: %w", err)
	}
	for _, definition := range api.Definitions {
		tighten(definition)
	}
	written := 0
	for name, definition := range api.Definitions {
		kinds, _ := definition["x-kubernetes-group-version-kind"].([]any)
		if len(kinds) != 1 { // others are parts of the API's own messages
			continue
		}
		kind, _ := kinds[0].(map[string]any)
		// kubeconform looks for kind-group-version, with the first word of the group.
		group, _ := kind["group"].(string)
		group, _, _ = strings.Cut(group, ".")
		file := strings.ToLower(fmt.Sprintf("%s-%s-%s.json", kind["kind"], group, kind["version"]))
		if group == "" {
			file = strings.ToLower(fmt.Sprintf("%s-%s.json", kind["kind"], kind["version"]))
		}
		data, err := json.Marshal(schema{"$ref": "#/definitions/" + name, "definitions": used(api.Definitions, name)})
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, file), data, 0o644); err != nil {
			return err
		}
		written++
	}
	if written == 0 {
		return fmt.Errorf("%s describes no objects", kubernetes)
	}
	return nil
}

// tighten changes a schema of OpenAPI into a strict one of JSON.
func tighten(s schema) {
	if properties, ok := s["properties"].(map[string]any); ok && s["additionalProperties"] == nil {
		s["additionalProperties"] = false
		for _, property := range properties {
			if p, ok := property.(map[string]any); ok {
				tighten(p)
			}
		}
	}
	if items, ok := s["items"].(map[string]any); ok {
		tighten(items)
	}
	// Quantities and ports are written as numbers, too. The descriptions call them strings.
	description, _ := s["description"].(string)
	if s["format"] == "int-or-string" || strings.HasPrefix(description, "Quantity is a fixed-point") {
		s["type"] = []string{"string", "number"}
		delete(s, "format")
	}
	delete(s, "description")
}

// used returns the definitions that a definition refers to, and itself.
func used(all map[string]schema, name string) map[string]schema {
	found := map[string]schema{}
	var visit func(v any)
	add := func(name string) {
		if _, known := found[name]; !known {
			found[name] = all[name]
			visit(all[name])
		}
	}
	visit = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for key, value := range v {
				if ref, ok := value.(string); ok && key == "$ref" {
					add(strings.TrimPrefix(ref, "#/definitions/"))
				}
				visit(value)
			}
		case []any:
			for _, value := range v {
				visit(value)
			}
		}
	}
	add(name)
	return found
}
