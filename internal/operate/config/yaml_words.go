package config

import (
	"strings"

	"lilac/internal/foundation/lazyregexp"
)

var keyTwice = lazyregexp.New(`^mapping key (".*") already defined at \[(\d+):`)

// yamlWords replace messages of the YAML library, in the order of precedence: they name its parser's
// states, and not the mistake.
var yamlWords = []struct{ has, say string }{
	{"'\t'", "a tab stands where YAML takes only spaces"},
	{"mapping value is not allowed", "a key with a value is not allowed here; correct the indentation, or put a text that contains a colon in quotes"},
	{"value is not allowed in this context", "this line does not belong to the lines above it; correct the indentation"},
	{"non-map value is specified", "a key with a value is expected here; correct the indentation, or put a space after the colon"},
	{"unexpected key name", "a key with a value is expected here; correct the indentation, or put a space after the colon"},
	{"could not find alias", "no anchor has this name; put a text that begins with * in quotes"},
	{"cannot find anchor by alias", "no anchor has the name that the file uses after a *; put a text that begins with * in quotes"},
	{"undefined anchor value", "a text that begins with & must be in quotes"},
	{"unexpected directive value", "a text that begins with % must be in quotes"},
	{"is a reserved character", "a text that begins with @ or ` must be in quotes"},
	{"could not find end character of", "the closing quote of this text is missing"},
	{"could not find flow mapping end token", "the closing } is missing"},
	{"sequence end token ']' not found", "the closing ] is missing"},
	{"could not find '[' character", "the opening [ is missing before this ]"},
	{"block sequence entries are not allowed", "an item of a list is not allowed here; begin the list in a new line"},
	{"',' or '}' must be specified", "a comma or the closing } is missing before this"},
	{"',' or ']' must be specified", "a comma or the closing ] is missing before this"},
	{"unknown escape character", `a \ begins an escape sequence in double quotes; write \\, or use single quotes`},
}

// plainYAML says in plain words what a message of the YAML library means.
func plainYAML(message string) string {
	if m := keyTwice().FindStringSubmatch(message); m != nil {
		return "the key " + m[1] + " is already in line " + m[2] + "; remove one of them"
	}
	for _, w := range yamlWords {
		if strings.Contains(message, w.has) {
			return w.say
		}
	}
	return message
}
