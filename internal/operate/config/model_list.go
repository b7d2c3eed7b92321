package config

import (
	"encoding/json"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"lilac/internal/foundation/setting"
)

// A ModelList is a model, as provider/model, or a list of them: the first one answers, and the
// others take over while those before them fail.
type ModelList []string

// parseModels splits the value of an environment variable or a flag at its commas.
func parseModels(text string) ModelList {
	var out ModelList
	for _, one := range strings.Split(text, ",") {
		if one = strings.TrimSpace(one); one != "" {
			out = append(out, one)
		}
	}
	return out
}

// UnmarshalYAML implements yaml.NodeUnmarshaler.
func (m *ModelList) UnmarshalYAML(n ast.Node) error {
	return (*setting.Texts)(m).UnmarshalYAML(n)
}

// MarshalYAML implements yaml.InterfaceMarshaler.
func (m ModelList) MarshalYAML() (any, error) { return m.plain(), nil }

// MarshalJSON implements [json.Marshaler].
func (m ModelList) MarshalJSON() ([]byte, error) { return json.Marshal(m.plain()) }

// plain returns a single model as a string.
func (m ModelList) plain() any {
	if len(m) == 1 {
		return m[0]
	}
	return []string(m)
}

// String returns the models with commas between them.
func (m ModelList) String() string { return strings.Join(m, ", ") }
