package webui

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// The forms of import and export that the modules of the page use.
var (
	reference = regexp.MustCompile(`^(?:import \* as (\w+)|import \{([^}]*)\}|export \{ (\w+(?:, \w+)*) \}) from '\./(\w+)\.js';\n`)
	exported  = regexp.MustCompile(`^export ((?:async )?function\*?|const|class) (\w+)`)
)

// join returns one script that does the same as the module first with all that it imports, so that a
// browser asks for one file instead of fifty. Each module becomes a function that returns its exports;
// it is called after those that it imports. The errors name a module that is missing, that imports
// itself by way of others, or that has another form of import or export.
func join(modules map[string][]byte, first string) ([]byte, error) {
	j := joiner{modules: modules, done: make(map[string]bool)}
	if err := j.add(first); err != nil {
		return nil, fmt.Errorf("join the modules of the page: %w", err)
	}
	return j.script.Bytes(), nil
}

type joiner struct {
	modules map[string][]byte
	// done holds the modules that were begun, and whether the script has them.
	done   map[string]bool
	script bytes.Buffer
}

// add appends a module, after those that it imports, unless the script has it.
func (j *joiner) add(name string) error {
	rest, exists := j.modules[name+".js"]
	switch done, begun := j.done[name]; {
	case !exists:
		return fmt.Errorf("there is no module %s.js", name)
	case done:
		return nil
	case begun:
		return fmt.Errorf("%s.js imports itself by way of others", name)
	}
	j.done[name] = false
	var body bytes.Buffer
	var exports strings.Builder // the members of the returned object
	for len(rest) > 0 {
		if m := reference.FindSubmatch(rest); m != nil {
			rest = rest[len(m[0]):]
			from := string(m[4])
			if err := j.add(from); err != nil {
				return err
			}
			switch whole, names, passed := string(m[1]), string(m[2]), string(m[3]); {
			case whole != "":
				fmt.Fprintf(&body, "const %s = $%s;\n", whole, from)
			case passed != "":
				for one := range strings.SplitSeq(passed, ", ") {
					fmt.Fprintf(&exports, "%s: $%s.%s, ", one, from, one)
				}
			default:
				fmt.Fprintf(&body, "const {%s} = $%s;\n", strings.ReplaceAll(names, " as ", ": "), from)
			}
			continue
		}
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			end = len(rest)
		}
		line := rest[:end]
		rest = rest[end:]
		if m := exported.FindSubmatch(line); m != nil {
			fmt.Fprintf(&exports, "%s, ", m[2])
			line = line[len("export "):]
		} else if bytes.HasPrefix(line, []byte("import")) || bytes.HasPrefix(line, []byte("export")) {
			return fmt.Errorf("%s.js has an unknown form: %s", name, bytes.TrimSpace(line))
		}
		body.Write(line)
	}
	fmt.Fprintf(&j.script, "// %s.js\nconst $%s = (() => {\n%s\nreturn { %s};\n})();\n", name, name, body.Bytes(), exports.String())
	j.done[name] = true
	return nil
}
