package config

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"lilac/internal/foundation/fault"
)

// TokenFile is the file of the data directory that holds the token when the operator
// sets none.
const TokenFile = "token"

// OperatorToken is the operator's own token, else the one in the data directory. It is
// empty when there is none yet.
func (c *Config) OperatorToken() (string, error) {
	if c.Token.Set() {
		return c.Token.Reveal(), nil
	}
	path := filepath.Join(c.DataDir, TokenFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fault.Wrap(fault.Invalid, err, "The token in %s cannot be read. Look at its owner and mode, or remove it: the next start makes another one.", path)
	}
	token := strings.TrimSpace(string(data))
	if token != "" && len(token) < minTokenLength {
		return "", fault.New(fault.Invalid, "The token in %s is shorter than %d characters. Remove it: the next start makes another one.", path, minTokenLength)
	}
	return token, nil
}
