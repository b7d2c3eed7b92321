package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
)

// SecretsFile is the name of the file in the data directory with the secrets that setup stores: a
// line NAME=value for each. The configuration refers to them as ${NAME}, as to the variables of the
// environment, which take precedence.
const SecretsFile = "secrets"

// A Proposal is what the configuration file and the secrets file would contain.
type Proposal struct{ File, Secrets []byte }

// secretName matches the names of secrets.
var secretName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ParseSecrets reads the lines of a secrets file. It skips empty lines and comments. An error names
// the line, but not its content.
func ParseSecrets(data []byte) (map[string]Secret, error) {
	out := map[string]Secret{}
	n := 0
	for line := range strings.Lines(string(data)) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !ok || !secretName().MatchString(name) {
			return nil, fault.New(fault.Invalid, "Line %d of the secrets file is not of the form NAME=value.", n)
		}
		out[name] = Secret(value)
	}
	return out, nil
}

// FormatSecrets writes a secrets file, sorted by name. It refuses values that do not fit on a line.
func FormatSecrets(secrets map[string]Secret) ([]byte, error) {
	var lines []string
	for name, value := range secrets {
		text := value.Reveal()
		if !secretName().MatchString(name) || strings.ContainsAny(text, "\r\n\x00") || text != strings.TrimSpace(text) {
			return nil, fault.New(fault.Invalid, "The secret %s has a line break in it, or a space at an end.", name)
		}
		lines = append(lines, name+"="+text+"\n")
	}
	slices.Sort(lines)
	return []byte("# Secrets of the configuration, which refers to them as ${NAME}. Keep this file private.\n" + strings.Join(lines, "")), nil
}

// readSecrets returns the stored secrets. Without a file, there are none. An error matters only if
// the configuration refers to a secret: users who may not read the data directory can use the rest.
func (c reader) readSecrets(path string, body ast.Node) (map[string]Secret, error) {
	dir, ok := c.dataDirIn(path, body)
	if !ok {
		return nil, nil
	}
	file := filepath.Join(dir, SecretsFile)
	data := []byte(nil)
	if p := c.src.Proposed; p != nil {
		data = p.Secrets
	} else {
		info, err := os.Stat(file)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err == nil && (!info.Mode().IsRegular() || info.Size() > maxFileBytes) {
			err = errors.New("it is not a regular file of at most 1 MiB")
		}
		if err == nil {
			data, err = os.ReadFile(file)
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, withoutPath(err))
		}
	}
	return ParseSecrets(data)
}

// dataDirIn returns the data directory before the file is decoded, because the file may refer to
// secrets that are in it. It returns false if the directory cannot be known.
func (c reader) dataDirIn(path string, body ast.Node) (string, bool) {
	dir := c.src.Flags.DataDir
	if dir == "" {
		dir = c.getenv("LILAC_DATA_DIR")
	}
	if dir == "" {
		dir = c.DataDir
		if node, ok := topLevel(body, "dataDir").(*ast.StringNode); ok {
			text, missing := substitute(node.Value, c.getenv)
			if missing != "" {
				return "", false
			}
			if dir = text; !filepath.IsAbs(dir) && !strings.HasPrefix(dir, "~") {
				dir = filepath.Join(filepath.Dir(path), dir)
			}
		}
	}
	abs, err := c.absolute(dir)
	return abs, err == nil
}

// topLevel returns the value of a top-level key, or nil.
func topLevel(body ast.Node, key string) ast.Node {
	var values []*ast.MappingValueNode
	switch body := body.(type) {
	case *ast.MappingNode:
		values = body.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{body}
	}
	for _, v := range values {
		if v.Key.GetToken().Value == key {
			return v.Value
		}
	}
	return nil
}
