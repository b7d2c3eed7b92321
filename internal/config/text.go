package config

import (
	"fmt"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
)

// Duration is a time.Duration that is written as 90s, 15m or 1h30m.
type Duration time.Duration

// String writes the duration as it may stand in the file.
func (d Duration) String() string { return time.Duration(d).String() }

// MarshalText writes the duration as it may stand in the file.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads 90s, 15m, 1h30m.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text))
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 90s, 15m or 1h30m", text)
	}
	*d = Duration(v)
	return nil
}

// UnmarshalYAML reads the duration from the file, after ${NAME} was replaced.
func (d *Duration) UnmarshalYAML(n ast.Node) error {
	text, err := scalar(n)
	if err != nil {
		return err
	}
	if err := d.UnmarshalText([]byte(text)); err != nil {
		return &yaml.SyntaxError{Message: err.Error(), Token: n.GetToken()}
	}
	return nil
}

// UnmarshalYAML reads the secret from the file, after ${NAME} was replaced.
func (s *Secret) UnmarshalYAML(n ast.Node) error {
	text, err := scalar(n)
	*s = Secret(text)
	return err
}

// scalar returns the value of a node as text. The library hands text
// unmarshalers the source of a node, in which ${NAME} is not replaced.
func scalar(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	case *ast.AnchorNode:
		return scalar(n.Value)
	}
	return "", &yaml.SyntaxError{Message: "a text is expected here", Token: n.GetToken()}
}
