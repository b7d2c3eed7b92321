package skills

import (
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
	"lilac/internal/foundation/text"
)

// FileName is the file that makes a directory a skill.
const FileName = "SKILL.md"

// The limits of the specification, in characters.
const (
	maxName          = 64
	maxDescription   = 1024
	maxCompatibility = 500
)

// Document is the content of a SKILL.md.
type Document struct {
	Name, Description string
	// Compatibility says what the skill needs, or "".
	Compatibility string
	// Hidden skills are used only if a person names them (disable-model-invocation).
	Hidden bool
	// Body is the text after the frontmatter.
	Body string
	// Notes say what does not match the specification, but does not matter.
	Notes []string
}

var validName = lazyregexp.New(`^[a-z0-9]+(-[a-z0-9]+)*$`)

// Parse reads a SKILL.md. dir is the name of its directory. The error of a file that cannot
// be used says why.
func Parse(dir, source string) (Document, error) {
	source = strings.ReplaceAll(strings.TrimPrefix(source, "\ufeff"), "\r\n", "\n")
	head, body, err := split(source)
	if err != nil {
		return Document{}, err
	}
	fields, notes := frontmatter(head)
	d := Document{
		Name: text.SingleLine(fields["name"]), Description: text.SingleLine(fields["description"]), Compatibility: text.SingleLine(fields["compatibility"]),
		Hidden: fields["disable-model-invocation"] == "true", Body: text.Sanitize(strings.TrimSpace(body)), Notes: notes,
	}
	note := func(format string, args ...any) { d.Notes = append(d.Notes, fmt.Sprintf(format, args...)) }
	if d.Name == "" {
		note("it has no name; the name of its directory is used")
		d.Name = dir
	}
	if d.Name != dir {
		note("its name %q is not that of its directory %q", d.Name, dir)
	}
	if !validName().MatchString(d.Name) || len(d.Name) > maxName {
		note("its name is not made of 1 to %d lowercase letters, digits, and hyphens", maxName)
		if d.Name = cleanName(d.Name); d.Name == "" {
			return Document{}, fault.New(fault.Invalid, "It has no usable name.")
		}
	}
	if d.Description == "" {
		return Document{}, fault.New(fault.Invalid, "It has no description, which says when to use it.")
	}
	if n := len([]rune(d.Description)); n > maxDescription {
		note("its description has %d characters, more than %d; the rest is left out", n, maxDescription)
		d.Description = text.TruncateRunes(d.Description, maxDescription)
	}
	if n := len([]rune(d.Compatibility)); n > maxCompatibility {
		note("its compatibility has %d characters, more than %d; the rest is left out", n, maxCompatibility)
		d.Compatibility = text.TruncateRunes(d.Compatibility, maxCompatibility)
	}
	if d.Body == "" {
		note("it has no text after its frontmatter")
	}
	return d, nil
}

// split separates the frontmatter from the body.
func split(source string) (head, body string, err error) {
	rest, ok := strings.CutPrefix(strings.TrimLeft(source, "\n "), "---\n")
	if !ok {
		return "", "", fault.New(fault.Invalid, "It does not begin with a frontmatter between lines of ---.")
	}
	lines := strings.SplitAfter(rest, "\n")
	for i, line := range lines {
		if strings.TrimRight(line, " \t\n") == "---" {
			return strings.Join(lines[:i], ""), strings.Join(lines[i+1:], ""), nil
		}
	}
	return "", "", fault.New(fault.Invalid, "Its frontmatter has no end: a line of --- is missing.")
}

// frontmatter returns the fields that are texts. Other products accept values with colons
// that YAML does not, so a frontmatter that is not YAML is read line by line.
func frontmatter(head string) (fields map[string]string, notes []string) {
	fields = map[string]string{}
	var parsed map[string]any
	if err := yaml.Unmarshal([]byte(head), &parsed); err == nil {
		for name, value := range parsed {
			switch value.(type) {
			case string, bool, int, uint64, int64, float64:
				fields[name] = fmt.Sprint(value)
			}
		}
		return fields, nil
	}
	name := ""
	for line := range strings.Lines(head) {
		key, value, found := strings.Cut(line, ":")
		switch {
		case found && key == strings.TrimSpace(key) && key != "" && !strings.ContainsAny(key, " #-") || found && validName().MatchString(key):
			name = key
			fields[name] = strings.Trim(strings.TrimSpace(value), `"'|>`)
		case name != "" && strings.HasPrefix(line, " "):
			fields[name] = strings.TrimSpace(fields[name] + " " + strings.TrimSpace(line))
		}
	}
	return fields, []string{"its frontmatter is not valid YAML; it is read line by line"}
}

// cleanName makes a name of the specification's form of another one.
func cleanName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(name))
	for strings.Contains(name, "--") {
		name = strings.ReplaceAll(name, "--", "-")
	}
	name = strings.Trim(name, "-")
	return strings.Trim(name[:min(len(name), maxName)], "-")
}
