package config

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"lilac/internal/foundation/fault"
)

// maxFileBytes bounds the size of a file. A larger one is not a configuration.
const maxFileBytes = 1 << 20

// A Source says where to read a configuration from. Its zero value uses the process environment
// and the default file.
type Source struct {
	// File is the value of --config; the file must exist. If File is empty, Load reads the file
	// that LILAC_CONFIG names, or else ~/.lilac/config.yaml if it exists.
	File string
	// Flags override all other sources. Empty fields were not given.
	Flags Flags
	// Getenv looks up an environment variable; nil means os.Getenv.
	Getenv func(string) string
	// Proposed replaces what the file and the secrets file contain, so that a change can be
	// checked before it is written. The file need not exist.
	Proposed *Proposal
}

// Flags holds the settings that command-line flags can set.
type Flags struct {
	Addr, DataDir, Workspace, Model, LogLevel, LogFormat string
}

// A Warning is a probable mistake in the file that does not prevent a start.
type Warning struct {
	File         string
	Line, Column int
	Message      string
}

// String formats the warning as compilers do: file:line:column: message.
func (w Warning) String() string {
	if w.File == "" { // it is about the environment
		return w.Message
	}
	return fmt.Sprintf("%s:%d:%d: %s", w.File, w.Line, w.Column, w.Message)
}

// fromFile is the origin of values that the file sets.
const fromFile = "the file"

// Load reads, merges, and validates a configuration. Its errors have the kind fault.Invalid and
// say what to change. Several errors are returned as [Mistakes]; [Each] splits them.
func Load(src Source) (*Config, []Warning, error) {
	c, warnings, mistakes, err := read(src)
	if err != nil {
		return nil, warnings, err
	}
	if err := c.resolvePaths(); err != nil {
		return nil, warnings, asError(append(mistakes, c.located(err)))
	}
	if err := c.loadCatalog(); err != nil {
		mistakes = append(mistakes, c.located(err))
	}
	for _, err := range parts(checker{c.Config}.validate()) {
		if !c.follows(err) {
			mistakes = append(mistakes, c.located(err))
		}
	}
	mistakes, broken := c.breakMCP(mistakes)
	if err := asError(mistakes); err != nil {
		return nil, warnings, err
	}
	return c.Config, slices.Concat(warnings, broken, c.withoutSession(), c.mistypedTypes(), c.mistypedTools(), c.exposed(), c.wrongTZ()), nil
}

// A reader merges the sources of a configuration, and locates its mistakes in them.
type reader struct {
	*Config
	src Source
}

// read merges the file, the environment, and the flags. It skips values of the file that it cannot
// read. If it returns an error, it could not use the file at all.
func read(src Source) (reader, []Warning, []mistake, error) {
	getenv := src.Getenv
	if getenv == nil {
		getenv = os.Getenv
	}
	c := reader{Default(), src}
	c.getenv = getenv
	c.origin = map[string]string{}
	warnings, mistakes, err := c.readFile(src)
	c.applyEnv()
	c.applyFlags(src.Flags)
	c.trimSecrets()
	return c, warnings, mistakes, err
}

// follows reports whether err only exists because another value could not be read.
func (c reader) follows(err error) bool {
	var f *fault.Error
	return errors.As(err, &f) && f.Field != "" && slices.ContainsFunc(c.unread, func(key string) bool { return touches(key, f.Field) })
}

// unreadable reports whether any of the keys could not be read. If so, checks that depend on them
// must not run.
func (c *Config) unreadable(keys ...string) bool {
	return slices.ContainsFunc(c.unread, func(unread string) bool {
		return slices.ContainsFunc(keys, func(key string) bool { return touches(key, unread) })
	})
}

func (c reader) readFile(src Source) ([]Warning, []mistake, error) {
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
			return nil, nil, nil
		}
		return nil, nil, err
	}
	c.Sought = path
	if src.Proposed != nil {
		c.File = path
		return c.decode(path, src.Proposed.File)
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return nil, nil, nil
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil, fault.Wrap(fault.Invalid, err, "There is no configuration file %s, which --config or LILAC_CONFIG names", path)
	case err != nil:
		return nil, nil, unreadable(path, err)
	case !info.Mode().IsRegular() || info.Size() > maxFileBytes:
		return nil, nil, fault.New(fault.Invalid, "%s is not a configuration file (a regular file of at most 1 MiB).", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, unreadable(path, err)
	}
	c.File = path
	return c.decode(path, data)
}

// unreadable puts the cause into the message, because doctor shows only the message.
func unreadable(path string, err error) error {
	return fault.New(fault.Invalid, "The configuration file %s cannot be read: %s.", path, withoutPath(err))
}

// withoutPath removes the path from an error, for messages that already have it.
func withoutPath(err error) error {
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		return at.Err
	}
	return err
}

// notUTF8 returns the place of the first byte that is not UTF-8.
func notUTF8(data []byte) (line, column int, found bool) {
	for at := 0; at < len(data); {
		r, size := utf8.DecodeRune(data[at:])
		if r == utf8.RuneError && size == 1 {
			before := data[:at]
			return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[1+bytes.LastIndexByte(before, '\n'):]), true
		}
		at += size
	}
	return 0, 0, false
}

// decode merges a file into c. Providers and models in the file are merged field by field with the
// built-in ones of the same name.
func (c reader) decode(path string, data []byte) ([]Warning, []mistake, error) {
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) || bytes.IndexByte(data, 0) >= 0 {
		return nil, nil, fault.New(fault.Invalid, "%s is not UTF-8: it looks like UTF-16, or like no text at all. Save it as UTF-8.", path)
	}
	if line, column, found := notUTF8(data); found {
		return nil, nil, fault.New(fault.Invalid, "%s:%d:%d: The file is not UTF-8; it looks like Latin-1 or Windows-1252. Save it as UTF-8, for example with: iconv -f WINDOWS-1252 -t UTF-8.", path, line, column)
	}
	// Some editors write a byte order mark, which would become part of the first key.
	file, err := parser.ParseBytes(bytes.TrimPrefix(data, []byte("\ufeff")), 0)
	if err != nil {
		return nil, nil, c.fileError(path, err)
	}
	docs := slices.DeleteFunc(file.Docs, holdsNothing)
	switch {
	case len(docs) == 0:
		return nil, nil, nil
	case len(docs) > 1:
		return nil, nil, c.fileError(path, &yaml.SyntaxError{Message: "a second document begins here; there must be one", Token: docs[1].Body.GetToken()})
	}
	body := docs[0].Body
	switch body.Type() {
	case ast.MappingType, ast.MappingValueType:
	default:
		return nil, nil, fault.New(fault.Invalid, "%s is not a list of keys and values. Put a space after each colon.", path)
	}
	keys := keyWalker{file: path, seen: map[string]place{}, items: map[string]place{}}
	keys.walk(body, configType, "")
	c.places = keys.items
	for key, at := range keys.seen {
		c.origin[key] = fromFile
		c.places[key] = at
	}
	secrets, noSecrets := c.readSecrets(path, body)
	sub := &substituter{getenv: func(name string) string { return cmp.Or(c.getenv(name), secrets[name].Reveal()) }, noSecrets: noSecrets, file: path}
	ast.Walk(sub, body)
	mistakes := append(sub.mistakes, keys.mistakes...)
	for i, m := range mistakes {
		if key, ok := keys.drop(m.at); ok {
			c.unread, mistakes[i].key = append(c.unread, key), key
		}
	}
	mistakes = append(mistakes, c.fill(path, body, &keys)...)
	unread, endless := c.endless()
	c.unread, mistakes = append(c.unread, unread...), append(mistakes, endless...)
	dir := filepath.Dir(path)
	for key, at := range map[string]*string{
		"dataDir": &c.DataDir, "workspace": &c.Workspace, "bus.passwordFile": &c.Bus.PasswordFile,
		"bus.sentinelPasswordFile": &c.Bus.SentinelPasswordFile, "bus.caFile": &c.Bus.CAFile, "bus.certFile": &c.Bus.CertFile, "bus.keyFile": &c.Bus.KeyFile, "catalog": &c.Catalog,
	} {
		if c.Origin(key) == fromFile && *at != "" && !filepath.IsAbs(*at) && !strings.HasPrefix(*at, "~") {
			*at = filepath.Join(dir, *at)
		}
	}
	return keys.warnings, mistakes, nil
}

// holdsNothing reports whether a document is empty, such as the one after a trailing ---.
func holdsNothing(d *ast.DocumentNode) bool {
	if d.Body == nil {
		return true
	}
	switch d.Body.Type() {
	case ast.NullType, ast.CommentType, ast.CommentGroupType:
		return true
	}
	return false
}

// fill decodes the file into c. It skips each value that cannot be decoded and returns a mistake
// for it.
func (c reader) fill(path string, body ast.Node, keys *keyWalker) []mistake {
	var mistakes []mistake
	for range maxMistakes {
		next := *c.Config
		next.Providers = nil
		err := yaml.NodeToValue(body, &next)
		if err == nil {
			next.Providers = withBuiltin(next.Providers, c.Providers)
			next.unread = c.unread
			*c.Config = next
			return mistakes
		}
		at := errorPlace(err)
		key, ok := keys.drop(at)
		mistakes = append(mistakes, mistake{c.fileError(path, err), at, key})
		if !ok {
			break
		}
		c.unread = append(c.unread, key)
	}
	c.unread = slices.AppendSeq(c.unread, maps.Keys(keys.seen)) // no value of the file was used
	return mistakes
}

// withBuiltin merges the providers of the file with the built-in ones.
func withBuiltin(given, builtin map[string]Provider) map[string]Provider {
	out := maps.Clone(builtin)
	for name, p := range given {
		base := builtin[name]
		if p.Type == "" {
			p.Type = base.Type
		}
		if p.BaseURL == "" && p.Type == base.Type {
			p.BaseURL = base.BaseURL
		}
		out[name] = p
	}
	return out
}

// errorPlace returns the position that the YAML library reports for an error, or zero if there is
// none.
func errorPlace(err error) place {
	var y yaml.Error
	if !errors.As(err, &y) {
		return place{}
	}
	if t := y.GetToken(); t != nil && t.Position != nil {
		return place{t.Position.Line, t.Position.Column}
	}
	return place{}
}

// fileError keeps the position and the first line of an error of the YAML library. For a value of
// the wrong kind, it says which kind is expected.
func (c reader) fileError(path string, err error) error {
	var y yaml.Error
	if errors.As(err, &y) {
		message := plainYAML(strings.TrimSuffix(firstLine(y.GetMessage()), "."))
		if at := errorPlace(err); at != (place{}) {
			if tooLarge := (*yaml.OverflowError)(nil); errors.As(err, &tooLarge) {
				message = c.keyAt(at) + " is too large"
			} else if want, got, ok := mismatch(err); ok {
				message = fmt.Sprintf("%s has to be %s, not %s", c.keyAt(at), want, got)
			}
			return fault.New(fault.Invalid, "%s:%d:%d: %s.", path, at.Line, at.Column, message)
		}
		return fault.New(fault.Invalid, "%s: %s.", path, message)
	}
	return fault.New(fault.Invalid, "%s: %s.", path, firstLine(fault.Plain(err)))
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// A substituter replaces ${NAME} in the strings of a file.
type substituter struct {
	getenv func(string) string
	// noSecrets is the reason why the secrets file could not be read, or nil.
	noSecrets error
	file      string

	mistakes []mistake
}

// Visit implements ast.Visitor.
func (s *substituter) Visit(n ast.Node) ast.Visitor {
	if value, ok := n.(*ast.MappingValueNode); ok {
		ast.Walk(s, value.Value) // keys are not substituted
		return nil
	}
	str, ok := n.(*ast.StringNode)
	if !ok || !strings.Contains(str.Value, "${") {
		return s
	}
	out, missing := substitute(str.Value, s.getenv)
	if missing != "" {
		at := str.GetToken().Position
		err := fault.New(fault.Invalid, "%s:%d:%d: the environment variable %s is not set. Set it for the server, or add it to the file secrets in the data directory.", s.file, at.Line, at.Column, missing)
		if s.noSecrets != nil {
			err = fault.New(fault.Invalid, "%s:%d:%d: the environment variable %s is not set, and the secrets file cannot be used: %s", s.file, at.Line, at.Column, missing, s.noSecrets)
		}
		s.mistakes = append(s.mistakes, mistake{err: err, at: place{at.Line, at.Column}})
		return nil
	}
	str.Value = out
	return s
}

// substitute replaces ${NAME}, also written ${env:NAME} or ${NAME:-default}; $${ produces a literal ${. It also returns the first name that is
// not set.
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
		// Files of other products write ${env:NAME}, and ${NAME:-default}.
		name = strings.TrimPrefix(name, "env:")
		name, otherwise, hasDefault := strings.Cut(name, ":-")
		value := getenv(name)
		if value == "" && hasDefault && name != "" {
			b.WriteString(before + otherwise)
			text = after
			continue
		}
		if name == "" {
			value = "${}" // names nothing, so it is text
		}
		if value == "" {
			return "", name
		}
		b.WriteString(before + value)
		text = after
	}
}
