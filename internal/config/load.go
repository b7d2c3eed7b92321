package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"lilac/internal/fault"
)

// maxFileBytes bounds what is read: a configuration of more than a megabyte
// is some other file.
const maxFileBytes = 1 << 20

// Source is where a configuration comes from. Its zero value reads the
// process's environment and the default file.
type Source struct {
	// File is the value of --config; then the file must exist. Without it
	// LILAC_CONFIG names the file, else it is ~/.lilac/config.yaml if there is one.
	File string
	// Flags beat everything else; empty ones were not given.
	Flags Flags
	// Getenv looks up the environment; nil means os.Getenv.
	Getenv func(string) string
}

// Flags are the settings that a command line may carry.
type Flags struct {
	Addr, DataDir, Workspace, Model, LogLevel, LogFormat string
}

// Warning is something in the file that is probably a mistake and does no harm.
type Warning struct {
	File         string
	Line, Column int
	Message      string
}

// String is the warning as a line of a compiler: file:line:column: message.
func (w Warning) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", w.File, w.Line, w.Column, w.Message)
}

// Load reads, merges and validates. Its errors are of kind fault.Invalid and
// say what to change.
func Load(src Source) (*Config, []Warning, error) {
	getenv := src.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	c := Default()
	c.getenv = getenv
	c.origin = map[string]string{}
	warnings, err := c.readFile(src)
	if err != nil {
		return nil, warnings, err
	}
	c.applyEnv()
	c.applyFlags(src.Flags)
	if err := c.resolvePaths(); err != nil {
		return nil, warnings, err
	}
	if err := c.validate(); err != nil {
		return nil, warnings, c.located(err)
	}
	return c, warnings, nil
}

// located puts before a mistake where in the file it stands, if it does: the
// key itself, or the nearest one above it.
func (c *Config) located(err error) error {
	var f *fault.Error
	if !errors.As(err, &f) || f.Field == "" {
		return err
	}
	for key := strings.TrimRight(f.Field, "[]0123456789"); key != ""; {
		if from, set := c.origin[key]; set && from != "the file" {
			return err // the environment or a flag said it
		}
		if at, ok := c.places[key]; ok {
			placed := *f
			placed.Message = fmt.Sprintf("%s:%d:%d: %s", c.File, at.Line, at.Column, f.Message)
			return &placed
		}
		dot := strings.LastIndexByte(key, '.')
		key = key[:max(0, dot)]
	}
	return err
}

func (c *Config) readFile(src Source) ([]Warning, error) {
	path, named := src.File, true
	if path == "" {
		path = c.getenv("LILAC_CONFIG")
	}
	if path == "" {
		path, named = "~/.lilac/config.yaml", false
	}
	path, err := c.absolute(path)
	if err != nil {
		if !named {
			return nil, nil
		}
		return nil, err
	}
	c.Sought = path
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return nil, nil
	case err != nil:
		return nil, fault.Wrap(fault.Invalid, err, "The configuration file %s cannot be read", path)
	case !info.Mode().IsRegular() || info.Size() > maxFileBytes:
		return nil, fault.New(fault.Invalid, "%s is not a configuration file (a regular file of at most 1 MiB).", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fault.Wrap(fault.Invalid, err, "The configuration file %s cannot be read", path)
	}
	c.File = path
	return c.decode(path, data)
}

// decode merges a file into c. A provider or model that the file names is
// merged field by field with the built-in one of that name.
func (c *Config) decode(path string, data []byte) ([]Warning, error) {
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		return nil, c.fileError(path, err)
	}
	if len(file.Docs) > 1 {
		return nil, fault.New(fault.Invalid, "%s holds %d documents; it must be one.", path, len(file.Docs))
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil, nil
	}
	body := file.Docs[0].Body
	switch body.Type() {
	case ast.MappingType, ast.MappingValueType:
	case ast.NullType, ast.CommentType, ast.CommentGroupType:
		return nil, nil
	default:
		return nil, fault.New(fault.Invalid, "%s is not a list of keys and values.", path)
	}
	sub := &substituter{getenv: c.getenv, file: path}
	ast.Walk(sub, body)
	if sub.err != nil {
		return nil, sub.err
	}
	keys := keyWalker{file: path, seen: map[string]place{}}
	keys.walk(body, configType, "")
	c.places = keys.seen
	for key := range keys.seen {
		c.origin[key] = "the file"
	}

	builtin := c.Providers
	c.Providers = nil
	if err := yaml.NodeToValue(body, c); err != nil {
		return keys.warnings, c.fileError(path, err)
	}
	for name, p := range c.Providers {
		base := builtin[name]
		if p.Type == "" {
			p.Type = base.Type
		}
		if p.BaseURL == "" && p.Type == base.Type {
			p.BaseURL = base.BaseURL
		}
		builtin[name] = p
	}
	c.Providers = builtin
	dir := filepath.Dir(path)
	for key, at := range map[string]*string{
		"dataDir": &c.DataDir, "workspace": &c.Workspace, "bus.passwordFile": &c.Bus.PasswordFile, "bus.caFile": &c.Bus.CAFile,
	} {
		if c.Origin(key) == "the file" && *at != "" && !filepath.IsAbs(*at) && !strings.HasPrefix(*at, "~") {
			*at = filepath.Join(dir, *at)
		}
	}
	return keys.warnings, nil
}

// fileError keeps the position and the first line of what the YAML library says,
// or says what kind of value belongs there.
func (c *Config) fileError(path string, err error) error {
	var y yaml.Error
	if errors.As(err, &y) {
		message := strings.TrimSuffix(firstLine(y.GetMessage()), ".")
		if t := y.GetToken(); t != nil && t.Position != nil {
			if want, got, ok := mismatch(err); ok {
				message = fmt.Sprintf("%s has to be %s, not %s", c.keyAt(place{t.Position.Line, t.Position.Column}), want, got)
			}
			return fault.New(fault.Invalid, "%s:%d:%d: %s.", path, t.Position.Line, t.Position.Column, message)
		}
		return fault.New(fault.Invalid, "%s: %s.", path, message)
	}
	return fault.New(fault.Invalid, "%s: %s.", path, firstLine(err.Error()))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// substituter replaces ${NAME} in the strings of a file.
type substituter struct {
	getenv func(string) string
	file   string
	err    error
}

// Visit implements ast.Visitor.
func (s *substituter) Visit(n ast.Node) ast.Visitor {
	if s.err != nil {
		return nil
	}
	if value, ok := n.(*ast.MappingValueNode); ok {
		ast.Walk(s, value.Value) // the keys stay as they are
		return nil
	}
	str, ok := n.(*ast.StringNode)
	if !ok || !strings.Contains(str.Value, "${") {
		return s
	}
	out, missing := substitute(str.Value, s.getenv)
	if missing != "" {
		at := str.GetToken().Position
		s.err = fault.New(fault.Invalid, "%s:%d:%d: the environment variable %s is not set.", s.file, at.Line, at.Column, missing)
		return nil
	}
	str.Value = out
	return s
}

// substitute replaces ${NAME}; $${ stands for a literal ${. It returns the
// first name that is not set.
func substitute(text string, getenv func(string) string) (out, missing string) {
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "${")
		if !found {
			b.WriteString(text)
			return b.String(), ""
		}
		if literal, ok := strings.CutSuffix(before, "$"); ok {
			b.WriteString(literal + "${")
			text = rest
			continue
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed {
			b.WriteString(text)
			return b.String(), ""
		}
		value := getenv(name)
		if value == "" {
			return "", name
		}
		b.WriteString(before + value)
		text = after
	}
}
