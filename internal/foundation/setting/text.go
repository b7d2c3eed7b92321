package setting

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"

	"lilac/internal/foundation/schedule"
)

// A Duration is a time.Duration that is written as 90s, 15m, 1h30m or 7d.
type Duration time.Duration

// String returns the duration in the notation of the file, without units that are zero.
func (d Duration) String() string {
	const day = Duration(24 * time.Hour)
	if d >= 2*day && d%day == 0 {
		return strconv.FormatInt(int64(d/day), 10) + "d"
	}
	text := time.Duration(d).String()
	if short, ok := strings.CutSuffix(text, "m0s"); ok {
		text = short + "m"
	}
	if short, ok := strings.CutSuffix(text, "h0m"); ok {
		text = short + "h"
	}
	return text
}

// MarshalText returns the duration in the notation of the file.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText parses 90s, 15m, 1h30m or 7d.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := time.ParseDuration(string(text)) // also a negative one, which most settings refuse by name
	if err != nil {
		v, err = schedule.ParseDuration(string(text))
	}
	if err != nil {
		return fmt.Errorf("%q is not a duration such as 90s, 15m, 1h30m or 7d", text)
	}
	*d = Duration(v)
	return nil
}

// UnmarshalYAML parses the duration after ${NAME} was replaced.
func (d *Duration) UnmarshalYAML(n ast.Node) error {
	text, err := Scalar(n)
	if err != nil {
		return err
	}
	if err := d.UnmarshalText([]byte(text)); err != nil {
		return &yaml.SyntaxError{Message: err.Error(), Token: n.GetToken()}
	}
	return nil
}

// A Size is a number of bytes that is written as 512KiB, 64MiB or 2GiB.
type Size int64

var units = []struct {
	name  string
	bytes Size
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}}

// String returns the size in the notation of the file.
func (s Size) String() string {
	for _, unit := range units {
		if s != 0 && s%unit.bytes == 0 {
			return strconv.FormatInt(int64(s/unit.bytes), 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// MarshalText returns the size in the notation of the file.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText parses 512KiB, 64MiB, 2GiB, or a plain number of bytes.
func (s *Size) UnmarshalText(text []byte) error {
	number, factor := string(text), Size(1)
	for _, unit := range units {
		if before, ok := strings.CutSuffix(number, unit.name); ok {
			number, factor = before, unit.bytes
			break
		}
	}
	const most = 1 << 50 // so that no unit overflows
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 0 || n > most/int64(factor) {
		return fmt.Errorf("%q is not a size such as 512KiB, 64MiB or 2GiB", text)
	}
	*s = Size(n) * factor
	return nil
}

// UnmarshalYAML parses the size after ${NAME} was replaced.
func (s *Size) UnmarshalYAML(n ast.Node) error {
	text, err := Scalar(n)
	if err != nil {
		return err
	}
	if err := s.UnmarshalText([]byte(text)); err != nil {
		return &yaml.SyntaxError{Message: err.Error(), Token: n.GetToken()}
	}
	return nil
}

// UnmarshalYAML reads the secret after ${NAME} was replaced.
func (s *Secret) UnmarshalYAML(n ast.Node) error {
	text, err := Scalar(n)
	*s = Secret(text)
	return err
}

// Scalar returns the value of a node as text. The YAML library passes the source text of a node to
// text unmarshalers; in it, ${NAME} is not replaced.
func Scalar(n ast.Node) (string, error) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, nil
	case *ast.LiteralNode:
		return n.Value.Value, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode:
		return n.GetToken().Value, nil
	case *ast.AnchorNode:
		return Scalar(n.Value)
	}
	return "", &yaml.SyntaxError{Message: "a text is expected here", Token: n.GetToken()}
}

// Texts is one text or a list of texts.
type Texts []string

// UnmarshalYAML reads a text or a list of texts.
func (t *Texts) UnmarshalYAML(n ast.Node) error {
	nodes := []ast.Node{n}
	if list, ok := n.(*ast.SequenceNode); ok {
		nodes = list.Values
	}
	*t = nil
	for _, one := range nodes {
		text, err := Scalar(one)
		if err != nil {
			return err
		}
		*t = append(*t, text)
	}
	return nil
}
