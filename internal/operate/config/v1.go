package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"lilac/internal/foundation/fault"
	"lilac/internal/foundation/lazyregexp"
)

// maxV1Tokens bounds the programs that may call /v1.
const maxV1Tokens = 100

var v1Name = lazyregexp.New(`^[a-z][a-z0-9_-]{0,27}$`)

// webOrigin matches an Origin header as browsers write it, and *.
var webOrigin = lazyregexp.New(`^(\*|[a-z][a-z0-9+.-]*://([a-z0-9.-]+|\[[0-9a-f:]+\])(:[0-9]+)?)$`)

// checkV1 validates the tokens of /v1, and the origins.
func (c checker) checkV1() error {
	var found []error
	if len(c.V1.Tokens) > maxV1Tokens {
		found = append(found, fault.InvalidField("v1.tokens", "There are more than %d tokens.", maxV1Tokens))
	}
	used := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(c.V1.Tokens)) {
		field, token := "v1.tokens."+name, c.V1.Tokens[name].Token.Reveal()
		if !v1Name().MatchString(name) {
			found = append(found, fault.InvalidField(field, "%q is not a name for a program: use 1 to 28 characters (a-z, 0-9, _ and -), and begin with a letter.", name))
		}
		switch other, taken := used[token]; {
		case len(token) < minTokenLength:
			found = append(found, fault.InvalidField(field+".token", "%s.token needs at least %d characters.", field, minTokenLength))
		case taken:
			found = append(found, fault.InvalidField(field+".token", "The programs %s and %s have the same token. Give each its own.", other, name))
		case token == c.Token.Reveal():
			found = append(found, fault.InvalidField(field+".token", "%s.token is the operator's token. Give the program its own.", field))
		}
		used[token] = name
		found = append(found, c.V1.Tokens[name].Tools.Check(field+".tools"))
	}
	return errors.Join(append(found, checkOrigins("v1.origins", c.V1.Origins), checkOrigins("mcp.origins", c.MCP.Origins))...)
}

func checkOrigins(field string, origins []string) error {
	for i, o := range origins {
		if !webOrigin().MatchString(o) {
			return fault.InvalidField(fmt.Sprintf("%s[%d]", field, i), "%q is not an origin as browsers send it: use scheme://host or scheme://host:port in lower case, without a path, or * for all.", o)
		}
	}
	return nil
}
